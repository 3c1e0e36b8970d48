import { expect, it } from "vitest";
import { differences, pairsOf, verdictOf } from "./compare";
import type { Step } from "./model";

const step = (key: string, output: unknown = null, rest: Partial<Step> = {}): Step =>
  ({
    key,
    status: "succeeded",
    started_at: "2026-11-16T02:00:00.000Z",
    finished_at: "2026-11-16T02:00:00.250500Z",
    error: null,
    output,
    ...rest,
  }) as Step;

it("finds where two values differ", () => {
  expect(differences({ a: [1, { b: 2 }], c: "x", d: null }, { a: [1, { b: 3 }, 4], c: "x", e: [] })).toEqual([
    { path: "a[1].b", left: 2, right: 3 },
    { path: "a[2]", left: undefined, right: 4 },
    { path: "d", left: null, right: undefined },
    { path: "e", left: undefined, right: [] },
  ]);
  expect(differences([], {})).toEqual([{ path: "", left: [], right: {} }]);
  expect(differences(NaN, NaN)).toEqual([]);
  expect(
    differences(
      Array.from({ length: 500 }, () => 1),
      [],
      10,
    ),
  ).toHaveLength(10);
});

it("puts the steps of two runs side by side, and says how they differ", () => {
  const failed = { status: "failed" as const, error: { message: "no", type: "E", traceback: "line 1" } };
  const left = [step("a", { x: 1 }), step("b"), step("c", null, failed), step("e", 1)];
  const right = [
    step("a", { x: 2 }),
    step("new"),
    step("b", null, { finished_at: "2026-11-16T02:00:01Z" }),
    step("c", null, { ...failed, error: { ...failed.error, traceback: "line 2" } }),
    step("e", null, { status: "waiting", finished_at: null }),
  ];
  const pairs = pairsOf(left, right);
  expect(pairs.map((pair) => `${pair.key}: ${verdictOf(pair)}`)).toEqual([
    "a: 1 difference",
    "new: only in the other",
    "b: the same",
    "c: the same",
    "e: another status",
  ]);
  expect(pairs.map((pair) => pair.slower)).toEqual([0, undefined, 749.5, 0, undefined]);
  expect(pairsOf([step("only")], []).map(verdictOf)).toEqual(["only in this run"]);
});
