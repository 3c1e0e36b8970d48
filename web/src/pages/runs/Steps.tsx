import { Link } from "@tanstack/react-router";
import { ChevronDown, ChevronRight } from "lucide-react";
import { CopyButton } from "@/components/Id";
import { JsonView } from "@/components/JsonView";
import { statusColour, StatusChip } from "@/components/StatusChip";
import { Duration, Time, useNow } from "@/components/Time";
import { plural } from "@/format/numbers";
import { cx } from "@/format/words";
import styles from "./Runs.module.css";
import type { Run, Step } from "./runs";
import { barsOf, depthOf } from "./timeline";

interface StepsProps {
  run: Run;
  steps: readonly Step[];
  /** The key of the step that is open. */
  open: string | undefined;
  onOpen: (key: string | undefined) => void;
}

/** The steps of a run in the order of their beginning, drawn to scale beside their names. */
export function Steps({ run, steps, open, onOpen }: StepsProps) {
  const now = useNow();
  const bars = barsOf(Date.parse(run.created_at), run.finished_at === null ? now : Date.parse(run.finished_at), steps);
  return (
    <ol className={styles.steps} aria-label="Steps">
      {steps.map((step, index) => {
        const isOpen = step.key === open;
        const bar = bars[index];
        return (
          <li key={step.key} className={cx(styles.step, isOpen && styles.opened)}>
            <button type="button" className={styles.line} aria-expanded={isOpen} onClick={() => onOpen(isOpen ? undefined : step.key)}>
              <span className={styles.name} style={{ paddingLeft: depthOf(step.branch) * 16 }}>
                {isOpen ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}
                <span className="truncate">{step.name}</span>
                <span className={styles.kind}>{step.kind}</span>
              </span>
              <StatusChip status={step.status} />
              <span className={styles.track} aria-hidden>
                {bar !== undefined && <span className={styles.bar} style={{ left: `${bar.left}%`, width: `${bar.width}%`, background: statusColour(step.status) }} />}
              </span>
              <span className={styles.took}>
                <Duration from={step.started_at} to={step.finished_at} />
              </span>
            </button>
            {step.waits_for !== null && step.finished_at === null && <p className={styles.waits}>Waits for {step.waits_for}</p>}
            {isOpen && <StepDetail step={step} />}
          </li>
        );
      })}
    </ol>
  );
}

function StepDetail({ step }: { step: Step }) {
  return (
    <div className={styles.detail}>
      <p className="quiet">
        Started <Time at={step.started_at} />
        {step.attempts > 1 && `, ${plural(step.attempts, "attempt")}`}
        {step.wake_at !== null && step.finished_at === null && (
          <>
            , goes on by itself <Time at={step.wake_at} />
          </>
        )}
        . Key <code>{step.key}</code> <CopyButton text={step.key} label="Copy the key" />
      </p>
      <Leads step={step} />
      {step.error !== null && <JsonView label="error" value={step.error} />}
      {!isNothing(step.input) && (
        <>
          <h3>Input</h3>
          <JsonView label="input" value={step.input} />
        </>
      )}
      {step.status === "succeeded" && (
        <>
          <h3>Output</h3>
          <JsonView label="output" value={step.output} />
        </>
      )}
    </div>
  );
}

/** Links to the job, run or approval that a step is about. */
function Leads({ step }: { step: Step }) {
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
