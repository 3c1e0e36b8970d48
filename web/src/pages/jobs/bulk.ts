import { useMutation, useQueryClient } from "@tanstack/react-query";
import { client, type Schemas } from "@/api/client";
import { useToast } from "@/components/Toast";
import { plural } from "@/format/numbers";
import { useTenant } from "@/session/tenant";
import type { JobStatus } from "./search";

export type BulkVerb = Schemas["NewBulkAction"]["action"];
export type BulkAction = Schemas["BulkActionShown"];

/** The statuses that each verb can change. */
export const APPLIES_TO: Record<BulkVerb, readonly JobStatus[]> = {
  retry: ["failed", "dead_letter", "canceled"],
  cancel: ["queued", "waiting", "running"],
  delete: ["queued", "waiting", "succeeded", "failed", "dead_letter", "canceled"],
  discard: ["dead_letter"],
};

export const VERBS: Record<BulkVerb, { label: string; done: string; consequence: string }> = {
  retry: {
    label: "Retry",
    done: "queued again",
    consequence: "They are queued as new: no retries used, no losses counted. A job whose dedupe key is taken stays as it is.",
  },
  cancel: {
    label: "Cancel",
    done: "canceled",
    consequence: "What is queued ends at once. What runs is asked to stop, and shows when it has.",
  },
  delete: {
    label: "Delete",
    done: "deleted",
    consequence: "Their inputs, outputs, attempts and secrets are gone. The audit log keeps what happened to them.",
  },
  discard: {
    label: "Discard",
    done: "discarded",
    consequence: "They are ordinary failed jobs from then on, and are removed in time. They can still be retried.",
  },
};

/** What became of an action, as a sentence. */
export function outcomeOf(action: BulkAction): string {
  const changed = `${plural(action.changed, "job")} ${action.changed === 1 ? "is" : "are"} ${VERBS[action.action].done}`;
  if (action.status === "running") return `${changed}; the rest follows.`;
  if (action.passed_over === 0) return `${changed}.`;
  const reasons = Object.entries(action.verdicts)
    .filter(([verdict]) => !DONE.has(verdict))
    .map(([verdict, count]) => `${count} ${PASSED_OVER[verdict] ?? verdict.replaceAll("_", " ")}`);
  return `${changed}; ${plural(action.passed_over, "job")} left as ${action.passed_over === 1 ? "it is" : "they are"}: ${reasons.join(", ")}.`;
}

const DONE = new Set(["retried", "canceled", "requested", "deleted", "discarded"]);
const PASSED_OVER: Record<string, string> = {
  conflict: "whose dedupe key is taken",
  stopping: "that are stopping",
  gone: "whose server was removed",
  ended: "ended already",
  missing: "do not exist",
  unknown_outcome: "may have done their work, and are retried by their ids",
};

/** Begins an action on many jobs, and tells what became of it. */
export function useBulkAction(onDone: (action: BulkAction) => void) {
  const queries = useQueryClient();
  const toast = useToast();
  const tenant = useTenant();
  return useMutation({
    mutationFn: async (body: Schemas["NewBulkAction"]) => {
      const { data } = await client.POST("/api/v1/jobs/bulk", { params: { query: { tenant } }, body });
      if (data === undefined) throw new Error("The API answered nothing.");
      return data;
    },
    onSuccess: (action) => {
      toast(outcomeOf(action), { failed: action.changed === 0 && action.status !== "running" });
      void queries.invalidateQueries({ predicate: (query) => JSON.stringify(query.queryKey).includes("/jobs") });
      onDone(action);
    },
  });
}
