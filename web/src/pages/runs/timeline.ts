import type { ListedStep } from "./model";

type Timed = Pick<ListedStep, "started_at" | "finished_at">;

export interface Bar {
  /** Both in percent of the run's time. */
  left: number;
  width: number;
}

const NARROWEST = 0.6;

/** Where the steps of a run lie in its time, drawn to scale; what has not ended reaches to its end. */
export function barsOf(from: number, to: number, steps: readonly Timed[]): Bar[] {
  const whole = Math.max(1, to - from);
  return steps.map((step) => {
    const start = Date.parse(step.started_at);
    const end = step.finished_at === null ? to : Date.parse(step.finished_at);
    const left = Math.min(100 - NARROWEST, Math.max(0, ((start - from) / whole) * 100));
    return { left, width: Math.min(100 - left, Math.max(NARROWEST, ((end - start) / whole) * 100)) };
  });
}

/** How deep a step lies: each branch of a gather is one level. */
export function depthOf(branch: string): number {
  return branch === "" ? 0 : branch.split("/").length;
}
