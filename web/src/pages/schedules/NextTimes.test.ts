import { describe, expect, it } from "vitest";
import { shown } from "./NextTimes";

describe("a due time", () => {
  it("is shown by its zone's own clock, with the day of the week", () => {
    expect(shown("2026-11-16T07:00:00+01:00")).toBe("Mon 2026-11-16 07:00");
  });
  it("has seconds where the schedule has them", () => {
    expect(shown("2026-11-15T23:59:30+00:00")).toBe("Sun 2026-11-15 23:59:30");
  });
});
