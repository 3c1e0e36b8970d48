import { expect, it } from "vitest";
import { verbsOf } from "@/pages/jobs/detail";
import { hasUndone, mayRetry } from "./states";

it.each([
  ["failed", {}, true],
  ["canceled", {}, true],
  ["succeeded", {}, false],
  ["failed", { compensated: ["charge"] }, false],
  ["failed", { compensated: [] }, true],
] as const)("offers a retry of a run that is %s with %j: %s", (status, error, may) => {
  const run = { status, error: { ...error } };
  expect(mayRetry(run)).toBe(may);
  expect(verbsOf({ ...run, cancel_requested_at: null }).includes("retry")).toBe(may);
  expect(hasUndone(run)).toBe(status === "failed" && !may);
});
