import type { Schemas } from "@/api/client";

export type Worker = Schemas["WorkerStatus"];
export type Host = Schemas["HostShown"];

/** A heartbeat comes every few seconds; one that is older than this is late. */
const LATE_MS = 15_000;
/** A host asks for work every half minute at least. */
const SILENT_MS = 120_000;

export type WorkerState = "alive" | "draining" | "stale" | "stopped";

export function workerState(worker: Worker, now: number): WorkerState {
  if (!worker.is_alive) return worker.dead_at === null ? "stale" : "stopped";
  if (worker.drain_requested_at != null) return "draining";
  return now - Date.parse(worker.last_seen_at) > LATE_MS ? "stale" : "alive";
}

/** One sentence about a worker: what it does, or why it takes nothing. */
export function workerSentence(worker: Worker, now: number): string {
  switch (workerState(worker, now)) {
    case "alive":
      return worker.running_count === 0 ? "It is ready and waits for jobs." : "It takes jobs.";
    case "draining":
      return `It takes nothing new and stops when its jobs have ended, as ${worker.drain_requested_by ?? "an operator"} asked.`;
    case "stale":
      return "Its heartbeat is late. If it does not come back, its lease lapses and its jobs are given to others.";
    case "stopped":
      return "It has stopped. Its jobs, if it had any, went back to the queue.";
  }
}

export type HostState = "active" | "disabled" | "stale" | "pending";

export function hostState(host: Host, now: number): HostState {
  if (!host.is_active) return "disabled";
  if (host.last_seen_at === null) return "pending";
  return now - Date.parse(host.last_seen_at) > SILENT_MS ? "stale" : "active";
}

export const HOST_SENTENCES: Record<HostState, string> = {
  active: "It fetches its jobs.",
  disabled: "It may fetch nothing new. The job that it runs goes on.",
  stale: "It has not asked for work for a while. See that its agent runs and reaches this server.",
  pending: "Its agent has not called yet. Start it on the machine with the host's token.",
};
