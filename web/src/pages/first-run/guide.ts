import { useMutation, useQueryClient } from "@tanstack/react-query";
import { createElement, useSyncExternalStore, type ReactNode } from "react";
import { api, client, type Schemas } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { Parts } from "@/components/Sentence";
import { useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { STEPS, type StepKey } from "./search";

/** The correlation ids of what the guide makes: the server knows how far it is, whatever browser asks. */
export const MARKS = { mail: "first-run-mail", approval: "first-run-approval", lease: "first-run-lease", gate: "first-run-gate" } as const;
export const LONG_JOB = "count-slowly";
export const BRIEF = "daily-brief";
const DEMO = "demo";
const SYSTEM = "system";
const LIVE = { meta: { live: ["job"] }, refetchInterval: 3000 };

/** The tenant whose jobs the guide makes: the chosen one, else the demo's, else the first; undefined is the caller's own. */
export function useGuideTenant(): { tenant: string | undefined; known: boolean } {
  const chosen = useTenant();
  const seesAll = useSeesAll();
  const { data } = api.useQuery(
    "get",
    "/api/v1/tenants",
    { params: { query: { limit: MAX_LISTED } } },
    { enabled: seesAll, staleTime: 60_000 },
  );
  if (!seesAll) return { tenant: undefined, known: true };
  const slugs = data?.items.map((one) => one.slug) ?? [];
  const usual = slugs.includes(DEMO) ? DEMO : slugs.find((one) => one !== SYSTEM);
  return { tenant: chosen ?? usual, known: chosen !== undefined || data !== undefined };
}

/** The newest job of a step. */
export function useNewest(mark: string, tenant: string | undefined, jobType: string) {
  const query = { correlation_id: mark, job_type: jobType, tenant, limit: 1 };
  const { data } = api.useQuery("get", "/api/v1/jobs/brief", { params: { query } }, LIVE);
  return { job: data?.items[0], known: data !== undefined };
}

/** The whole job, with what went in and came out. */
export function useWhole(jobId: string | undefined) {
  return api.useQuery(
    "get",
    "/api/v1/jobs/{job_id}",
    { params: { path: { job_id: jobId ?? "" } } },
    { ...LIVE, enabled: jobId !== undefined },
  ).data;
}

/** Why the job does not go on, in a sentence. */
export function useReason(jobId: string | undefined, enabled: boolean): ReactNode {
  const { data } = api.useQuery(
    "get",
    "/api/v1/jobs/{job_id}/explain",
    { params: { path: { job_id: jobId ?? "" } } },
    { enabled: enabled && jobId !== undefined, refetchInterval: 3000, meta: { live: ["atlas", "job"] } },
  );
  return data && createElement(Parts, { parts: data.parts ?? [] });
}

/** Enqueues a job of the guide, and looks at it. */
export function useEnqueue(tenant: string | undefined) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (
      body: Pick<Schemas["NewJobBody"], "payload" | "correlation_id"> & { job_type?: string; definition_key?: string },
    ) => {
      const { data } = await client.POST("/api/v1/jobs", { params: { query: { tenant } }, body: body as Schemas["NewJobBody"] });
      return data;
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ["get", "/api/v1/jobs/brief"] }),
  });
}

/** How mails of the tenant leave. */
export function useMailRoute(tenant: string | undefined) {
  return api.useQuery("get", "/api/v1/outbox/route", { params: { query: { tenant } } }, { staleTime: 60_000 }).data;
}

/** Whether the example command is there; undefined until it is known. */
export function useHasLongJob(): boolean | undefined {
  const { data } = api.useQuery("get", "/api/v1/job-types", { params: { query: { limit: MAX_LISTED } } }, { staleTime: 30_000 });
  return data?.items.some((one) => one.key === LONG_JOB);
}

interface Kept {
  skipped: StepKey[];
  /** The guide was begun in this browser, and neither ended nor put away. */
  begun: boolean;
  away: boolean;
}

const KEY = "atlas.first-run";
const CHANGED = "atlas:first-run";
const NOTHING: Kept = { skipped: [], begun: false, away: false };
let cached: { text: string | null; kept: Kept } = { text: null, kept: NOTHING };

function read(): Kept {
  const text = localStorage.getItem(KEY);
  if (text !== cached.text) cached = { text, kept: parsed(text) };
  return cached.kept;
}

function parsed(text: string | null): Kept {
  try {
    const found = JSON.parse(text ?? "{}") as Partial<Kept>;
    return {
      skipped: STEPS.filter((one) => Array.isArray(found.skipped) && found.skipped.includes(one)),
      begun: found.begun === true,
      away: found.away === true,
    };
  } catch {
    return NOTHING;
  }
}

function subscribe(watcher: () => void): () => void {
  window.addEventListener(CHANGED, watcher);
  return () => window.removeEventListener(CHANGED, watcher);
}

/** What is no matter of the server's: which steps a person has skipped, and whether the guide was put away. */
export function useKept(): Kept {
  return useSyncExternalStore(subscribe, read);
}

export function keep(change: Partial<Kept>): void {
  localStorage.setItem(KEY, JSON.stringify({ ...read(), ...change }));
  window.dispatchEvent(new Event(CHANGED));
}
