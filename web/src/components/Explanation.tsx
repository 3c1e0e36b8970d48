import { CircleHelp } from "lucide-react";
import type { Schemas } from "@/api/client";
import { nameCommand } from "@/format/command";
import { RemedyButton } from "@/remedies/RemedyButton";
import { Command } from "./EmptyState";
import styles from "./Explanation.module.css";
import { Parts } from "./Sentence";
import { Skeleton } from "./Skeleton";

/** Why something does not go on, in one sentence, and the way out: for a job, a run, a trigger and a worker. */
export function Explanation({
  found,
}: {
  found: Pick<Schemas["JobExplanation"], "kind" | "parts" | "remedy" | "command" | "action"> | undefined;
}) {
  return (
    <div className={styles.explanation} role="status">
      <CircleHelp size={16} aria-hidden />
      <div className={styles.text}>
        <p>{found === undefined ? <Skeleton width="60%" /> : <Parts parts={found.parts ?? []} />}</p>
        {found !== undefined && found.remedy !== null && <p className={styles.remedy}>{nameCommand(found.remedy)}</p>}
      </div>
      {found?.action != null && <RemedyButton about={found.kind} action={found.action} />}
      {found !== undefined && found.command !== null && <Command text={found.command} />}
    </div>
  );
}
