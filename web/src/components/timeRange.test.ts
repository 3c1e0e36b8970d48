import { describe, expect, it } from "vitest";
import { between, boundsOf, isSet, stepOf, timeRangeSearch } from "./timeRange";

const NOW = Date.UTC(2026, 10, 15, 2, 14, 7, 123);

describe("the range of time of a page", () => {
  it("is read from the address; what cannot be read is left out", () => {
    expect(timeRangeSearch({ last: "1h", since: "2026-11-15T01:00:00Z" })).toEqual({ last: "1h" });
    expect(timeRangeSearch({ since: "2026-11-15T02:00:00+01:00", until: "soon" })).toEqual({ since: "2026-11-15T01:00:00.000Z" });
    expect(isSet(timeRangeSearch({ last: "8h" }))).toBe(false);
  });

  it("that ends now moves with the time", () => {
    expect(boundsOf({ last: "1h" }, NOW)).toEqual({ start: "2026-11-15T01:14:07.123Z" });
    expect(boundsOf({ last: undefined }, NOW)).toEqual({});
  });

  it("is shown by the minute as long as minutes are kept, and not too many", () => {
    expect(stepOf({}, NOW)).toBe("minute");
    expect(stepOf(boundsOf({ last: "6h" }, NOW), NOW)).toBe("minute");
    expect(stepOf(boundsOf({ last: "24h" }, NOW), NOW)).toBe("hour");
    expect(stepOf(boundsOf({ last: "30d" }, NOW), NOW)).toBe("hour");
    expect(stepOf(boundsOf({ last: "90d" }, NOW), NOW)).toBe("day");
    expect(stepOf({ start: "2026-11-14T02:00:00Z", end: "2026-11-14T08:00:00Z" }, NOW)).toBe("minute");
    expect(stepOf({ start: "2026-11-11T02:00:00Z", end: "2026-11-11T08:00:00Z" }, NOW)).toBe("hour");
  });

  it("drawn on a chart has two ends", () => {
    expect(boundsOf(between(NOW / 1000 - 60.123, NOW / 1000 - 0.123), NOW)).toEqual({
      start: "2026-11-15T02:13:07.000Z",
      end: "2026-11-15T02:14:07.000Z",
    });
  });
});
