import { duration } from "@/format/time";
import type { NodeStatus } from "@/graph/graph";
import type { RunPicture, ShownStep } from "./runGraph";
import type { Run } from "./model";
import { decisionOf, hasEnded, instant, statusOf, waitOf } from "./states";

/** Something that happened to a run, for the list in time order. */
export interface Happening {
  key: string;
  at: number;
  /** The step that it is about; null for the run itself. */
  step: ShownStep | null;
  status: NodeStatus | "requested";
  title: string;
  words: string;
}

/** Steps of these kinds are recorded when they end; steps of all other kinds also when they begin to wait. */
const AT_ONCE = new Set(["step", "value", "undo", "failure"]);

/** All that happened in a run and its open sub-runs, in the order of time. */
export function happeningsOf(run: Run, picture: RunPicture): Happening[] {
  const found = [...picture.steps.values()].flatMap(ofStep);
  const own = { step: null, title: run.workflow };
  found.push({ ...own, key: "^requested", at: Date.parse(run.created_at), status: "requested", words: `requested by ${run.requested_by}` });
  if (run.cancel_requested_at !== null)
    found.push({ ...own, key: "^cancel", at: instant(run.cancel_requested_at), status: "canceled", words: "asked to stop" });
  if (run.finished_at !== null && hasEnded(run)) {
    found.push({
      ...own,
      key: "^ended",
      at: instant(run.finished_at),
      status: run.status,
      words: `${run.status} after ${duration(instant(run.finished_at) - instant(run.created_at))}`,
    });
  }
  // Sorting keeps the order of those of one time.
  return found.sort((one, other) => one.at - other.at);
}

function ofStep(shown: ShownStep): Happening[] {
  const { id, step, run, title } = shown;
  const status = statusOf(step, run);
  const began = { key: `${id} began`, at: instant(step.started_at), step: shown, title };
  if (step.finished_at === null) {
    const wait = waitOf(step);
    const words = hasEnded(run) ? "unfinished" : wait === undefined ? "started" : `waits for ${wait}`;
    return [{ ...began, status, words }];
  }
  const took = duration(Math.max(0, instant(step.finished_at) - instant(step.started_at)));
  const message = step.error === null ? undefined : step.error["message"];
  const outcome =
    decisionOf(step) ??
    (step.status === "failed" ? `failed${typeof message === "string" ? `: ${message}` : ""}` : `${step.status} after ${took}`);
  const ended = { key: `${id} ended`, at: instant(step.finished_at), step: shown, title, status, words: outcome };
  if (AT_ONCE.has(step.kind)) return [ended];
  return [{ ...began, status: "waiting", words: step.child_name === null ? `started waiting` : `started ${step.child_name}` }, ended];
}
