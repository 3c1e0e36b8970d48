import { describe, expect, it } from "vitest";
import { filtersAt, filtersOf, jobsSearch, searchedFor } from "./search";

describe("the address of the jobs page", () => {
  it("keeps what it knows and drops the rest", () => {
    const found = jobsSearch({ status: ["failed", "gone"], job_type: "x", order: "up", source: "event", other: "1" });
    expect(filtersOf(found)).toEqual({ status: ["failed"], job_type: "x", source: "event" });
    expect(found.order).toBeUndefined();
  });

  it("keeps a span, which ends whenever the list is read", () => {
    const filters = filtersOf(jobsSearch({ status: "failed", last: "1h" }));
    expect(filters).toEqual({ status: ["failed"], last: "1h" });
    expect(filtersAt(filters, Date.parse("2026-11-15T12:00:00Z"))).toEqual({
      status: ["failed"],
      created_after: "2026-11-15T11:00:00.000Z",
    });
    expect(filtersOf(jobsSearch({ last: "soon" }))).toEqual({});
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
