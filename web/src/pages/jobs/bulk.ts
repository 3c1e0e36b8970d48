import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { client, type Schemas } from "@/api/client";
import { useToast } from "@/components/Toast";
import { plural, whole } from "@/format/numbers";
import { useTenant } from "@/session/tenant";
import type { JobStatus } from "./search";

export type BulkVerb = Schemas["NewBulkAction"]["action"];
export type BulkAction = Schemas["BulkAction"];
export type BulkPreview = Schemas["BulkActionPreview"];
/** The jobs of an action: by their ids, or all that pass a filter. */
export type Selection = { ids: string[] } | { filter: Schemas["JobFilterBody"] };

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
    consequence: "Jobs are queued again with all of their retries. A job whose dedupe key is in use is left unchanged.",
  },
  cancel: {
    label: "Cancel",
    done: "canceled",
    consequence: "Queued jobs are canceled immediately. Running jobs are asked to stop, and are canceled when they do.",
  },
  delete: {
    label: "Delete",
    done: "deleted",
    consequence: "Deletes their inputs, outputs, attempts and secrets. Their audit rows are kept.",
  },
  discard: {
    label: "Discard",
    done: "discarded",
    consequence: "Discarded jobs become ordinary failed jobs, and retention removes them later. They can still be retried.",
  },
};

/** What became of an action, as a sentence. */
export function outcomeOf(action: BulkAction): string {
  const changed = `${plural(action.changed, "job")} ${action.changed === 1 ? "is" : "are"} ${VERBS[action.action].done}`;
  const arrived = action.arrived == null || action.arrived === 0 ? "" : ` ${arrivedSince(action.arrived)}`;
  if (action.status === "running") return `${changed}; the rest follows.${arrived}`;
  if (action.passed_over === 0) return `${changed}.${arrived}`;
  const left = Object.fromEntries(Object.entries(action.verdicts).filter(([verdict]) => !DONE.has(verdict)));
  return `${changed}; ${leftAlone(action.passed_over, left)}.${arrived}`;
}

/** What a preview leaves out, as sentences under the number of jobs that would change. Jobs that were chosen are named by `refusalsOf`. */
export function leftOutOf(preview: BulkPreview): string[] {
  if (preview.filter === null) return [];
  const count = Object.values(preview.left_out).reduce((sum, one) => sum + one, 0);
  const words = leftAlone(count, preview.left_out);
  return [
    ...(count === 0 ? [] : [`${words.charAt(0).toUpperCase()}${words.slice(1)}.`]),
    ...(preview.complete ? [] : [`More jobs match; these are the newest ${whole(preview.count)}. Repeat the action for the rest.`]),
  ];
}

export interface Refusal {
  verdict: string;
  words: string;
  ids: string[];
}

/** The chosen jobs that an action would leave as they are, by the reason. */
export function refusalsOf(preview: BulkPreview): Refusal[] {
  const refused = Object.entries(preview.refused ?? {});
  return Object.keys(preview.left_out).map((verdict) => ({
    verdict,
    words: wordsOf(verdict),
    ids: refused.filter(([, reason]) => reason === verdict).map(([id]) => id),
  }));
}

// So many are counted; there may be more.
const MAX_ARRIVED = 200;

function arrivedSince(count: number): string {
  return `${whole(count)}${count < MAX_ARRIVED ? "" : " or"} more arrived since and ${count === 1 ? "was" : "were"} not changed.`;
}

function leftAlone(count: number, verdicts: Record<string, number>): string {
  const reasons = Object.entries(verdicts).map(([verdict, of]) => `${whole(of)} ${wordsOf(verdict)}`);
  return `${plural(count, "job")} left unchanged: ${reasons.join(", ")}`;
}

function wordsOf(verdict: string): string {
  return PASSED_OVER[verdict] ?? verdict.replaceAll("_", " ");
}

const DONE = new Set(["retried", "canceled", "requested", "deleted", "discarded"]);
const PASSED_OVER: Record<string, string> = {
  conflict: "whose dedupe key is in use",
  stopping: "still stopping",
  compensated: "with undone steps, to be forked instead",
  blocked: "blocked by policy",
  review: "that policy reviews, to be forked instead",
  gone: "whose server was removed",
  ended: "already finished",
  missing: "not found",
  already_changed: "changed already",
  unknown_outcome: "with an unknown outcome, to be retried one by one",
};

/** The jobs that an action would change. They are read once, so that the number does not change under the reader. */
export function useBulkPreview(verb: BulkVerb, selection: Selection) {
  const tenant = useTenant();
  return useQuery({
    queryKey: ["bulk preview", verb, selection, tenant],
    queryFn: async () => {
      const body = { action: verb, ...selection };
      const { data } = await client.POST("/api/v1/jobs/bulk/preview", { params: { query: { tenant } }, body });
      if (data === undefined) throw new Error("The API returned nothing.");
      return data;
    },
    retry: false,
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
}

/** Begins an action on many jobs, and tells what became of it. */
export function useBulkAction(onDone: (action: BulkAction) => void) {
  const queries = useQueryClient();
  const toast = useToast();
  const tenant = useTenant();
  return useMutation({
    mutationFn: async (body: Schemas["NewBulkAction"]) => {
      const { data } = await client.POST("/api/v1/jobs/bulk", { params: { query: { tenant } }, body });
      if (data === undefined) throw new Error("The API returned nothing.");
      return data;
    },
    onSuccess: (action) => {
      toast(outcomeOf(action), { failed: action.changed === 0 && action.status !== "running" });
      void queries.invalidateQueries({ predicate: (query) => JSON.stringify(query.queryKey).includes("/jobs") });
      onDone(action);
    },
  });
}
