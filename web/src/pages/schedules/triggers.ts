import { useMutation, useQueryClient } from "@tanstack/react-query";
import { client, type Schemas } from "@/api/client";
import { saveEdit } from "@/api/edits";
import { useToast } from "@/components/Toast";
import { useEdit } from "@/components/useEdit";

export type Trigger = Schemas["Trigger"];
export type NewTrigger = Schemas["NewTrigger"];
export type Fire = Schemas["Fire"];

const TRIGGERS = "/api/v1/jobs/triggers";

/** What a trigger starts: a command, a job or a workflow. */
export function targetOf(trigger: Pick<Trigger, "definition_key" | "job_type" | "workflow">): { kind: string; name: string } {
  if (trigger.workflow !== null) return { kind: "workflow", name: trigger.workflow };
  if (trigger.definition_key !== null) return { kind: "command", name: trigger.definition_key };
  return { kind: "job", name: trigger.job_type ?? "" };
}

/** Why a trigger does not start anything, or null. */
export function troubleOf(trigger: Trigger): string | null {
  if (!trigger.is_enabled) return "It is disabled: nothing fires until it is enabled again.";
  if (!trigger.target_exists)
    return `Nothing runs ${targetOf(trigger).name}: no worker has published it. Start a worker that has it, or name another.`;
  const message: unknown = trigger.last_error?.["message"] ?? trigger.last_error?.["error"];
  return typeof message === "string" ? `It could not fire last time: ${message}` : null;
}

/** Fetches everything about triggers again after a change. */
function useRefresh(): () => Promise<void> {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ predicate: (query) => String(query.queryKey[1]).startsWith(TRIGGERS) });
}

const ONE = "/api/v1/jobs/triggers/{trigger_id}";

/** How a trigger is edited: as it was shown, or not at all. */
export function editOf(id: string) {
  const path = { trigger_id: id };
  return {
    entity: { type: "trigger", id },
    read: () => client.GET(ONE, { params: { path } }),
    write: async (body: Schemas["TriggerChange"], headers: { "If-Match": string }) =>
      (await client.PATCH(ONE, { params: { path }, body, headers })).data,
  };
}

/** Adds a trigger of a tenant, or changes one. */
export function useSaveTrigger(trigger: Trigger | undefined, tenant: string | undefined) {
  const refresh = useRefresh();
  const edit = useEdit(trigger);
  return useMutation({
    mutationFn: async (body: NewTrigger): Promise<Trigger | undefined> => {
      if (trigger === undefined) return (await client.POST("/api/v1/jobs/triggers", { params: { query: { tenant } }, body })).data;
      return edit({ body, ...editOf(trigger.id) });
    },
    onSuccess: refresh,
  });
}

export function useEnableTrigger() {
  const refresh = useRefresh();
  const toast = useToast();
  return useMutation({
    mutationFn: async (trigger: Trigger) => {
      return saveEdit({ base: trigger, body: { is_enabled: !trigger.is_enabled }, ...editOf(trigger.id) });
    },
    onSuccess: async (changed) => {
      await refresh();
      if (changed !== undefined) toast(`${changed.label} is ${changed.is_enabled ? "enabled" : "disabled"}`);
    },
    onError: (error) => toast(error.message, { failed: true }),
  });
}

export function useFireTrigger() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: async ({ id, context }: { id: string; context: Record<string, unknown> }) => {
      return (await client.POST("/api/v1/jobs/triggers/{trigger_id}/fire", { params: { path: { trigger_id: id } }, body: { context } }))
        .data;
    },
    onSuccess: refresh,
  });
}

export function useRemoveTrigger() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: async (id: string) => {
      await client.DELETE("/api/v1/jobs/triggers/{trigger_id}", { params: { path: { trigger_id: id } } });
    },
    onSuccess: refresh,
  });
}
