import { describe, expect, it } from "vitest";
import { hostState, workerState, type Host, type Worker } from "./state";

const NOW = Date.parse("2026-11-16T12:00:00Z");
const worker: Worker = {
  worker_id: "w1",
  hostname: "box",
  version: "1.0.0",
  job_types: ["a"],
  running_count: 0,
  started_at: "2026-11-16T11:00:00Z",
  last_seen_at: "2026-11-16T11:59:58Z",
  lease_expires_at: "2026-11-16T12:00:28Z",
  dead_at: null,
  is_alive: true,
  drain_requested_at: null,
  drain_requested_by: null,
};

describe("a worker", () => {
  it("is alive while its heartbeat comes", () => {
    expect(workerState(worker, NOW)).toBe("alive");
  });
  it("is stale when its heartbeat is late, before others have its jobs", () => {
    expect(workerState({ ...worker, last_seen_at: "2026-11-16T11:59:30Z" }, NOW)).toBe("stale");
    expect(workerState({ ...worker, is_alive: false }, NOW)).toBe("stale");
  });
  it("drains when it was asked to, and has stopped when it said so", () => {
    const drained = { ...worker, drain_requested_at: "2026-11-16T11:59:00Z", drain_requested_by: "dana" };
    expect(workerState(drained, NOW)).toBe("draining");
    expect(workerState({ ...drained, is_alive: false, dead_at: "2026-11-16T11:59:59Z" }, NOW)).toBe("stopped");
  });
});

describe("a host", () => {
  const host = { is_active: true, last_seen_at: "2026-11-16T11:59:30Z" } as Host;
  it("is silent after two minutes without a call", () => {
    expect(hostState(host, NOW)).toBe("active");
    expect(hostState({ ...host, last_seen_at: "2026-11-16T11:50:00Z" }, NOW)).toBe("stale");
    expect(hostState({ ...host, last_seen_at: null }, NOW)).toBe("pending");
    expect(hostState({ ...host, is_active: false }, NOW)).toBe("disabled");
  });
});
