import { expect, test } from "vitest";
import { gateProof, type Job, leaseStage, mailStage, processOf, successorOf } from "./stages";

const WORKER = "db-1.example:4711:0f9a6a0e-3b0f-4a52-9b39-52b4c6a9d7aa";
const JOB: Job = {
  id: "1",
  status: "queued",
  attempt_count: 0,
  lost_count: 0,
  queued_at: "2026-11-15T02:14:10Z",
  started_at: null,
  finished_at: null,
  claimed_by: null,
};

test("a worker's name holds its machine and its process", () => {
  expect(processOf(WORKER)).toEqual({ host: "db-1.example", pid: 4711 });
  expect(processOf("host:0192f0c1-2b3c-7d4e-8f90-123456789abc")).toBeNull();
  expect(processOf("laptop; rm -rf /:1:x")).toBeNull();
  expect(processOf(null)).toBeNull();
});

test("a mail is done when its job succeeded, and not before", () => {
  expect(
    [undefined, "queued", "running", "succeeded", "dead_letter"].map((status) =>
      mailStage(status === undefined ? undefined : ({ ...JOB, status } as Job)),
    ),
  ).toEqual(["open", "working", "working", "done", "off"]);
});

test("a lease has moved when the job was lost with its worker and another attempt runs", () => {
  const running = { ...JOB, status: "running", attempt_count: 1, claimed_by: WORKER } as const;
  expect(leaseStage(undefined)).toEqual({ stage: "open" });
  expect(leaseStage(JOB)).toEqual({ stage: "working", at: "waits" });
  expect(leaseStage(running)).toEqual({ stage: "working", at: "runs" });
  expect(leaseStage({ ...running, status: "queued", lost_count: 1 })).toEqual({ stage: "working", at: "lost" });
  expect(leaseStage({ ...running, attempt_count: 2, lost_count: 1 })).toEqual({ stage: "done" });
  expect(leaseStage({ ...running, status: "succeeded", attempt_count: 2, lost_count: 1, finished_at: "2026-11-15T02:16:00Z" })).toEqual({
    stage: "done",
  });
});

test("a program that was started again after the job began stands for the lost one", () => {
  const running = { ...JOB, status: "running", attempt_count: 1, started_at: "2026-11-15T02:14:11Z" } as const;
  const worker = { name: "worker", pid: 5, started_at: "2026-11-15T02:14:20Z", last_end: "by signal 9 (Killed)" };
  expect(successorOf(running, [{ ...worker, name: "api" }, worker])).toBe(5);
  expect(successorOf(running, [{ ...worker, started_at: "2026-11-15T02:00:00Z" }])).toBeUndefined();
  expect(successorOf(running, [{ ...worker, last_end: null }])).toBeUndefined();
});

test("a job that ended or was returned shows no lost lease", () => {
  const ended = { ...JOB, attempt_count: 1, finished_at: "2026-11-15T02:16:00Z" };
  expect(leaseStage({ ...ended, status: "succeeded" })).toEqual({ stage: "off", why: "ended" });
  expect(leaseStage({ ...ended, status: "canceled" })).toEqual({ stage: "off", why: "stopped" });
  expect(leaseStage({ ...JOB, status: "running", attempt_count: 2 })).toEqual({ stage: "off", why: "returned" });
});

test("a job that waited for the gate has a row before it and one after it", () => {
  const row = (id: number, action: string, at: string) => ({ id, action, created_at: at, actor_id: "dana" });
  const off = row(1, "ATLAS_OFFLINE", "2026-11-15T02:14:00.5Z");
  const on = row(2, "ATLAS_ONLINE", "2026-11-15T02:15:00Z");
  const waited = { ...JOB, started_at: "2026-11-15T02:15:00.020000Z" };
  expect(gateProof(waited, [on, off])).toEqual({ offline: off, online: on });
  expect(gateProof(waited, [row(3, "ATLAS_OFFLINE", "2026-11-15T02:20:00Z"), on, off])).toEqual({ offline: off, online: on });
  expect(gateProof(JOB, [off])).toBeNull();
  expect(gateProof(waited, [off])).toBeNull();
  expect(gateProof({ ...waited, queued_at: "2026-11-15T02:13:00Z" }, [on, off])).toBeNull();
  expect(gateProof({ ...waited, started_at: "2026-11-15T02:14:11Z" }, [on, off])).toBeNull();
});
