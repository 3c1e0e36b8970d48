import { expect, it } from "vitest";
import { barsOf, depthOf } from "./timeline";

const at = (seconds: number): string => new Date(seconds * 1000).toISOString();

it("draws steps to scale, and those that last to the end", () => {
  const bars = barsOf(0, 100_000, [
    { started_at: at(0), finished_at: at(50) },
    { started_at: at(50), finished_at: at(50) },
    { started_at: at(75), finished_at: null },
  ]);
  expect(bars).toEqual([
    { left: 0, width: 50 },
    { left: 50, width: 0.6 },
    { left: 75, width: 25 },
  ]);
});

it("keeps every bar within the line, also for a run that took no time or a clock that differs", () => {
  for (const bar of barsOf(5000, 5000, [
    { started_at: at(5), finished_at: at(5) },
    { started_at: at(99), finished_at: null },
  ])) {
    expect(bar.left).toBeGreaterThanOrEqual(0);
    expect(bar.left + bar.width).toBeLessThanOrEqual(100);
  }
});

it("says how deep a step lies", () => {
  expect([depthOf(""), depthOf("gather[0]"), depthOf("gather[0]/gather[1]")]).toEqual([0, 1, 2]);
});
