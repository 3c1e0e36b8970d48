/** How far each step of the guide is, by what the server says alone. */
import type { Schemas } from "@/api/client";

export type Job = Pick<
  Schemas["ListedJob"],
  "id" | "status" | "attempt_count" | "lost_count" | "queued_at" | "started_at" | "finished_at" | "claimed_by"
>;
export type AuditRow = Pick<Schemas["AuditEntry"], "id" | "action" | "created_at" | "actor_id">;

/** Something to do, something in progress, something that went another way, or done. */
export type Stage = "open" | "working" | "off" | "done";

export interface Process {
  host: string;
  pid: number;
}

/** A worker is named after its machine and its process: `host:pid:id`. One that fetches over HTTP has a name of its own. */
export function processOf(workerId: string | null | undefined): Process | null {
  const found = /^(.+):(\d+):[0-9a-f-]{36}$/.exec(workerId ?? "");
  return found?.[1] === undefined ? null : { host: found[1], pid: Number(found[2]) };
}

export function mailStage(job: Job | undefined): Stage {
  if (job === undefined) return "open";
  if (job.status === "succeeded") return "done";
  return ["failed", "dead_letter", "canceled"].includes(job.status) ? "off" : "working";
}

export type LeaseStage =
  | { stage: "open" }
  | { stage: "off"; why: "ended" | "returned" | "stopped" }
  | { stage: "working"; at: "waits" | "runs" | "lost" }
  | { stage: "done" };

/** Whether a worker was lost with the job, and another has taken it. */
export function leaseStage(job: Job | undefined): LeaseStage {
  if (job === undefined) return { stage: "open" };
  if (job.lost_count > 0) {
    if (job.attempt_count > 1 && (job.status === "running" || job.finished_at !== null)) return { stage: "done" };
    return { stage: "working", at: "lost" };
  }
  // A worker that is asked to stop returns its jobs, and loses none.
  if (job.attempt_count > 1) return { stage: "off", why: "returned" };
  if (job.status === "running") return { stage: "working", at: "runs" };
  if (job.status === "succeeded") return { stage: "off", why: "ended" };
  if (job.finished_at !== null) return { stage: "off", why: "stopped" };
  return { stage: "working", at: "waits" };
}

/** The process that `atlas up` started in the place of a worker that ended while it ran the job. */
export function successorOf(
  job: Job,
  programs: readonly Pick<Schemas["ProgramStatus"], "name" | "pid" | "started_at" | "last_end">[],
): number | undefined {
  const begun = Date.parse(job.started_at ?? job.queued_at);
  const started = programs.find(
    (one) => one.name.startsWith("worker") && one.last_end !== null && one.started_at !== null && Date.parse(one.started_at) > begun,
  );
  return started?.pid ?? undefined;
}

export interface GateProof {
  offline: AuditRow;
  online: AuditRow;
}

/** The rows of the audit log that show that a job came while Atlas was off, and started after it came back. */
export function gateProof(job: Job | undefined, rows: readonly AuditRow[]): GateProof | null {
  if (job?.started_at == null) return null;
  const queued = Date.parse(job.queued_at);
  const oldestFirst = rows.filter((one) => one.action in SWITCHES).sort((a, b) => timeOf(a) - timeOf(b));
  const before = oldestFirst.findLast((one) => timeOf(one) <= queued);
  const after = oldestFirst.find((one) => timeOf(one) > queued && one.action === SWITCHES.ATLAS_ONLINE);
  if (before?.action !== SWITCHES.ATLAS_OFFLINE || after === undefined || timeOf(after) > Date.parse(job.started_at)) return null;
  return { offline: before, online: after };
}

/** Under these the audit log has the switches of the gate. */
export const SWITCHES = { ATLAS_OFFLINE: "ATLAS_OFFLINE", ATLAS_ONLINE: "ATLAS_ONLINE" } as const;

/** As numbers: as texts, times with and without parts of a second would compare wrongly. */
function timeOf(row: AuditRow): number {
  return Date.parse(row.created_at);
}
