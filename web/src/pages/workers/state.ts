import type { Schemas } from "@/api/client";

export type Worker = Schemas["WorkerStatus"];
export type Host = Schemas["Host"];

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

export type HostState = "active" | "disabled" | "stale" | "pending";

export function hostState(host: Host, now: number): HostState {
  if (!host.is_active) return "disabled";
  if (host.last_seen_at === null) return "pending";
  return now - Date.parse(host.last_seen_at) > SILENT_MS ? "stale" : "active";
}

export const HOST_SENTENCES: Record<HostState, string> = {
  active: "It fetches its jobs.",
  disabled: "It may fetch no new jobs. Its running job continues.",
  stale: "It has not asked for work for a while. Check that its agent runs and reaches this server.",
  pending: "Its agent has not called yet. Start it on the machine with the host's token.",
};
