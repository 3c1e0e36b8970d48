import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { api, client, type Schemas } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { useToast } from "@/components/Toast";
import { useLiveBatches } from "@/live/live";
import { mayRetry } from "@/pages/runs/states";
import { jobEvents } from "./jobs";

export type Job = Schemas["Job"];
export type Attempt = Schemas["Attempt"];

const PAUSE_MS = 700;
const ENDED: readonly string[] = ["succeeded", "failed", "dead_letter", "canceled"];

/** A job with its attempts and the reason for its state, fetched again when events name it. */
export function useJob(jobId: string) {
  const path = { job_id: jobId };
  const job = api.useQuery("get", "/api/v1/jobs/{job_id}", { params: { path } });
  const active = job.data !== undefined && !ENDED.includes(job.data.status);
  const attempts = api.useQuery("get", "/api/v1/jobs/{job_id}/attempts", { params: { path, query: { limit: MAX_LISTED } } });
  // What holds a job may end without an event of its own.
  const reason = api.useQuery(
    "get",
    "/api/v1/jobs/{job_id}/explain",
    { params: { path } },
    { refetchInterval: active ? 5000 : false, meta: { live: ["atlas"] } },
  );
  useRefetchOnEvents(jobId);
  return { jobId, job, attempts: attempts.data?.items ?? [], reason: reason.data };
}

export type FoundJob = ReturnType<typeof useJob>;

/** Fetches everything about a job again soon after an event about it. */
function useRefetchOnEvents(jobId: string): void {
  const queries = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const refetch = (): void => {
    timer.current = null;
    void queries.invalidateQueries({ predicate: (query) => JSON.stringify(query.queryKey).includes(jobId) });
  };
  useLiveBatches((batch) => {
    if (batch.refetch || jobEvents(batch).some((event) => event.job_id === jobId)) timer.current ??= setTimeout(refetch, PAUSE_MS);
  });
  useEffect(
    () => () => {
      if (timer.current !== null) clearTimeout(timer.current);
      timer.current = null;
    },
    [],
  );
}

export type JobVerb = "retry" | "cancel" | "delete" | "again";

/** What can be done to a job in its state. The job of a run that has undone its work is not retried. */
export function verbsOf(job: Pick<Job, "status" | "cancel_requested_at" | "error">): JobVerb[] {
  const verbs: JobVerb[] = mayRetry(job) ? ["retry"] : [];
  if (["queued", "waiting"].includes(job.status) || (job.status === "running" && job.cancel_requested_at === null)) verbs.push("cancel");
  verbs.push("again");
  if (job.status !== "running") verbs.push("delete");
  return verbs;
}

/** Does one of them, tells it, and fetches the job again. */
export function useJobVerb(job: Job, { onCreated, onDeleted }: { onCreated: (id: string) => void; onDeleted: () => void }) {
  const queries = useQueryClient();
  const toast = useToast();
  return useMutation({
    mutationFn: async (verb: JobVerb): Promise<void> => {
      const params = { path: { job_id: job.id } };
      if (verb === "retry") {
        await client.POST("/api/v1/jobs/{job_id}/retry", { params });
        toast("The job is queued again");
      } else if (verb === "cancel") {
        const { data } = await client.POST("/api/v1/jobs/{job_id}/cancel", { params });
        toast(data?.verdict === "requested" ? "Its worker was asked to stop it" : "The job is canceled");
      } else if (verb === "again") {
        const { data } = await client.POST("/api/v1/jobs/{job_id}/enqueue-again", { params });
        if (data !== undefined) toast("A new job like it is queued", { action: { label: "Open", run: () => onCreated(data.id) } });
      } else {
        await client.DELETE("/api/v1/jobs/{job_id}", { params });
        toast("The job is deleted");
        onDeleted();
        return;
      }
      await queries.invalidateQueries({ predicate: (query) => JSON.stringify(query.queryKey).includes(job.id) });
    },
    onError: (error) => toast(error.message, { failed: true }),
  });
}
