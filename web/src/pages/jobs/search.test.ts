import { describe, expect, it } from "vitest";
import { filtersOf, jobsSearch, searchedFor } from "./search";

describe("the address of the jobs page", () => {
  it("keeps what it knows and drops the rest", () => {
    const found = jobsSearch({ status: ["failed", "gone"], job_type: "x", order: "up", source: "event", other: "1" });
    expect(filtersOf(found)).toEqual({ status: ["failed"], job_type: "x", source: "event" });
    expect(found.order).toBeUndefined();
  });
});

describe("what is searched for", () => {
  it.each([
    ["0192F0C1-2b3c-7d4e-8f90-123456789abc", { id: "0192f0c1-2b3c-7d4e-8f90-123456789abc" }],
    ["0192f0c1", { id_prefix: "0192f0c1" }],
    ["0192f0c1-2b3", { id_prefix: "0192f0c1-2b3" }],
    ["0192f0c1-", { id_prefix: "0192f0c1" }],
    ["order-4711", { correlation_id: "order-4711" }],
    ["decade", { correlation_id: "decade" }],
    ["  ", null],
  ])("is told from its shape: %s", (typed, found) => {
    expect(searchedFor(typed)).toEqual(found);
  });
});
