import { useState } from "react";
import { Action, Button } from "@/components/Button";
import { serverNow } from "@/format/clock";
import { plural } from "@/format/numbers";
import { useShortcut } from "@/frame/shortcuts";
import { ForkAnewDialog } from "@/pages/runs/ForkDialog";
import { hasUndone, mayRetry } from "@/pages/runs/states";
import { APPLIES_TO, type BulkVerb, VERBS } from "./bulk";
import { BulkDialog } from "./BulkDialog";
import type { ListedJob } from "./jobs";
import styles from "./Jobs.module.css";
import { filtersAt, type JobStatus, type ListFilters } from "./search";

interface BulkBarProps {
  chosen: ReadonlySet<string>;
  rows: readonly ListedJob[];
  filters: ListFilters;
  hasMore: boolean;
  onClear: () => void;
  onDone: () => void;
}

const ORDER: readonly BulkVerb[] = ["retry", "cancel", "discard", "delete"];
const MAX_IDS = 1000;

/** What can be done to the chosen rows, or to all that match the filters. */
export function BulkBar({ chosen, rows, filters, hasMore, onClear, onDone }: BulkBarProps) {
  const [everything, setEverything] = useState(false);
  const [verb, setVerb] = useState<BulkVerb | "fork" | null>(null);
  const [askedAt, setAskedAt] = useState(0);
  const picked = rows.filter((row) => chosen.has(row.id)).slice(0, MAX_IDS);
  const canChooseAll = hasMore && picked.length === rows.length && Object.keys(filters).length > 0;
  const all = everything && canChooseAll;
  const mayDo = (one: BulkVerb, row: ListedJob): boolean => APPLIES_TO[one].includes(row.status) && (one !== "retry" || mayRetry(row));
  const isOffered = (one: BulkVerb): boolean => (all ? overlaps(APPLIES_TO[one], filters.status) : picked.some((row) => mayDo(one, row)));
  // A run that undid its steps is forked: a retry is refused.
  const undone = !all && picked.length === 1 ? picked.find(hasUndone) : undefined;
  const ask = (one: BulkVerb): void => {
    setAskedAt(serverNow());
    setVerb(one);
  };
  useShortcut("r", "Retry the chosen jobs", () => ask("retry"), isOffered("retry"));
  useShortcut("r", "Fork the chosen run", () => setVerb("fork"), undone !== undefined);
  return (
    <div className={styles.chosen} role="toolbar" aria-label="Chosen jobs">
      <span>{all ? "All jobs that match the filters" : `${plural(picked.length, "job")} chosen`}</span>
      {ORDER.filter(isOffered).map((one) => (
        <Button key={one} onClick={() => ask(one)}>
          {VERBS[one].label}
        </Button>
      ))}
      {undone !== undefined && <Button onClick={() => setVerb("fork")}>Fork</Button>}
      {canChooseAll && (
        <Action onClick={() => setEverything(!everything)}>{all ? "Only those that are loaded" : "Choose all that match"}</Action>
      )}
      <Action onClick={onClear}>Clear</Action>
      {verb !== null && verb !== "fork" && (
        <BulkDialog
          verb={verb}
          selection={all ? { filter: filtersAt(filters, askedAt) } : { ids: picked.map((row) => row.id) }}
          onClose={() => setVerb(null)}
          onDone={() => {
            onClear();
            onDone();
          }}
        />
      )}
      {verb === "fork" && undone !== undefined && <ForkAnewDialog runId={undone.id} onClose={() => setVerb(null)} />}
    </div>
  );
}

function overlaps(statuses: readonly JobStatus[], filter: readonly JobStatus[] | undefined): boolean {
  return filter === undefined || filter.some((status) => statuses.includes(status));
}
