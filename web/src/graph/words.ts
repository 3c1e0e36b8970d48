import { spaced } from "@/format/words";
import type { NodeKind, NodeStatus } from "./graph";

/** What a kind of node is called. */
export const KIND_WORDS: Record<NodeKind, string> = {
  start: "start",
  end: "end",
  step: "step",
  job: "job",
  child: "sub-run",
  sleep: "wait",
  event: "event",
  approval: "approval",
  value: "value",
  failure: "failure",
  undo: "undoing",
  fold: "group",
};

/** A node's status in words. */
export function statusWord(status: NodeStatus): string {
  return status === "unreached" ? "not reached" : spaced(status);
}
