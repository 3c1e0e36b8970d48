import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { api } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { useSeesAll } from "./session";
import { useTenant } from "./tenant";

const MAX_REQUESTED = 50;

/** The slugs of tenants by their ids, where the page shows things of several; null where it shows those of one. */
export function useTenantSlugs(ids: readonly (string | null)[]): ReadonlyMap<string, string> | null {
  const tenant = useTenant();
  const isMixed = useSeesAll() && tenant === undefined;
  const list = api.useQuery(
    "get",
    "/api/v1/tenants",
    { params: { query: { limit: MAX_LISTED } } },
    { enabled: isMixed, staleTime: 60_000 },
  );
  const listed = useMemo(() => new Map(list.data?.items.map((one) => [one.id, one.slug])), [list.data]);
  // Where there are more tenants than a page of them lists, those that are shown are asked for.
  const asked =
    list.data?.next_cursor == null ? [] : [...new Set(ids)].filter((id) => id !== null && !listed.has(id)).slice(0, MAX_REQUESTED);
  const others = useQueries({
    queries: asked.map((id) => ({
      ...api.queryOptions("get", "/api/v1/tenants/{slug_or_id}", { params: { path: { slug_or_id: id ?? "" } } }),
      staleTime: Infinity,
      retry: false,
    })),
    combine: (found) => found.flatMap(({ data }) => (data === undefined ? [] : [[data.id, data.slug] as const])),
  });
  return useMemo(() => (isMixed ? new Map([...listed, ...others]) : null), [isMixed, listed, others]);
}
