import { useInfiniteQuery, useQueryClient, type InfiniteData } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { serverNow } from "@/format/clock";
import { useLiveBatches } from "@/live/live";
import type { Batch } from "@/live/socket";
import { useTenant } from "@/session/tenant";
import { filtersAt, filtersOf, type JobsSearch, type ListFilters } from "./search";

export type ListedJob = Schemas["ListedJob"];
export type SentencePart = Schemas["SentencePart"];
export type JobPageOfList = { items: ListedJob[]; next_cursor: string | null };
type Pages = InfiniteData<JobPageOfList, string | null>;

const PAGE = 50;
/** How many empty pages of the API are passed over by themselves; a button searches further. */
const MAX_EMPTY_PAGES = 8;
/** Between two looks at what is new. */
const PEEK_MS = 2000;
const MAX_EXPLAINED = 100;

/** A page with some rows: over a long history, pages of a rare value are empty and still have a successor. */
async function readPage(
  filters: ListFilters,
  order: "ended" | undefined,
  tenant: string | undefined,
  cursor: string | null,
  signal?: AbortSignal,
): Promise<JobPageOfList> {
  let page: JobPageOfList = { items: [], next_cursor: cursor };
  for (let tries = 0; tries < MAX_EMPTY_PAGES; tries += 1) {
    const query = {
      ...filtersAt(filters, serverNow()),
      tenant,
      limit: PAGE,
      ...(order !== undefined && { order }),
      ...(page.next_cursor !== null && { cursor: page.next_cursor }),
    };
    const { data } = await client.GET("/api/v1/jobs/brief", { params: { query }, ...(signal !== undefined && { signal }) });
    page = { items: data?.items ?? [], next_cursor: data?.next_cursor ?? null };
    if (page.items.length > 0 || page.next_cursor === null) break;
  }
  return page;
}

/** The jobs of a search, page by page; rows change in place as events arrive, and new ones are counted, not inserted. */
export function useJobs(search: JobsSearch) {
  const tenant = useTenant();
  const queries = useQueryClient();
  const filters = filtersOf(search);
  const key = ["jobs", tenant, filters, search.order] as const;
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => readPage(filters, search.order, tenant, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    staleTime: Infinity,
    refetchOnWindowFocus: false,
  });
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items), [query.data]);
  const fresh = useNewJobs(key, rows, () => readPage(filters, search.order, tenant, null));
  const restart = async (): Promise<void> => {
    fresh.forget();
    await queries.resetQueries({ queryKey: key });
  };
  return { query, rows, newCount: fresh.count, restart };
}

/** Changes the listed rows as events say, and looks at the first page now and then for what is new. */
function useNewJobs(key: readonly unknown[], rows: ListedJob[] | undefined, readFirst: () => Promise<JobPageOfList>) {
  const queries = useQueryClient();
  const [fresh, setFresh] = useState<{ key: string; ids: string[]; more: boolean }>({ key: "", ids: [], more: false });
  const name = JSON.stringify(key);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const change = (edit: (job: ListedJob) => ListedJob | null): void => {
    queries.setQueryData<Pages>(
      key,
      (before) => before && { ...before, pages: before.pages.map((page) => ({ ...page, items: edited(page.items, edit) })) },
    );
  };
  const peek = async (): Promise<void> => {
    timer.current = null;
    const first = await readFirst().catch(() => null);
    const listed = queries.getQueryData<Pages>(key)?.pages.flatMap((page) => page.items);
    if (first === null || listed === undefined) return;
    const known = new Set(listed.map((row) => row.id));
    const found = new Map(first.items.map((job) => [job.id, job]));
    // An empty list has nothing that could be pushed away.
    if (listed.length === 0 && found.size > 0) {
      await queries.resetQueries({ queryKey: key });
      return;
    }
    change((job) => found.get(job.id) ?? job);
    const ids = first.items.map((job) => job.id).filter((id) => !known.has(id));
    setFresh({ key: name, ids, more: ids.length === first.items.length && first.next_cursor !== null });
  };
  useLiveBatches((batch) => {
    if (!isAboutJobs(batch)) return;
    const events = new Map(jobEvents(batch).map((event) => [event.job_id, event]));
    if (rows?.some((row) => events.has(row.id)) === true) change((job) => changedBy(job, events.get(job.id)));
    timer.current ??= setTimeout(() => void peek(), PEEK_MS);
  });
  useEffect(
    () => () => {
      if (timer.current !== null) clearTimeout(timer.current);
      timer.current = null;
    },
    [name],
  );
  const count = fresh.key !== name ? 0 : fresh.ids.length;
  return {
    count: fresh.more && count > 0 ? `${count}+` : count === 0 ? null : String(count),
    forget: () => setFresh({ key: "", ids: [], more: false }),
  };
}

function edited(items: ListedJob[], edit: (job: ListedJob) => ListedJob | null): ListedJob[] {
  return items.flatMap((job) => edit(job) ?? []);
}

type JobEvent = Schemas["JobEvent"];

export function jobEvents(batch: Batch): JobEvent[] {
  return batch.events.filter((event): event is JobEvent => "job_id" in event);
}

export function isAboutJobs(batch: Batch): boolean {
  return batch.refetch || batch.events.some((event) => "job_id" in event) || Object.keys(batch.more).some((kind) => kind.startsWith("job"));
}

/** A row after an event; null if its job is gone. What the event does not say is read with the next look. */
export function changedBy(job: ListedJob, event: JobEvent | undefined): ListedJob | null {
  if (event === undefined) return job;
  if (event.event === "job.deleted") return null;
  const next = { ...job, attempt_count: event.attempt_count ?? job.attempt_count };
  if (event.status !== null) next.status = event.status;
  if (event.event === "job_run.started")
    Object.assign(next, { started_at: new Date(serverNow()).toISOString(), finished_at: null, progress: null });
  if (event.event === "job_run.progress") next.progress = event.progress ?? null;
  if (event.error !== null) next.error = { ...next.error, message: event.error };
  if (event.duration_ms !== null && next.started_at !== null) {
    next.finished_at = new Date(Date.parse(next.started_at) + event.duration_ms).toISOString();
  }
  return next;
}

/** Why the listed jobs that do not run wait, by id: a call for a page. */
export function useReasons(rows: readonly ListedJob[] | undefined): ReadonlyMap<string, readonly SentencePart[]> {
  const tenant = useTenant();
  const ids = (rows ?? []).filter((row) => row.status === "queued" || row.status === "waiting").map((row) => row.id);
  const asked = ids.slice(0, MAX_EXPLAINED).sort();
  const { data } = api.useQuery(
    "get",
    "/api/v1/jobs/explain",
    { params: { query: { id: asked, tenant } } },
    { enabled: asked.length > 0, refetchInterval: 10_000, placeholderData: (before) => before, meta: { live: ["atlas"] } },
  );
  return useMemo(() => new Map(data?.items.map((one) => [one.id, one.parts ?? []])), [data]);
}
