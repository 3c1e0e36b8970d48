import { useMutation, useQueries, useQueryClient, type QueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { isStatus } from "@/api/problem";
import { useToast } from "@/components/Toast";
import { useTenant } from "@/session/tenant";
import type { ListedStep, Run, RunData } from "./model";
import type { RunsSearch } from "./search";

const PAGE = 50;
const STEPS = 200;
const LIVE = { meta: { live: ["run", "job"] } };

/** The runs of a search, newest first. */
export function useRuns(search: RunsSearch) {
  return useList("/api/v1/runs", { ...search, tenant: useTenant(), limit: PAGE }, LIVE.meta);
}

/** A run; where policy has not let it begin, the request for it. */
export function useRun(runId: string) {
  const query = { tenant: useTenant() };
  const run = api.useQuery("get", "/api/v1/runs/{run_id}", { params: { path: { run_id: runId }, query } }, LIVE);
  const missing = isStatus(run.error, 404);
  const intent = api.useQuery(
    "get",
    "/api/v1/intents/{intent_id}",
    { params: { path: { intent_id: runId }, query } },
    { ...LIVE, enabled: missing },
  );
  return { run, intent, missing };
}

/** A run with all that its graph is drawn from. */
export interface WholeRun extends RunData {
  run: Run;
}

const POLL_MS = 2000;
/** A run with more steps is read again by time, not after every event. */
const MANY_STEPS = 1000;

/** Runs with their steps, by their ids: that of the page, and those of its sub-runs that are open. */
export function useWholeRuns(ids: readonly string[]): {
  known: ReadonlyMap<string, WholeRun>;
  first: UseQueryResult<WholeRun> | undefined;
} {
  const tenant = useTenant();
  const queries = useQueryClient();
  return useQueries({
    queries: ids.map((id) => ({
      queryKey: ["whole-run", id, tenant],
      queryFn: () => readWholeRun(queries, id, tenant),
      // A step of code tells no one that it has begun.
      refetchInterval: ({ state }: { state: { data: WholeRun | undefined } }) => (state.data?.run.status === "running" ? POLL_MS : false),
      meta: { live: (queries.getQueryData<WholeRun>(["whole-run", id, tenant])?.steps.length ?? 0) > MANY_STEPS ? [] : LIVE.meta.live },
    })),
    combine,
  });
}

function combine(results: UseQueryResult<WholeRun>[]): {
  known: ReadonlyMap<string, WholeRun>;
  first: UseQueryResult<WholeRun> | undefined;
} {
  return { known: new Map(results.flatMap(({ data }) => (data === undefined ? [] : [[data.run.id, data]]))), first: results[0] };
}

async function readWholeRun(queries: QueryClient, id: string, tenant: string | undefined): Promise<WholeRun> {
  const params = { path: { run_id: id }, query: { tenant } };
  const [run, steps, document] = await Promise.all([
    client.GET("/api/v1/runs/{run_id}", { params }),
    readSteps(id, tenant),
    readDocument(queries, id, tenant),
  ]);
  return { run: run.data as Run, steps, document };
}

async function readSteps(id: string, tenant: string | undefined): Promise<ListedStep[]> {
  const steps: ListedStep[] = [];
  let cursor: string | null | undefined;
  do {
    const query = { tenant, limit: STEPS, ...(typeof cursor === "string" && { cursor }) };
    const { data } = await client.GET("/api/v1/runs/{run_id}/steps/brief", { params: { path: { run_id: id }, query } });
    steps.push(...(data?.items ?? []));
    cursor = data?.next_cursor;
  } while (typeof cursor === "string");
  return steps;
}

/** The document that a run keeps to its end; null for a workflow in code. */
function readDocument(queries: QueryClient, id: string, tenant: string | undefined): Promise<object | null> {
  const read = async (): Promise<object | null> => {
    try {
      return (
        (await client.GET("/api/v1/runs/{run_id}/workflow", { params: { path: { run_id: id }, query: { tenant } } })).data?.document ?? null
      );
    } catch (error) {
      // No worker publishes its code any more.
      if (isStatus(error, 404)) return null;
      throw error;
    }
  };
  return queries.query({ queryKey: ["run-document", id, tenant], queryFn: read, staleTime: Infinity });
}

/** One step with its input and output. */
export function useStep(runId: string, key: string) {
  const query = { tenant: useTenant(), key, limit: 1 };
  const found = api.useQuery("get", "/api/v1/runs/{run_id}/steps", { params: { path: { run_id: runId }, query } }, LIVE);
  return { ...found, step: found.data?.items[0] };
}

/** All steps of a run with inputs and outputs, in their order: the next page is fetched as soon as there is one. */
export function useSteps(runId: string) {
  const options = { path: { run_id: runId }, ...LIVE.meta };
  const steps = useList("/api/v1/runs/{run_id}/steps", { tenant: useTenant(), limit: STEPS }, options);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = steps;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return steps;
}

export type RunVerb = "cancel" | "retry";

const DONE: Record<string, string> = {
  canceled: "The run is canceled",
  requested: "The run stops at its next step",
  rejected: "The request is withdrawn",
};

/** Asks for a new run that reuses what was recorded when a step began. */
export function useFork(runId: string, onForked: (runId: string) => void) {
  const tenant = useTenant();
  const toast = useToast();
  return useMutation({
    mutationFn: async (step: string) =>
      (await client.POST("/api/v1/runs/{run_id}/fork", { params: { path: { run_id: runId }, query: { tenant } }, body: { step } }))
        .data as Schemas["RunId"],
    onSuccess: ({ id }) => {
      toast("The fork is requested");
      onForked(id);
    },
  });
}

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
        return "The run resumes after its last recorded step";
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
