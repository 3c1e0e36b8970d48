import { describe, expect, it } from "vitest";
import { type LifeAttempt, lifeOf } from "./life";

const at = (seconds: number): string => new Date(seconds * 1000).toISOString();
const NOW = 100_000;

function shapeOf(...given: Parameters<typeof lifeOf>): string[] {
  return lifeOf(...given).parts.map((part) => `${part.label} ${part.ms / 1000}`);
}

describe("a job's life", () => {
  it("is waits and attempts, to scale", () => {
    const attempts: LifeAttempt[] = [
      { attempt_no: 1, status: "failed", started_at: at(2), finished_at: at(3) },
      { attempt_no: 2, status: "succeeded", started_at: at(13), finished_at: at(15) },
    ];
    const job = { status: "succeeded" as const, queued_at: at(0), next_retry_at: null, finished_at: at(15) };
    expect(shapeOf(job, attempts, NOW)).toEqual(["waited 2", "attempt 1 ✕ 1", "waited 10", "attempt 2 ✓ 2"]);
    expect(lifeOf(job, attempts, NOW).total).toBe(15_000);
  });

  it("goes on while it runs or waits", () => {
    const running: LifeAttempt = { attempt_no: 1, status: "running", started_at: at(90), finished_at: null };
    expect(shapeOf({ status: "running", queued_at: at(80), next_retry_at: null, finished_at: null }, [running], NOW)).toEqual([
      "waited 10",
      "attempt 1 10",
    ]);
    expect(shapeOf({ status: "queued", queued_at: at(80), next_retry_at: null, finished_at: null }, [], NOW)).toEqual(["waits 20"]);
    expect(shapeOf({ status: "waiting", queued_at: at(80), next_retry_at: at(130), finished_at: null }, [], NOW)).toEqual([
      "waited 20",
      "due 30",
    ]);
  });

  it("draws the last attempts of many", () => {
    const many = Array.from({ length: 50 }, (_, n): LifeAttempt => ({
      attempt_no: n + 1,
      status: "failed",
      started_at: at(n),
      finished_at: at(n + 1),
    }));
    const { parts, leftOut } = lifeOf({ status: "dead_letter", queued_at: at(0), next_retry_at: null, finished_at: at(50) }, many, NOW);
    expect(leftOut).toBe(30);
    expect(parts[0]?.label).toBe("attempt 31 ✕");
  });
});
