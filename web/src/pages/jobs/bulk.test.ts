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
      "2 jobs are queued again; 1 job left unchanged: 1 whose dedupe key is in use.",
    ],
    [{ changed: 7000, arrived: 12 }, "7,000 jobs are queued again. 12 more arrived since and were not changed."],
    [
      { changed: 1, passed_over: 2, arrived: 200, verdicts: { retried: 1, already_changed: 2 } },
      "1 job is queued again; 2 jobs left unchanged: 2 changed already. 200 or more arrived since and were not changed.",
    ],
    [{ action: "delete" as const, passed_over: 2, verdicts: { running: 2 } }, "0 jobs are deleted; 2 jobs left unchanged: 2 running."],
  ])("is said in a sentence", (changes, words) => {
    expect(outcomeOf(action(changes))).toBe(words);
  });
});
