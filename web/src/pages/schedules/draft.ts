import { readObject } from "@/format/json";
import type { NewTrigger, Trigger } from "./triggers";

/** A trigger while it is typed: texts, whether or not they make sense yet. */
export interface Draft {
  label: string;
  type: "schedule" | "event";
  cron: string;
  zone: string;
  event: string;
  kind: "job_type" | "definition_key" | "workflow";
  target: string;
  template: string;
  window: string;
  misfire: "skip" | "latest" | "all";
}

export function draftOf(trigger: Trigger | undefined): Draft {
  const kind = trigger?.workflow != null ? "workflow" : trigger?.definition_key != null ? "definition_key" : "job_type";
  return {
    label: trigger?.label ?? "",
    type: trigger?.trigger_type ?? "schedule",
    cron: trigger?.cron_expr ?? "",
    zone: trigger?.timezone ?? "",
    event: trigger?.event_name ?? "",
    kind,
    target: trigger?.[kind] ?? "",
    template: JSON.stringify(trigger?.payload_template ?? {}, null, 2),
    window: String(trigger?.dedupe_window_seconds ?? 0),
    misfire: trigger?.misfire ?? "latest",
  };
}

/** The trigger as the API takes it; null while the input is not JSON. What belongs to the other kind of trigger is removed. */
export function readDraft(draft: Draft): NewTrigger | null {
  const template = readObject(draft.template);
  if (template === null) return null;
  const isSchedule = draft.type === "schedule";
  const given = (text: string): string | null => (text.trim() === "" ? null : text.trim());
  return {
    label: draft.label.trim(),
    trigger_type: draft.type,
    cron_expr: isSchedule ? given(draft.cron) : null,
    timezone: isSchedule ? given(draft.zone) : null,
    event_name: isSchedule ? null : given(draft.event),
    job_type: null,
    definition_key: null,
    workflow: null,
    [draft.kind]: given(draft.target),
    payload_template: template,
    dedupe_window_seconds: Number(draft.window) || 0,
    misfire: draft.misfire,
  };
}
