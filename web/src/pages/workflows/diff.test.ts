import { expect, it } from "vitest";
import { countChanges, diffLines, folded } from "./diff";

const apply = (before: string, after: string) => {
  const lines = diffLines(before, after);
  const back = (sign: "+" | "-") => lines.filter((one) => one.sign !== sign).map((one) => one.text);
  expect(back("+")).toEqual(before.split("\n"));
  expect(back("-")).toEqual(after.split("\n"));
  return lines.map((one) => `${one.sign}${one.text}`);
};

it("removes and adds as few lines as possible", () => {
  expect(apply("a\nb\nc\nd", "a\nc\nx\nd")).toEqual([" a", "-b", " c", "+x", " d"]);
  expect(apply("a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc").filter((one) => !one.startsWith(" "))).toHaveLength(5);
  expect(apply("same", "same")).toEqual([" same"]);
  expect(diffLines("", "a\nb").map((one) => one.sign)).toEqual(["+", "+"]);
  expect(diffLines("a\nb\n", "")).toHaveLength(2);
});

it("gives both texts back whatever they are", () => {
  let seed = 7;
  const random = (most: number): number => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % most;
  for (let round = 0; round < 200; round++) {
    const text = (): string => Array.from({ length: 1 + random(12) }, () => "abcd"[random(4)]).join("\n");
    apply(text(), text());
  }
});

it("numbers the lines of both sides", () => {
  expect(diffLines("a\nb\nc", "a\nx\ny\nc").map((one) => [one.before, one.after])).toEqual([
    [1, 1],
    [2, null],
    [null, 2],
    [null, 3],
    [3, 4],
  ]);
});

it("folds what is far from a change, and counts", () => {
  const before = Array.from({ length: 30 }, (_, at) => `line ${at}`);
  const lines = diffLines(before.join("\n"), before.with(15, "changed").join("\n"));
  const shown = folded(lines);
  expect(shown.filter((one) => one.sign === "…").map((one) => ("lines" in one ? one.lines.length : 0))).toEqual([12, 11]);
  expect(countChanges(lines)).toEqual({ added: 1, removed: 1 });
});

it("takes two long texts that have nothing in common as removed and added", () => {
  const text = (name: string): string => Array.from({ length: 5000 }, (_, at) => `${name} ${at}`).join("\n");
  expect(countChanges(diffLines(text("a"), text("b")))).toEqual({ added: 5000, removed: 5000 });
});
