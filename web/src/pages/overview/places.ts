import type { Place } from "@/navigation";
import type { JobFilters } from "@/pages/jobs/search";

interface Where {
  label: string;
  to: Place["to"];
  /** Which jobs, where the place is their list. */
  jobs?: JobFilters;
}

const PLACES: Record<string, Where> = {
  dead_letters: { label: "Dead letters", to: "/dead-letters" },
  approvals: { label: "Decide", to: "/approvals" },
  effects: { label: "Settle", to: "/effects" },
  schedules_late: { label: "Schedules", to: "/schedules" },
  triggers_failing: { label: "Schedules", to: "/schedules" },
  webhooks_disabled: { label: "Settings", to: "/settings" },
  seal_lag: { label: "Audit", to: "/audit" },
  audit_lost_end: { label: "Audit", to: "/audit" },
  audit_damaged: { label: "Audit", to: "/audit" },
  checkpoint_not_copied: { label: "Audit", to: "/audit" },
  worker_lost: { label: "Workers", to: "/workers" },
  host_silent: { label: "Workers", to: "/workers" },
  horizon_held: { label: "Workers", to: "/workers" },
  effects_differ: { label: "Audit", to: "/audit" },
  engine_silent: { label: "Workers", to: "/workers" },
  intents_stuck: { label: "Workflows", to: "/runs" },
  failures_rise: { label: "Failed jobs", to: "/jobs", jobs: { status: ["failed", "dead_letter"] } },
};

/** The page where something is looked into. */
export function placeOf({ kind, subject }: { kind: string; subject: string | null }): Where {
  if (kind === "no_worker" && subject !== null) return { label: "Jobs", to: "/jobs", jobs: { status: ["queued"], job_type: subject } };
  return PLACES[kind] ?? { label: "Jobs", to: "/jobs" };
}
