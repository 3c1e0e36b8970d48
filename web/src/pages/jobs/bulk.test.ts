import { describe, expect, it } from "vitest";
import { outcomeOf, type BulkAction } from "./bulk";

const action = (changes: Partial<BulkAction>): BulkAction =>
  ({ action: "retry", status: "done", changed: 0, passed_over: 0, verdicts: {}, ...changes }) as BulkAction;

describe("what became of an action", () => {
  it.each([
    [{ changed: 1 }, "1 job is queued again."],
    [{ changed: 200, status: "running" as const }, "200 jobs are queued again; the rest follows."],
    [
      { changed: 2, passed_over: 1, verdicts: { retried: 2, conflict: 1 } },
      "2 jobs are queued again; 1 job left as it is: 1 whose dedupe key is taken.",
    ],
    [{ action: "delete" as const, passed_over: 2, verdicts: { running: 2 } }, "0 jobs are deleted; 2 jobs left as they are: 2 running."],
  ])("is said in a sentence", (changes, words) => {
    expect(outcomeOf(action(changes))).toBe(words);
  });
});
