import { linkOptions, type LinkProps } from "@tanstack/react-router";

interface Place {
  label: string;
  link: LinkProps;
}

const PLACES: Record<string, Place> = {
  dead_letters: { label: "Dead letters", link: linkOptions({ to: "/dead-letters" }) },
  approvals: { label: "Decide", link: linkOptions({ to: "/approvals" }) },
  schedules_late: { label: "Schedules", link: linkOptions({ to: "/schedules" }) },
  triggers_failing: { label: "Schedules", link: linkOptions({ to: "/schedules" }) },
  webhooks_disabled: { label: "Settings", link: linkOptions({ to: "/settings" }) },
  seal_lag: { label: "Audit", link: linkOptions({ to: "/audit" }) },
  worker_lost: { label: "Workers", link: linkOptions({ to: "/workers" }) },
  host_silent: { label: "Workers", link: linkOptions({ to: "/workers" }) },
  engine_silent: { label: "Workers", link: linkOptions({ to: "/workers" }) },
  intents_stuck: { label: "Workflows", link: linkOptions({ to: "/runs" }) },
  failures_rise: { label: "Failed jobs", link: linkOptions({ to: "/jobs", search: { status: ["failed", "dead_letter"] } }) },
};

/** The page where something is looked into. */
export function placeOf({ kind, subject }: { kind: string; subject: string | null }): Place {
  if (kind === "no_worker" && subject !== null) {
    return { label: "Jobs", link: linkOptions({ to: "/jobs", search: { status: ["queued"], job_type: subject } }) };
  }
  return PLACES[kind] ?? { label: "Jobs", link: linkOptions({ to: "/jobs" }) };
}
