import type { Step } from "./model";
import { instant } from "./states";

/** How two values differ at a place: `left` or `right` is undefined where only the other has it. */
export interface Difference {
  path: string;
  left: unknown;
  right: unknown;
}

/** Where two JSON values differ, in the order of the first, up to a maximum. */
export function differences(left: unknown, right: unknown, most = 100): Difference[] {
  const found: Difference[] = [];
  const walk = (one: unknown, other: unknown, path: string): void => {
    if (found.length >= most || Object.is(one, other)) return;
    if (!isBranch(one) || !isBranch(other) || Array.isArray(one) !== Array.isArray(other)) {
      found.push({ path, left: one, right: other });
      return;
    }
    for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
      walk(one[key], other[key], Array.isArray(one) ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`);
    }
  };
  walk(left, right, "");
  return found;
}

function isBranch(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** A step of two runs side by side. */
export interface Pair {
  key: string;
  left: Step | undefined;
  right: Step | undefined;
  /** Of what came out: the output, or the error. */
  outputs: Difference[];
  /** By how many milliseconds the second took longer; undefined unless both have ended. */
  slower: number | undefined;
}

/** The steps of two runs by their keys, in the order of the first; what only the second has comes where it began. */
export function pairsOf(left: readonly Step[], right: readonly Step[]): Pair[] {
  const byKey = new Map(right.map((step) => [step.key, step]));
  const own = new Set(left.map((step) => step.key));
  const pairs = left.map((step) => pairOf(step.key, step, byKey.get(step.key)));
  right.forEach((step, at) => {
    if (own.has(step.key)) return;
    const before = right[at - 1]?.key;
    pairs.splice(pairs.findIndex((pair) => pair.key === before) + 1, 0, pairOf(step.key, undefined, step));
  });
  return pairs;
}

function pairOf(key: string, left: Step | undefined, right: Step | undefined): Pair {
  const [took, tookOther] = [left, right].map((step) =>
    step === undefined || step.finished_at === null ? undefined : instant(step.finished_at) - instant(step.started_at),
  );
  const slower = took === undefined || tookOther === undefined ? undefined : tookOther - took;
  return {
    key,
    left,
    right,
    slower,
    outputs: left === undefined || right === undefined ? [] : differences(outcomeOf(left), outcomeOf(right)),
  };
}

/** What came of a step, without the lines of code that an error went through. */
export function outcomeOf(step: Step): unknown {
  if (step.error === null) return step.output ?? null;
  return {
    error: Object.fromEntries(["message", "type"].flatMap((name) => (step.error?.[name] === undefined ? [] : [[name, step.error[name]]]))),
  };
}

/** What is said of a pair in a word or two. */
export function verdictOf({ left, right, outputs }: Pair): string {
  if (right === undefined) return "only in this run";
  if (left === undefined) return "only in the other";
  if (left.status !== right.status) return "another status";
  if (outputs.length > 0) return `${outputs.length} ${outputs.length === 1 ? "difference" : "differences"}`;
  return "the same";
}
