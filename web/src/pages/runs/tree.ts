import type { ListedStep } from "./model";
import { instant } from "./states";

/** A part of what a run did: a step, branches side by side, or rounds of the same one after another. */
export type Item =
  | { type: "step"; step: ListedStep }
  | { type: "parallel"; id: string; name: string; branches: Item[][] }
  | { type: "loop"; id: string; name: string; rounds: Item[][] };

/** The minimum number of rounds of a loop. */
const LOOP = 3;
/** So many steps are a round at most. */
const MAX_ROUND_SIZE = 6;
const BRANCH = /^(?<parent>(?:.*\/)?)(?<name>[^/]+)\[(?<key>[^\]]*)\]\/$/;

/** Where a failed run is undone. */
export const UNDO = "undo/";

/**
 * What a run recorded under a branch, as a tree. A branch does one thing at a time, so its own steps and what it did side by side lie in
 * the order in which they began.
 */
export function treeOf(steps: readonly ListedStep[], root = ""): Item[] {
  const own = new Map<string, ListedStep[]>();
  const groups = new Map<string, Map<string, string[]>>();
  const began = new Map<string, number>();
  const enter = (path: string, at: number): void => {
    const isKnown = began.has(path);
    began.set(path, Math.min(began.get(path) ?? Infinity, at));
    if (path === root) return;
    const { parent = root, name = path } = BRANCH.exec(path)?.groups ?? {};
    const above = parent.startsWith(root) ? parent : root;
    if (!isKnown) {
      const names = groups.get(above) ?? new Map<string, string[]>();
      groups.set(above, names.set(name, [...(names.get(name) ?? []), path]));
    }
    enter(above, at);
  };
  for (const step of steps) {
    if (!step.branch.startsWith(root) || (root === "" && step.branch.startsWith(UNDO))) continue;
    const there = own.get(step.branch);
    if (there === undefined) own.set(step.branch, [step]);
    else there.push(step);
    enter(step.branch, instant(step.started_at));
  }
  const sequence = (path: string): Item[] => {
    const items: { at: number; item: Item }[] = (own.get(path) ?? [])
      .sort((one, other) => one.position - other.position)
      .map((step) => ({ at: instant(step.started_at), item: { type: "step", step } }));
    for (const [name, paths] of groups.get(path) ?? []) {
      const at = Math.min(...paths.map((one) => began.get(one) ?? Infinity));
      const after = items.findLastIndex((one) => one.at <= at) + 1;
      items.splice(after, 0, { at, item: { type: "parallel", id: `${path}${name}`, name, branches: paths.sort(byKey).map(sequence) } });
    }
    return loopsOf(items.map(({ item }) => item));
  };
  return sequence(root);
}

/** gather[2] before gather[10]. */
function byKey(one: string, other: string): number {
  return one.localeCompare(other, "en", { numeric: true });
}

/** Rounds of the same steps become a loop. A name that is used again in a branch has a number: note, note#2, note#3. */
export function loopsOf(items: readonly Item[]): Item[] {
  const shapes = items.map(shapeOf);
  const folded: Item[] = [];
  for (let at = 0; at < items.length;) {
    const [size, rounds] = roundsAt(shapes, at);
    if (rounds < LOOP) {
      folded.push(items[at] as Item);
      at++;
      continue;
    }
    const parts = Array.from({ length: rounds }, (_, round) => items.slice(at + round * size, at + (round + 1) * size));
    folded.push({ type: "loop", id: idOf(items[at] as Item), name: parts[0]?.map(nameOf).join(" → ") ?? "", rounds: parts });
    at += size * rounds;
  }
  return folded;
}

/** The shortest round that begins here and comes again, and how often it does. */
function roundsAt(shapes: readonly string[], from: number): [size: number, rounds: number] {
  for (let size = 1; size <= MAX_ROUND_SIZE; size++) {
    let rounds = 1;
    while (
      Array.from({ length: size }, (_, at) => shapes[from + rounds * size + at]).every(
        (shape, at) => shape !== undefined && shape === shapes[from + at],
      )
    )
      rounds++;
    if (rounds >= LOOP) return [size, rounds];
  }
  return [1, 1];
}

function shapeOf(item: Item): string {
  if (item.type === "step") return `${item.step.kind} ${nameOf(item)}`;
  const [parts, mark] = item.type === "parallel" ? [item.branches, "|"] : [item.rounds, "*"];
  return `${mark}${nameOf(item)}(${parts[0]?.map(shapeOf).join(",") ?? ""})`;
}

function nameOf(item: Item): string {
  return (item.type === "step" ? item.step.name : item.name).replace(/#\d+$/, "");
}

function idOf(item: Item): string {
  return item.type === "step" ? item.step.key : item.id;
}

/** All steps of a part. */
export function stepsOf(items: readonly Item[]): ListedStep[] {
  return items.flatMap((item) =>
    item.type === "step" ? [item.step] : stepsOf(item.type === "parallel" ? item.branches.flat() : item.rounds.flat()),
  );
}
