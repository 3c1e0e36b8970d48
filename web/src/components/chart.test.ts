import { describe, expect, it } from "vitest";
import { bucketSeconds, isolated, SCALES } from "./chart";

describe("the axis of a chart", () => {
  it("counts in whole numbers", () => {
    expect(SCALES.count.steps.every(Number.isInteger)).toBe(true);
    expect(SCALES.count.tick(12_000)).toBe("12K");
  });

  it("has short words for times", () => {
    expect([0, 0.005, 1, 2.5, 60, 90, 3600, 86_400].map(SCALES.seconds.tick)).toEqual([
      "0",
      "5 ms",
      "1 s",
      "2.5 s",
      "1 m",
      "1 m 30 s",
      "1 h",
      "1 d",
    ]);
  });
});

describe("a bucket", () => {
  it("is as long as the shortest distance between two", () => {
    expect(bucketSeconds([0, 60, 120, 240])).toBe(60);
    expect(bucketSeconds([0, 3600])).toBe(3600);
    expect(bucketSeconds([0])).toBe(60);
  });

  it("between two empty ones is a point, because no line leads to it", () => {
    expect(isolated([1, null, 2, 3, null, undefined, 4])).toEqual([0, 6]);
    expect(isolated([null, 5, null])).toEqual([1]);
  });
});
