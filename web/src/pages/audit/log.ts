import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, client, type Schemas } from "@/api/client";
import { MAX_LISTED, useList } from "@/api/pages";
import { useTenant } from "@/session/tenant";
import { isSet } from "@/components/timeRange";
import { useFixedBounds } from "@/components/TimeRangeFilter";
import type { AuditSearch } from "./search";

export type Entry = Schemas["AuditEntry"];
export type Seal = Schemas["AuditSeal"];

const PAGE = 100;
const POLL_MS = 2000;
/** More than a screen of new rows, and the first page is read again instead. */
const MAX_TAIL = 2000;

/** The filters of the log, as the API takes them. */
export function filtersOf(search: AuditSearch, tenant: string | undefined) {
  const { text, action, level, people, actor_id, entity_type, entity_id } = search;
  const actor_type = people === true ? ("user" as const) : undefined;
  return { tenant, text, action, level, actor_type, actor_id, entity_type, entity_id };
}

/** Whether the list is all there is, so that rows of one seal stand together. */
export function isWhole(search: AuditSearch): boolean {
  const { text, action, level, people, actor_id, entity_type, entity_id } = search;
  return !isSet(search) && [text, action, level, people, actor_id, entity_type, entity_id].every((one) => one === undefined);
}

/** The pages of the log, and what is recorded meanwhile: none left out, none twice. */
export function useLog(search: AuditSearch) {
  const tenant = useTenant();
  const filters = useMemo(() => filtersOf(search, tenant), [search, tenant]);
  const { start: since, end: until } = useFixedBounds(search);
  const key = JSON.stringify([filters, since, until]);
  const queries = useQueryClient();
  const tail = useTail(key, filters, until === undefined, () => void queries.invalidateQueries({ queryKey: ["get", "/api/v1/audit"] }));
  const query = { ...filters, since, until, limit: PAGE };
  const { rows: older, ...pages } = useList("/api/v1/audit", query, {
    // The place to follow from is known first: so no row is missed between the two. Where that is refused, the list is too, and says why.
    enabled: until !== undefined || tail.place !== undefined || tail.isRefused,
    // New rows come by following the log, for as long as it is shown.
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
  const entries = useMemo(() => merged(tail.rows, older ?? []), [tail.rows, older]);
  const seals = useSealNumbers(entries, filters, since, until);
  const sealed = useMemo(
    () => entries.map((one) => (one.seal === null ? { ...one, seal: seals.get(one.id) ?? null } : one)),
    [entries, seals],
  );
  return { pages, entries: sealed };
}

type Filters = ReturnType<typeof filtersOf>;

/** What was recorded since the page was opened, newest first. */
function useTail(key: string, filters: Filters, enabled: boolean, onCut: () => void): Tail & { isRefused: boolean } {
  const queries = useQueryClient();
  const queryKey = ["audit tail", key];
  const { data, isError: isRefused } = useQuery({
    queryKey,
    enabled,
    refetchInterval: POLL_MS,
    gcTime: 0,
    queryFn: async (): Promise<Tail> => {
      const before = queries.getQueryData<Tail>(queryKey);
      const { data: found } = await client.GET("/api/v1/audit/new", { params: { query: { ...filters, place: before?.place } } });
      if (found === undefined) return before ?? NOTHING;
      if (found.is_cut) onCut();
      const rows = found.is_cut ? [] : [...found.items.toReversed(), ...(before?.rows ?? [])];
      return { place: found.place, rows: rows.slice(0, MAX_TAIL) };
    },
  });
  return { ...(data ?? NOTHING), isRefused };
}

interface Tail {
  place: string | undefined;
  rows: Entry[];
}

const NOTHING: Tail = { place: undefined, rows: [] };

/** Rows that were shown before they were sealed: their seals, once they have one. */
function useSealNumbers(entries: Entry[], filters: Filters, since: string | undefined, until: string | undefined): Map<number, number> {
  const waits = entries.some((one) => one.seal === null);
  const { data } = api.useQuery(
    "get",
    "/api/v1/audit",
    { params: { query: { ...filters, since, until, limit: MAX_LISTED } } },
    { enabled: waits, refetchInterval: POLL_MS },
  );
  return useMemo(() => {
    const known = new Map<number, number>();
    for (const one of data?.items ?? []) if (one.seal !== null) known.set(one.id, one.seal);
    return known;
  }, [data]);
}

function merged(newer: Entry[], older: Entry[]): Entry[] {
  const known = new Set(older.map((one) => one.id));
  return [...newer.filter((one) => !known.has(one.id)), ...older];
}

/** The seals of these rows, by their numbers. */
export function useSeals(entries: Entry[]): Map<number, Seal> {
  const tenant = useTenant();
  const numbers = entries.map((one) => one.seal).filter((one) => one !== null);
  const first = numbers.length === 0 ? 0 : Math.max(...numbers);
  const last = numbers.length === 0 ? 0 : Math.min(...numbers);
  const { data } = useQuery({
    queryKey: ["audit seals", tenant, first, last],
    enabled: first > 0,
    staleTime: Infinity,
    placeholderData: (before: Seal[] | undefined) => before,
    queryFn: async () => {
      const found: Seal[] = [];
      let cursor: string | undefined = String(first + 1);
      for (let page = 0; page < 5 && cursor !== undefined; page += 1) {
        const part: Schemas["Page_AuditSeal_"] | undefined = (
          await client.GET("/api/v1/audit/seals", { params: { query: { tenant, limit: MAX_LISTED, cursor: Number(cursor) } } })
        ).data;
        found.push(...(part?.items ?? []));
        cursor = part?.next_cursor ?? undefined;
        if ((found.at(-1)?.n ?? 0) <= last) break;
      }
      return found;
    },
  });
  return useMemo(() => new Map((data ?? []).map((one) => [one.n, one])), [data]);
}
