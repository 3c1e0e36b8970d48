import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { client } from "@/api/client";
import { Button } from "@/components/Button";
import { ChangeDialog } from "@/components/Dialog";
import { Field, Select } from "@/components/Form";
import { ProblemLine } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { plural } from "@/format/numbers";
import { cx } from "@/format/words";
import { useChange } from "@/components/useChange";
import { MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { DiffView } from "./DiffView";
import { layOut } from "./layout";
import { Runs } from "./Runs";
import { sumOf, useFieldOrder, useIsOwn, useRunCounts, useVersion, useVersions, versionWord, type Workflow } from "./workflows";
import styles from "./Workflows.module.css";

/** The versions of a workflow, and the differences between any two of them. */
export function Versions({ newest }: { newest: Workflow }) {
  const search = useSearch({ from: "/workflows/$key" });
  const navigate = useNavigate({ from: "/workflows/$key" });
  const versions = useVersions(newest.key);
  const [restored, setRestored] = useState<Workflow>();
  const listed = versions.rows ?? [];
  const to = search.to ?? newest.version;
  const from = search.from ?? listed.find((one) => one.version < to && one.document !== null)?.version ?? to;
  const compare = (changes: { from?: number; to?: number }): void =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true });
  return (
    <div className={styles.compare}>
      <div>
        <ol className={styles.versions} aria-label="Versions">
          {listed.map((one) => (
            <Version
              key={one.id}
              one={one}
              newest={newest}
              isShown={one.version === to || one.version === from}
              onCompare={() => compare({ from: one.version, to: newest.version })}
              onRestore={() => setRestored(one)}
            />
          ))}
        </ol>
        {versions.hasNextPage && (
          <Button kind="ghost" busy={versions.isFetchingNextPage} onClick={() => void versions.fetchNextPage()}>
            Show older ones
          </Button>
        )}
      </div>
      <Comparison workflowKey={newest.key} versions={listed} from={from} to={to} onCompare={compare} />
      {restored !== undefined && <RollBackDialog version={restored.version} newest={newest} onClose={() => setRestored(undefined)} />}
    </div>
  );
}

interface VersionProps {
  one: Workflow;
  newest: Workflow;
  isShown: boolean;
  onCompare: () => void;
  onRestore: () => void;
}

function Version({ one, newest, isShown, onCompare, onRestore }: VersionProps) {
  const counts = sumOf(useRunCounts(), one.key, one.version);
  const manages = useCan(MANAGERS);
  const isOwn = useIsOwn(newest);
  const isNewest = one.version === newest.version;
  return (
    <li className={cx(styles.version, isShown && styles.shown)}>
      <span className={styles.about}>
        <span className={styles.headline}>
          {one.version === 0 ? "In code" : `Version ${one.version}`}
          {isNewest && <span className="quiet">newest</span>}
          {counts.total > 0 && <Runs sum={counts} />}
        </span>
        <span className="quiet truncate" title={`by ${one.created_by}`}>
          <Time at={one.created_at} /> by {one.created_by}
        </span>
      </span>
      {!isNewest && one.document !== null && (
        <>
          <Button kind="ghost" aria-label={`Compare version ${one.version} with the newest`} onClick={onCompare}>
            Compare
          </Button>
          {manages && isOwn && (
            <Button aria-label={`Roll back to version ${one.version}`} onClick={onRestore}>
              Roll back
            </Button>
          )}
        </>
      )}
    </li>
  );
}

interface ComparisonProps {
  workflowKey: string;
  versions: readonly Workflow[];
  from: number;
  to: number;
  onCompare: (changes: { from?: number; to?: number }) => void;
}

function Comparison({ workflowKey, versions, from, to, onCompare }: ComparisonProps) {
  const before = useVersion(workflowKey, from);
  const after = useVersion(workflowKey, to);
  const order = useFieldOrder();
  const numbers = [...new Set([...versions.filter((one) => one.document !== null).map((one) => one.version), from, to])].sort(
    (a, b) => b - a,
  );
  const choice = (label: string, value: number, onChange: (version: number) => void) => (
    <Field label={label}>
      {(control) => (
        <Select {...control} value={value} onChange={(event) => onChange(Number(event.target.value))}>
          {numbers.map((one) => (
            <option key={one} value={one}>
              {versionWord(one)}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
  return (
    <section className={styles.side} aria-label="Differences">
      <div className={styles.chooser}>
        {choice("From", from, (version) => onCompare({ from: version }))}
        {choice("To", to, (version) => onCompare({ to: version }))}
      </div>
      <ProblemLine error={before.error ?? after.error} />
      {before.data !== undefined && after.data !== undefined ? (
        <DiffView
          label={`Differences between ${versionWord(from)} and ${versionWord(to)}`}
          before={layOut(before.data.document, order)}
          after={layOut(after.data.document, order)}
        />
      ) : (
        before.error === null && after.error === null && <Skeleton height={200} />
      )}
    </section>
  );
}

function RollBackDialog({ version, newest, onClose }: { version: number; newest: Workflow; onClose: () => void }) {
  const { key } = newest;
  const tenant = useTenant();
  const queries = useQueryClient();
  const navigate = useNavigate({ from: "/workflows/$key" });
  const { active } = sumOf(useRunCounts(), key);
  const change = useChange(
    async () => {
      const body = { version, expected_version: newest.version };
      await client.POST("/api/v1/workflows/{key}/rollback", { params: { path: { key }, query: { tenant } }, body });
      await queries.invalidateQueries();
    },
    {
      done: () => `${key} is rolled back to version ${version}`,
      lists: [],
      onDone: () => {
        onClose();
        void navigate({ search: ({ tenant: chosen }) => ({ tenant: chosen, tab: "versions" as const }), replace: true });
      },
    },
  );
  return (
    <ChangeDialog
      onClose={onClose}
      title={`Roll back to version ${version}?`}
      description={`Version ${newest.version + 1} will hold what version ${version} holds, and runs that start from now on use it. ${active === 0 ? "Runs that have started keep their version." : `${plural(active, "run")} that ${active === 1 ? "has" : "have"} begun ${active === 1 ? "keeps its" : "keep their"} version.`}`}
      action={`Roll back to version ${version}`}
      change={change}
    />
  );
}
