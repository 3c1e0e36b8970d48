import { clockTime, duration } from "@/format/time";
import { spaced } from "@/format/words";
import { statusWord } from "@/graph/words";
import type { NodeStatus } from "@/graph/graph";
import type { ListedStep, Run } from "./model";

const ENDED = new Set<Run["status"]>(["succeeded", "failed", "canceled"]);

export function hasEnded(run: Pick<Run, "status">): boolean {
  return ENDED.has(run.status);
}

interface Ended {
  status: Run["status"] | "dead_letter";
  error: Run["error"];
}

/** Whether a run, or its job, failed and has undone what it did: it cannot go on from there, and is forked. */
export function hasUndone({ status, error }: Ended): boolean {
  const undone: unknown = error["compensated"];
  return (status === "failed" || status === "dead_letter") && Array.isArray(undone) && undone.length > 0;
}

export function mayRetry(one: Ended): boolean {
  return ["failed", "dead_letter", "canceled"].includes(one.status) && !hasUndone(one);
}

/** How a step stands, by what it waits for and by what became of its run. */
export function statusOf(step: ListedStep, run: Pick<Run, "status">): NodeStatus {
  if (step.status === "succeeded" || step.status === "failed") return step.status;
  if (hasEnded(run)) return "canceled";
  if (step.status === "retrying") return "retrying";
  if (step.child_status === "running") return "running";
  return step.kind === "job" && step.child_status === "queued" ? "queued" : "waiting";
}

/** What a step that is not done waits for, and until when; undefined if it does not wait. */
export function waitOf(step: ListedStep): string | undefined {
  if (step.finished_at !== null) return undefined;
  const until = step.wake_at === null ? "" : ` until ${clockTime(new Date(step.wake_at))}`;
  if (step.status === "retrying") return `attempt ${step.attempts + 1}${until.replace("until", "at")}`;
  switch (step.kind) {
    case "sleep":
      return `the time${until.replace(" until", ":")}`;
    case "event": {
      const match = step.event_match ?? {};
      return `the event ${step.event_name ?? step.name}${Object.keys(match).length === 0 ? "" : ` with ${JSON.stringify(match)}`}${until}`;
    }
    case "approval":
      return `an approval${until}`;
    default:
      return `${step.kind === "child" ? "the run" : "the job"} ${step.child_name ?? step.name}${step.child_status === null ? ", which is deleted" : `, which is ${spaced(step.child_status)}`}${until}`;
  }
}

/** The second line of a step's node: until when it waits, how long it took, what it is about. */
export function detailOf(step: ListedStep): string {
  const took = step.finished_at === null ? undefined : duration(Math.max(0, instant(step.finished_at) - instant(step.started_at)));
  const until =
    step.finished_at !== null || step.wake_at === null
      ? undefined
      : `${step.status === "retrying" ? "again at" : "until"} ${clockTime(new Date(step.wake_at))}`;
  const awaited = step.finished_at === null ? step.event_name : null;
  return [awaited, until, took, decisionOf(step), step.child_name].filter((part) => part !== undefined && part !== null).join(" · ");
}

/** Who decided an approval, and how. */
export function decisionOf(step: ListedStep): string | undefined {
  if (step.kind !== "approval" || step.approval_status === null || step.approval_status === "pending") return undefined;
  return step.decided_by === null ? step.approval_status : `${step.approval_status} by ${step.decided_by}`;
}

/** What is worst comes first: a group is as its worst member. */
const WORST: readonly NodeStatus[] = [
  "failed",
  "running",
  "retrying",
  "waiting",
  "queued",
  "canceled",
  "unreached",
  "succeeded",
  "skipped",
];

export function worstOf(statuses: readonly NodeStatus[]): NodeStatus {
  return WORST.find((status) => statuses.includes(status)) ?? "unreached";
}

/** "12 items · 3 failed": how many a group has, and how many of its steps have not succeeded. */
export function tallyOf(statuses: readonly NodeStatus[], counted: string): string {
  const others = WORST.filter((status) => status !== "succeeded").map(
    (status) => [statuses.filter((each) => each === status).length, status] as const,
  );
  return [counted, ...others.filter(([number]) => number > 0).map(([number, status]) => `${number} ${statusWord(status)}`)].join(" · ");
}

/** Milliseconds with the fraction that the server gives: steps of one run are often less than one apart. */
export function instant(time: string): number {
  const micros = /\.\d{3}(\d{1,3})/.exec(time)?.[1]?.padEnd(3, "0") ?? "0";
  return Date.parse(time) + Number(micros) / 1000;
}
