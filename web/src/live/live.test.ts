import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Batch, delayBefore } from "./socket";
import { Refresher, topicsOf } from "./topics";

const JOB = { event: "job_run.started", job_id: "j" } as Batch["events"][number];

function batch(count: number, more: Record<string, number> = {}): Batch {
  return { events: Array.from({ length: count }, () => JOB), more, refetch: false };
}

describe("the pause before a new connection", () => {
  it("doubles, is scattered, and has an end", () => {
    expect(delayBefore(0, 1)).toBe(500);
    expect(delayBefore(2, 1)).toBe(2000);
    expect(delayBefore(2, 0)).toBe(1000);
    expect(delayBefore(40, 1)).toBe(15_000);
  });
});

describe("events", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("are about jobs, runs or the gate, also those that are only counted", () => {
    expect([...topicsOf(batch(1, { "run.updated": 3, "atlas.online": 1 }))]).toEqual(["job", "run", "atlas"]);
  });

  it("in a burst of 10,000 fetch again once a second, and only what they are about", () => {
    const client = new QueryClient();
    const invalidate = vi.spyOn(client, "invalidateQueries").mockResolvedValue();
    const refresher = new Refresher(client, 1000);
    for (let i = 0; i < 100; i += 1) {
      refresher.add(batch(100));
      vi.advanceTimersByTime(10);
    }
    vi.advanceTimersByTime(2000);
    expect(invalidate.mock.calls.length).toBeLessThanOrEqual(3);
    const predicate = invalidate.mock.calls[0]?.[0]?.predicate;
    expect(predicate?.({ meta: { live: ["job"] } } as never)).toBe(true);
    expect(predicate?.({ meta: { live: ["run"] } } as never)).toBe(false);
    expect(predicate?.({} as never)).toBe(false);
  });
});
