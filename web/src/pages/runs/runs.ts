import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, client, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { isStatus } from "@/api/problem";
import { useToast } from "@/components/Toast";
import { useTenant } from "@/session/tenant";
import type { RunsSearch } from "./search";

export type Run = Schemas["RunShown"];
export type Step = Schemas["StepShown"];

const PAGE = 50;
const STEPS = 200;
const LIVE = { meta: { live: ["run", "job"] } };

/** The runs of a search, newest first. */
export function useRuns(search: RunsSearch) {
  const query = { ...search, tenant: useTenant(), limit: PAGE };
  return usePages(["runs", query], async (at) => (await client.GET("/api/v1/runs", { params: { query: { ...query, ...at } } })).data, LIVE.meta.live);
}

/** A run; where policy has not let it begin, the request for it. */
export function useRun(runId: string) {
  const query = { tenant: useTenant() };
  const run = api.useQuery("get", "/api/v1/runs/{run_id}", { params: { path: { run_id: runId }, query } }, LIVE);
  const missing = isStatus(run.error, 404);
  const intent = api.useQuery("get", "/api/v1/intents/{intent_id}", { params: { path: { intent_id: runId }, query } }, { ...LIVE, enabled: missing });
  return { run, intent, missing };
}

/** All steps of a run, in their order: the next page is fetched as soon as there is one. */
export function useSteps(runId: string) {
  const query = { tenant: useTenant(), limit: STEPS };
  const path = { run_id: runId };
  const read = async (at: object) => (await client.GET("/api/v1/runs/{run_id}/steps", { params: { path, query: { ...query, ...at } } })).data;
  const steps = usePages(["steps", runId, query], read, LIVE.meta.live);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = steps;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return steps;
}

export type RunVerb = "cancel" | "retry";

const DONE: Record<string, string> = { canceled: "The run is canceled", requested: "The run stops at its next step", rejected: "The request is withdrawn" };

/** Cancels or retries a run, and says what became of it. */
export function useRunVerb(runId: string) {
  const tenant = useTenant();
  const queries = useQueryClient();
  const toast = useToast();
  return useMutation({
    mutationFn: async (verb: RunVerb) => {
      const params = { path: { run_id: runId }, query: { tenant } };
      if (verb === "retry") {
        await client.POST("/api/v1/runs/{run_id}/retry", { params });
        return "The run goes on after its last recorded step";
      }
      const { data } = await client.POST("/api/v1/runs/{run_id}/cancel", { params });
      return DONE[data?.verdict ?? ""] ?? "The run is canceled";
    },
    onSuccess: async (words) => {
      toast(words);
      await queries.invalidateQueries();
    },
    onError: (error) => toast(error.message, { failed: true }),
  });
}
