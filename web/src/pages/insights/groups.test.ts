import { describe, expect, it } from "vitest";
import { changeOf, dayStart, sorted, spanOf, wholeBounds, type Group } from "./groups";
import { insightsSearch } from "./search";

const group = (job_type: string, finished: number, run_p95: number | null): Group => ({ job_type, finished, run_p95 }) as Group;

describe("groups", () => {
  const groups = [group("b", 2, null), group("a", 5, 0.1), group("c", 5, 4)];
  const names = (sort: "name" | "finished" | "run_p95", up = false): string =>
    sorted(groups, sort, up)
      .map((one) => one.job_type)
      .join("");

  it("are ordered by a column, and what has no value comes last", () => {
    expect(names("finished")).toBe("acb");
    expect(names("finished", true)).toBe("bac");
    expect(names("run_p95")).toBe("cab");
    expect(names("run_p95", true)).toBe("acb");
    expect(names("name")).toBe("abc");
  });
});

describe("a change", () => {
  it("is a share, a multiple or points, and good or bad news", () => {
    expect(changeOf(112, 100, "up")).toEqual({ text: "+12 %", better: true });
    expect(changeOf(80, 100, "up")).toEqual({ text: "−20 %", better: false });
    expect(changeOf(80, 100, "down")).toEqual({ text: "−20 %", better: true });
    expect(changeOf(103, 100, "up")).toEqual({ text: "+3 %", better: null });
    expect(changeOf(500, 100, null)).toEqual({ text: "5.0 times", better: null });
    expect(changeOf(0.021, 0.001, "down", true)).toEqual({ text: "+2.0 points", better: false });
    expect(changeOf(0.5, 0.5, "up", true)).toEqual({ text: "unchanged", better: null });
    expect(changeOf(3, 0, "up")).toEqual({ text: "none before", better: true });
    expect([changeOf(0, 0, "up"), changeOf(null, 1, "up"), changeOf(1, undefined, "up")]).toEqual([null, null, null]);
  });
});

describe("a time", () => {
  it("that ends now begins with a whole step", () => {
    const now = Date.parse("2026-11-16T16:43:10Z");
    const starts = (["1h", "7d", "30d"] as const).map((last) => wholeBounds({ last }, now).start);
    expect(starts).toEqual(["2026-11-16T15:44:00.000Z", "2026-11-09T17:00:00.000Z", "2026-10-18T00:00:00.000Z"]);
    expect(wholeBounds({ since: "2026-11-01T00:30:00Z" }, now)).toEqual({ start: "2026-11-01T00:30:00Z" });
  });

  it("has a length that people say", () => {
    const ends = ["2026-11-08T00:40:00Z", "2026-11-01T06:01:00Z", "2026-11-01T00:45:00Z"];
    expect(ends.map((end) => spanOf("2026-11-01T00:00:00Z", end))).toEqual(["7 days", "6 hours", "45 minutes"]);
  });
});

describe("days", () => {
  it("begin at midnight UTC, on the clock of the reader", () => {
    expect(dayStart(new Date("2026-11-16T15:00:00Z"), "Europe/Berlin")).toBe("01:00");
    expect(dayStart(new Date("2026-07-16T15:00:00Z"), "Europe/Berlin")).toBe("02:00");
    expect(dayStart(new Date("2026-11-16T15:00:00Z"), "UTC")).toBe("00:00");
  });
});

describe("the address", () => {
  it("keeps the range, the filters and the order", () => {
    expect(insightsSearch({ last: "30d", job_type: "mail", by: "tenant", sort: "cost_cents", order: "up" })).toMatchObject({
      last: "30d",
      job_type: "mail",
      by: "tenant",
      sort: "cost_cents",
      order: "up",
    });
    expect(insightsSearch({ by: "worker", sort: "x" })).toMatchObject({ by: undefined, sort: undefined });
  });
});
