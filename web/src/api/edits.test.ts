import { describe, expect, it } from "vitest";
import { changedFields } from "./edits";

describe("an edit", () => {
  const base = { label: "Morning", cron_expr: "0 7 * * *", payload_template: { a: 1, b: 2 } };

  it("conflicts in the fields that were changed elsewhere, with both values", () => {
    const current = { ...base, cron_expr: "0 9 * * *" };
    expect(changedFields(base, current, { ...base, label: "Evening" })).toEqual([
      { name: "cron_expr", theirs: "0 9 * * *", mine: "0 7 * * *" },
    ]);
  });

  it("does not conflict where both saved the same, or where only fields changed that it does not set", () => {
    const current = { ...base, label: "Evening", payload_template: { b: 2, a: 1 } };
    expect(changedFields(base, current, { ...base, label: "Evening" })).toEqual([]);
    expect(changedFields(base, current, { is_enabled: false })).toEqual([]);
  });
});
