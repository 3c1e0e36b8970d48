import type { Schemas } from "@/api/client";

export type LifeJob = Pick<Schemas["Job"], "status" | "queued_at" | "next_retry_at" | "finished_at">;
export type LifeAttempt = Pick<Schemas["Attempt"], "attempt_no" | "status" | "started_at" | "finished_at">;
type Tone = "waited" | "delayed" | "running" | "succeeded" | "failed" | "canceled";

export interface LifePart {
  key: string;
  label: string;
  tone: Tone;
  from: number;
  ms: number;
}

const MAX_ATTEMPTS = 20;
const TONES: Record<string, Tone> = {
  succeeded: "succeeded",
  failed: "failed",
  timeout: "failed",
  lost: "failed",
  canceled: "canceled",
  running: "running",
};
const MARKS: Record<string, string> = {
  succeeded: "✓",
  failed: "✕",
  timeout: "timed out",
  lost: "lost",
  canceled: "canceled",
  running: "",
};

/** The parts of a job's life: waits and attempts, from its creation to its end or to now. */
export function lifeOf(job: LifeJob, attempts: readonly LifeAttempt[], now: number): { parts: LifePart[]; leftOut: number; total: number } {
  const created = Date.parse(job.queued_at);
  const drawn = attempts.slice(-MAX_ATTEMPTS).filter((one) => one.started_at !== null);
  const leftOut = attempts.length - drawn.length;
  const parts: LifePart[] = [];
  let at = leftOut > 0 ? Date.parse(drawn[0]?.started_at ?? job.queued_at) : created;
  const wait = (until: number, key: string): void => {
    if (until > at) parts.push({ key, label: "waited", tone: "waited", from: at, ms: until - at });
    at = Math.max(at, until);
  };
  for (const one of drawn) {
    const from = Date.parse(one.started_at ?? "");
    wait(from, `wait-${one.attempt_no}`);
    const to = one.finished_at === null ? Math.max(now, from) : Date.parse(one.finished_at);
    const label = `attempt ${one.attempt_no} ${MARKS[one.status] ?? one.status}`.trim();
    parts.push({ key: `attempt-${one.attempt_no}`, label, tone: TONES[one.status] ?? "canceled", from, ms: Math.max(0, to - from) });
    at = Math.max(at, to);
  }
  if (job.status === "waiting" && job.next_retry_at !== null) {
    const due = Date.parse(job.next_retry_at);
    wait(now, "waits");
    // The distant future would leave no room for the past.
    if (due > now && due - now < 366 * 86_400_000) parts.push({ key: "due", label: "due", tone: "delayed", from: now, ms: due - now });
  } else {
    wait(job.finished_at === null ? now : Date.parse(job.finished_at), "rest");
  }
  const last = parts.at(-1);
  if (last?.key === "rest" || last?.key === "waits") last.label = job.finished_at === null ? "waits" : "then";
  const first = parts[0];
  return { parts, leftOut, total: last === undefined || first === undefined ? 0 : last.from + last.ms - first.from };
}
