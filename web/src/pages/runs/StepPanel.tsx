import { Link } from "@tanstack/react-router";
import { GitFork, X } from "lucide-react";
import { useState } from "react";
import { Button, IconButton } from "@/components/Button";
import { CopyButton } from "@/components/Id";
import { JsonView } from "@/components/JsonView";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Duration, Time } from "@/components/Time";
import { plural } from "@/format/numbers";
import { capitalized } from "@/format/words";
import type { GraphNode } from "@/graph/graph";
import { KIND_WORDS, statusWord } from "@/graph/words";
import { MANAGERS, useCan } from "@/session/session";
import type { ShownStep } from "./runGraph";
import styles from "./RunGraph.module.css";
import { useStep } from "./runs";
import { ForkDialog } from "./ForkDialog";
import type { ListedStep } from "./model";
import { decisionOf, hasEnded, statusOf, waitOf } from "./states";

/** One step: what it waits for, its job, run or approval, what went in and came out; and a fork from it. */
export function StepPanel({ shown, onClose }: { shown: ShownStep; onClose: () => void }) {
  const { step, run } = shown;
  const manages = useCan(MANAGERS);
  const [isForking, setForking] = useState(false);
  const status = statusOf(step, run);
  return (
    <section className={styles.panel} aria-label={`Step ${step.name}`}>
      <div className={styles.head}>
        <h2 className="truncate">{step.name}</h2>
        <StatusChip status={status} label={statusWord(status)} />
        <div className={styles.actions}>
          {manages && (
            <Button icon={<GitFork size={14} aria-hidden />} onClick={() => setForking(true)}>
              Fork from here
            </Button>
          )}
          <IconButton label="Close the step" onClick={onClose}>
            <X size={16} aria-hidden />
          </IconButton>
        </div>
      </div>
      <StepDetail runId={run.id} step={step} hasRunEnded={hasEnded(run)} />
      {isForking && <ForkDialog runId={run.id} step={step} onClose={() => setForking(false)} />}
    </section>
  );
}

/** Everything about a step; its input and output are fetched when it is opened. */
export function StepDetail({ runId, step, hasRunEnded }: { runId: string; step: ListedStep; hasRunEnded: boolean }) {
  const whole = useStep(runId, step.key);
  const wait = hasRunEnded ? undefined : waitOf(step);
  const decision = decisionOf(step);
  return (
    <>
      {wait !== undefined && <p className={styles.wait}>Waits for {wait}.</p>}
      <p className="quiet">
        {capitalized(KIND_WORDS[step.kind as GraphNode["kind"]])}, started <Time at={step.started_at} />,{" "}
        {step.finished_at === null ? "for " : "took "}
        <Duration from={step.started_at} to={step.finished_at} />
        {step.attempts > 1 && `, ${plural(step.attempts, "attempt")}`}
        {decision !== undefined && `, ${decision}`}. Key <code>{step.key}</code> <CopyButton text={step.key} label="Copy the key" />
      </p>
      <Leads step={step} />
      {whole.step !== undefined ? (
        <>
          {whole.step.error !== null && <JsonView label="error" value={whole.step.error} />}
          {!isNothing(whole.step.input) && (
            <>
              <h3>Input</h3>
              <JsonView label="input" value={whole.step.input} />
            </>
          )}
          {step.status === "succeeded" && (
            <>
              <h3>Output</h3>
              <JsonView label="output" value={whole.step.output} />
            </>
          )}
        </>
      ) : whole.isError ? (
        <ProblemView error={whole.error} onRetry={() => void whole.refetch()} />
      ) : (
        whole.isPending && <Skeleton height={48} />
      )}
    </>
  );
}

/** Links to the job, run or approval that a step is about. */
function Leads({ step }: { step: ListedStep }) {
  if (step.approval_id !== null) {
    return (
      <Link to="/approvals" search={({ tenant }) => ({ tenant, open: step.approval_id ?? undefined })}>
        Open the approval
      </Link>
    );
  }
  if (step.child_id === null) return null;
  const search = ({ tenant }: { tenant?: string | undefined }): { tenant: string | undefined } => ({ tenant });
  return (
    <p>
      {step.kind === "child" ? (
        <Link to="/runs/$runId" params={{ runId: step.child_id }} search={search}>
          Open its run
        </Link>
      ) : (
        <Link to="/jobs/$jobId" params={{ jobId: step.child_id }} search={search}>
          Open its job
        </Link>
      )}{" "}
      {step.child_status !== null && <StatusChip status={step.child_status} />}
    </p>
  );
}

function isNothing(value: unknown): boolean {
  return value === null || value === undefined || (typeof value === "object" && Object.keys(value).length === 0);
}

/** A node that is no step: a group of them, or a step that the run has not come to. */
export function NodePanel({ node, onClose, onToggle }: { node: GraphNode; onClose: () => void; onToggle: (() => void) | undefined }) {
  const words: Partial<Record<NonNullable<GraphNode["status"]>, string>> = {
    unreached: "The run has not reached this step.",
    skipped: "Skipped: its condition was false, or a step that it needs was skipped.",
    running: "Running on a worker. A step in code is recorded when it finishes.",
  };
  return (
    <section className={styles.panel} aria-label={node.label}>
      <div className={styles.head}>
        <h2 className="truncate">{node.label}</h2>
        {node.status !== undefined && <StatusChip status={node.status} label={statusWord(node.status)} />}
        <div className={styles.actions}>
          {onToggle !== undefined && <Button onClick={onToggle}>{node.inner === undefined ? "Unfold" : "Fold"}</Button>}
          <IconButton label="Close the step" onClick={onClose}>
            <X size={16} aria-hidden />
          </IconButton>
        </div>
      </div>
      <p>{(node.folds === true ? undefined : words[node.status ?? "queued"]) ?? `${capitalized(node.detail ?? "")}.`}</p>
      {node.badges?.map((badge) => (
        <p key={badge.label} className="quiet">
          {badge.title}.
        </p>
      ))}
    </section>
  );
}
