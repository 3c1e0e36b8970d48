import { useMemo } from "react";
import { api, type Schemas } from "@/api/client";
import { MAX_LISTED, useList } from "@/api/pages";
import { useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import type { Knowledge, Known, Schema } from "./editor/known";
import { orderOf, type FieldOrder } from "./layout";

export type Workflow = Schemas["Workflow"];
export type RunCounts = Schemas["RunCounts"];

const PAGE = 50;
/** Others publish too: the lists are read again after so long. */
const EVERY_MS = 30_000;
const STEADY = { staleTime: 300_000 };

/** All workflows, by key, each in its newest version. */
export function useWorkflows() {
  return useList("/api/v1/workflows", { tenant: useTenant(), limit: PAGE }, { refetchInterval: EVERY_MS });
}

/** The versions of one workflow, newest first. */
export function useVersions(key: string) {
  const options = { path: { key }, refetchInterval: EVERY_MS };
  return useList("/api/v1/workflows/{key}/versions", { tenant: useTenant(), limit: PAGE }, options);
}

/** One version of a workflow, which never changes. */
export function useVersion(key: string, version: number | undefined) {
  const params = { path: { key, version: version ?? 0 }, query: { tenant: useTenant() } };
  return api.useQuery("get", "/api/v1/workflows/{key}/versions/{version}", { params }, { enabled: version !== undefined, ...STEADY });
}

/** How the newest runs of each workflow and version went. */
export function useRunCounts(): readonly RunCounts[] {
  const { data } = api.useQuery(
    "get",
    "/api/v1/runs/summary",
    { params: { query: { tenant: useTenant() } } },
    { meta: { live: ["run"] }, refetchInterval: EVERY_MS },
  );
  return data?.items ?? NONE;
}

const NONE: readonly RunCounts[] = [];

/** Whether a workflow belongs to whom the caller acts for: a tenant's own, or everyone's for those who act for all. */
export function useIsOwn(workflow: Workflow): boolean {
  const actsForAll = useActsForAll();
  return actsForAll === (workflow.tenant_id === null);
}

/** Whether what the caller saves is for all tenants. */
export function useActsForAll(): boolean {
  const seesAll = useSeesAll();
  return useTenant() === undefined && seesAll;
}

/** The order in which the fields of documents are shown. */
export function useFieldOrder(): FieldOrder {
  const { data } = api.useQuery("get", "/api/v1/workflow-schema", {}, STEADY);
  return useMemo(() => orderOf(data?.document_schema as Schema | undefined), [data]);
}

/** What the editor's completion knows. */
export function useKnowledge(): Knowledge {
  const schema = api.useQuery("get", "/api/v1/workflow-schema", {}, STEADY).data;
  const types = api.useQuery("get", "/api/v1/job-types", { params: { query: { limit: MAX_LISTED } } }, STEADY).data;
  const workflows = api.useQuery(
    "get",
    "/api/v1/workflows",
    { params: { query: { limit: MAX_LISTED, tenant: useTenant() } } },
    STEADY,
  ).data;
  return useMemo(
    () => ({
      schema: schema?.document_schema ?? {},
      filters: schema?.template_filters ?? [],
      tests: schema?.template_tests ?? [],
      jobTypes: (types?.items ?? []).filter((one) => one.key !== "ENGINE_RUN"),
      workflows: unique((workflows?.items ?? []) as Known[]),
    }),
    [schema, types, workflows],
  );
}

/** A tenant's own workflow and everyone's of the same key are one choice. */
function unique(workflows: readonly Known[]): Known[] {
  return [...new Map(workflows.map((one) => [one.key, one])).values()];
}

export interface Sum {
  total: number;
  active: number;
  succeeded: number;
  failed: number;
  canceled: number;
  last: string | null;
}

/** The counts of a workflow's versions together, or of one of them. */
export function sumOf(counts: readonly RunCounts[], key: string, version?: number): Sum {
  const own = counts.filter((one) => one.workflow === key && (version === undefined || one.version === version));
  const add = (name: "total" | "active" | "succeeded" | "failed" | "canceled"): number => own.reduce((sum, one) => sum + one[name], 0);
  const last =
    own
      .map((one) => one.last_created_at)
      .sort()
      .at(-1) ?? null;
  return {
    total: add("total"),
    active: add("active"),
    succeeded: add("succeeded"),
    failed: add("failed"),
    canceled: add("canceled"),
    last,
  };
}

/** A workflow's version in words. */
export function versionWord(version: number): string {
  return version === 0 ? "in code" : `version ${version}`;
}
