import { useQuery } from "@tanstack/react-query";
import { api, client, type Schemas } from "@/api/client";
import { useMinute } from "@/components/Time";
import { type Bounds, stepOf } from "@/components/timeRange";
import { useTenant } from "@/session/tenant";
import { useTenantSlugs } from "@/session/tenantSlugs";

const MAX_FAILURES = 10;

/** The busiest job types of a part of the time, with what happened to each in it; undefined until they are known. */
export function useTypesInRange(bounds: Bounds): Schemas["TypeSeries"][] | undefined {
  const query = { tenant: useTenant(), step: stepOf(bounds, useMinute()), ...bounds, by_type: true, with_points: false };
  return api.useQuery("get", "/api/v1/jobs/series", { params: { query } }, { refetchInterval: 10_000, placeholderData: (before) => before })
    .data?.series;
}

/** The jobs that failed last in a part of the time. */
export function useFailuresInRange({ start, end }: Bounds): Schemas["FailedJob"][] | undefined {
  const tenant = useTenant();
  const query = {
    tenant,
    status: ["failed" as const, "dead_letter" as const],
    order: "ended" as const,
    finished_after: start,
    finished_before: end,
    limit: MAX_FAILURES,
  };
  const { data } = useQuery({
    queryKey: ["failures in range", query],
    queryFn: async () => (await client.GET("/api/v1/jobs/brief", { params: { query } })).data?.items ?? [],
    meta: { live: ["job"] },
    placeholderData: (before: Schemas["ListedJob"][] | undefined) => before,
  });
  const slugs = useTenantSlugs((data ?? []).map((one) => one.tenant_id));
  return data?.map((job) => ({
    id: job.id,
    tenant_id: job.tenant_id,
    tenant: slugs?.get(job.tenant_id) ?? null,
    job_type: job.job_type,
    is_dead_letter: job.status === "dead_letter",
    finished_at: job.finished_at ?? job.queued_at,
    attempt_count: job.attempt_count,
    error_type: null,
    error: typeof job.error["message"] === "string" ? job.error["message"] : null,
  }));
}
