import { useMemo } from "react";
import { DataTable, type Column } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { Field, Select } from "@/components/Form";
import { JsonView } from "@/components/JsonView";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { exactTime, duration } from "@/format/time";
import { cx, shortId } from "@/format/words";
import { statusWord } from "@/graph/words";
import styles from "./Compare.module.css";
import { outcomeOf, pairsOf, verdictOf, type Pair } from "./compare";
import type { Run, Step } from "./model";
import { useRun, useRuns, useSteps } from "./runs";
import { instant, statusOf } from "./states";

interface CompareProps {
  run: Run;
  /** The id of the run that it is compared with. */
  other: string | undefined;
  onOther: (id: string | undefined) => void;
  /** The key of the step whose difference is open. */
  step: string | undefined;
  onStep: (key: string | undefined) => void;
}

/** Two runs of one workflow, step by step. */
export function Compare({ run, other, onOther, step, onStep }: CompareProps) {
  const runs = useRuns({ workflow: run.workflow });
  const others = (runs.rows ?? []).filter((one) => one.id !== run.id);
  // A link may lead to a run that is older than those of the list.
  const isListed = other === undefined || others.some((one) => one.id === other);
  return (
    <div className={styles.compare}>
      <div className={styles.choice}>
        <Field label="Compare with">
          {(control) => (
            <Select
              {...control}
              value={other ?? ""}
              onChange={(event) => onOther(event.target.value === "" ? undefined : event.target.value)}
            >
              <option value="">Choose another run of {run.workflow}</option>
              {others.map((one) => (
                <option key={one.id} value={one.id}>
                  {exactTime(new Date(one.created_at)).slice(0, 19)} · {one.status} · {shortId(one.id)}
                  {one.id === run.forked_from ? " · this one is its fork" : one.forked_from === run.id ? " · fork of this one" : ""}
                </option>
              ))}
              {!isListed && <option value={other}>{other}</option>}
            </Select>
          )}
        </Field>
      </div>
      {other === undefined ? (
        <EmptyState
          title={runs.isPending || others.length > 0 ? "Choose a run to compare with" : `There is no other run of ${run.workflow}`}
        >
          Steps stand side by side by their keys: their status, how long they took, and where their outputs differ.
        </EmptyState>
      ) : (
        <Pairs key={other} run={run} otherId={other} open={step} onOpen={onStep} />
      )}
    </div>
  );
}

function Pairs({
  run,
  otherId,
  open,
  onOpen,
}: {
  run: Run;
  otherId: string;
  open: string | undefined;
  onOpen: (key: string | undefined) => void;
}) {
  const { run: other } = useRun(otherId);
  const [left, right] = [useSteps(run.id), useSteps(otherId)];
  const [ours, theirs] = [left.rows, right.rows];
  const pairs = useMemo(() => (ours === undefined || theirs === undefined ? undefined : pairsOf(ours, theirs)), [ours, theirs]);
  const columns = useMemo(() => columnsOf(run, other.data), [run, other.data]);
  if (other.isError) return <ProblemView error={other.error} onRetry={() => void other.refetch()} />;
  if (other.data === undefined) return <Skeleton height={160} />;
  const chosen = pairs?.find((pair) => pair.key === open);
  return (
    <>
      <DataTable
        label="Steps of both runs"
        rows={pairs}
        rowKey={(pair) => pair.key}
        columns={columns}
        query={left.isError ? left : right}
        onOpen={(pair) => onOpen(pair.key === open ? undefined : pair.key)}
        openKey={open}
        empty={<EmptyState title="Neither run has recorded a step" />}
      />
      {chosen !== undefined && <PairDetail pair={chosen} />}
    </>
  );
}

function columnsOf(run: Run, other: Run | undefined): Column<Pair>[] {
  return [
    { key: "step", header: "Step", width: "minmax(120px, 2fr)", text: (pair) => pair.key },
    { key: "left", header: "This run", width: "minmax(110px, 1fr)", cell: (pair) => <Outcome step={pair.left} run={run} /> },
    { key: "right", header: "Other run", width: "minmax(110px, 1fr)", cell: (pair) => <Outcome step={pair.right} run={other ?? run} /> },
    { key: "took", header: "Took", width: "90px", align: "end", wideOnly: true, cell: (pair) => tookOf(pair.left) },
    { key: "tookOther", header: "Other run", width: "90px", align: "end", wideOnly: true, cell: (pair) => tookOf(pair.right) },
    {
      key: "slower",
      header: "Slower by",
      width: "96px",
      align: "end",
      wideOnly: true,
      cell: (pair) =>
        pair.slower === undefined || Math.abs(pair.slower) < 1 ? "" : `${pair.slower < 0 ? "−" : "+"}${duration(Math.abs(pair.slower))}`,
    },
    {
      key: "verdict",
      header: "Output",
      width: "minmax(120px, 1fr)",
      cell: (pair) => {
        const verdict = verdictOf(pair);
        return <span className={cx("truncate", verdict === "the same" ? "quiet" : styles.differs)}>{verdict}</span>;
      },
    },
  ];
}

function Outcome({ step, run }: { step: Step | undefined; run: Run }) {
  if (step === undefined) return <span className="quiet">not there</span>;
  const status = statusOf(step, run);
  return <StatusChip status={status} label={statusWord(status)} />;
}

function tookOf(step: Step | undefined): string {
  return step === undefined || step.finished_at === null ? "" : duration(Math.max(0, instant(step.finished_at) - instant(step.started_at)));
}

/** Where the outputs of a step differ, and both whole. */
function PairDetail({ pair }: { pair: Pair }) {
  return (
    <section className={styles.detail} aria-label={`Differences of ${pair.key}`}>
      <h2>{pair.key}</h2>
      {pair.outputs.length > 0 && (
        <table className={styles.differences}>
          <thead>
            <tr>
              <th>Where</th>
              <th>This run</th>
              <th>Other run</th>
            </tr>
          </thead>
          <tbody>
            {pair.outputs.map((one) => (
              <tr key={one.path}>
                <td className="mono">{one.path === "" ? "all of it" : one.path}</td>
                <td className="mono">{shown(one.left)}</td>
                <td className="mono">{shown(one.right)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <div className={styles.both}>
        <Side title="This run" step={pair.left} />
        <Side title="Other run" step={pair.right} />
      </div>
    </section>
  );
}

function Side({ title, step }: { title: string; step: Step | undefined }) {
  return (
    <div className={styles.side}>
      <h3>{title}</h3>
      {step === undefined ? (
        <p className="quiet">It did not reach this step.</p>
      ) : (
        <JsonView label={`output of ${title.toLowerCase()}`} value={outcomeOf(step)} />
      )}
    </div>
  );
}

const MAX_CHARACTERS = 200;

function shown(value: unknown): string {
  const text = value === undefined ? "not there" : JSON.stringify(value);
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
}
