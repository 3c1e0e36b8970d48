export interface DiffLine {
  sign: " " | "+" | "-";
  text: string;
  /** Its number before and after, from 1 on; null where it is not. */
  before: number | null;
  after: number | null;
}

/** Lines that are the same and far from any change are folded away. */
export interface Fold {
  sign: "…";
  lines: DiffLine[];
}

/** More changes than this are shown as everything removed and everything added. */
const MAX_CHANGES = 600;
const CONTEXT = 3;

/** The differences between two texts, line by line: as few lines as possible are removed and added (Myers). */
export function diffLines(before: string, after: string): DiffLine[] {
  const [a, b] = [linesOf(before), linesOf(after)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const same = (from: number, count: number, shift: number): DiffLine[] =>
    a.slice(from, from + count).map((text, at) => ({ sign: " ", text, before: from + at + 1, after: from + at + shift + 1 }));
  const changed = changes(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const numbered = changed.map((line) => ({
    ...line,
    before: line.before === null ? null : line.before + start,
    after: line.after === null ? null : line.after + start,
  }));
  return [...same(0, start, 0), ...numbered, ...same(a.length - end, end, b.length - a.length)];
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

function changes(a: readonly string[], b: readonly string[]): DiffLine[] {
  const trace = walk(a, b);
  if (trace === null) return [...a.map((text, at) => removed(text, at)), ...b.map((text, at) => added(text, at))];
  const found: DiffLine[] = [];
  let [x, y] = [a.length, b.length];
  for (let d = trace.length - 1; d >= 0; d--) {
    const reached = trace[d] ?? new Map<number, number>();
    const k = x - y;
    const down = k === -d || (k !== d && (reached.get(k - 1) ?? -1) < (reached.get(k + 1) ?? -1));
    const from = d === 0 ? 0 : (reached.get(down ? k + 1 : k - 1) ?? 0);
    const fromY = d === 0 ? 0 : from - (down ? k + 1 : k - 1);
    while (x > from && y > fromY && x > 0 && y > 0 && a[x - 1] === b[y - 1]) {
      found.push({ sign: " ", text: a[x - 1] ?? "", before: x, after: y });
      x--;
      y--;
    }
    if (d === 0) break;
    if (down) found.push(added(b[--y] ?? "", y));
    else found.push(removed(a[--x] ?? "", x));
  }
  return found.reverse();
}

/** How far each diagonal was reached with 0, 1, 2 … changes; null if there are too many. */
function walk(a: readonly string[], b: readonly string[]): Map<number, number>[] | null {
  const trace: Map<number, number>[] = [];
  const reached = new Map<number, number>([[1, 0]]);
  for (let d = 0; d <= Math.min(a.length + b.length, MAX_CHANGES); d++) {
    trace.push(new Map(reached));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reached.get(k - 1) ?? -1) < (reached.get(k + 1) ?? -1));
      let x = down ? (reached.get(k + 1) ?? 0) : (reached.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reached.set(k, x);
      if (x >= a.length && x - k >= b.length) return trace;
    }
  }
  return null;
}

function removed(text: string, at: number): DiffLine {
  return { sign: "-", text, before: at + 1, after: null };
}

function added(text: string, at: number): DiffLine {
  return { sign: "+", text, before: null, after: at + 1 };
}

/** The lines with those folded that are further than three from a change. */
export function folded(lines: readonly DiffLine[]): (DiffLine | Fold)[] {
  const near = lines.map((_, at) => lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some((one) => one.sign !== " "));
  const found: (DiffLine | Fold)[] = [];
  for (const [at, line] of lines.entries()) {
    const last = found.at(-1);
    if (near[at] === true) found.push(line);
    else if (last?.sign === "…") last.lines.push(line);
    else found.push({ sign: "…", lines: [line] });
  }
  // A fold that hides one line saves nothing.
  return found.flatMap((one) => (one.sign === "…" && one.lines.length === 1 ? one.lines : [one]));
}

/** How many lines were added and removed. */
export function countChanges(lines: readonly DiffLine[]): { added: number; removed: number } {
  return { added: lines.filter((one) => one.sign === "+").length, removed: lines.filter((one) => one.sign === "-").length };
}
