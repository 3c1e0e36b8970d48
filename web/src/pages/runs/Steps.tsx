import { ChevronDown, ChevronRight } from "lucide-react";
import { statusColour, StatusChip } from "@/components/StatusChip";
import { Duration, useNow } from "@/components/Time";
import { cx } from "@/format/words";
import styles from "./Runs.module.css";
import type { ListedStep, Run } from "./model";
import { hasEnded, statusOf, waitOf } from "./states";
import { StepDetail } from "./StepPanel";
import { barsOf, depthOf } from "./timeline";

interface StepsProps {
  run: Run;
  steps: readonly ListedStep[];
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
        const wait = hasEnded(run) ? undefined : waitOf(step);
        return (
          <li key={step.key} className={cx(styles.step, isOpen && styles.opened)}>
            <button type="button" className={styles.line} aria-expanded={isOpen} onClick={() => onOpen(isOpen ? undefined : step.key)}>
              <span className={styles.name} style={{ paddingLeft: depthOf(step.branch) * 16 }}>
                {isOpen ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}
                <span className="truncate">{step.name}</span>
                <span className={styles.kind}>{step.kind}</span>
              </span>
              <StatusChip status={statusOf(step, run)} />
              <span className={styles.track} aria-hidden>
                {bar !== undefined && (
                  <span
                    className={styles.bar}
                    style={{ left: `${bar.left}%`, width: `${bar.width}%`, background: statusColour(statusOf(step, run)) }}
                  />
                )}
              </span>
              <span className={styles.took}>
                <Duration from={step.started_at} to={step.finished_at} />
              </span>
            </button>
            {!isOpen && wait !== undefined && <p className={styles.waits}>Waits for {wait}</p>}
            {isOpen && (
              <div className={styles.detail}>
                <StepDetail runId={run.id} step={step} hasRunEnded={hasEnded(run)} />
              </div>
            )}
          </li>
        );
      })}
    </ol>
  );
}
