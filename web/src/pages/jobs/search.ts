import { boundsOf, type Span, SPAN_NAMES } from "@/components/timeRange";
import { oneOf, someOf, text, type RawSearch } from "@/search";

export const STATUSES = ["queued", "waiting", "running", "succeeded", "failed", "dead_letter", "canceled"] as const;
export type JobStatus = (typeof STATUSES)[number];

export const SOURCES = ["manual", "event", "schedule", "workflow", "system"] as const;
export const TABS = ["summary", "input", "output", "attempts", "audit"] as const;
export type JobTab = (typeof TABS)[number];

/** Filters by a text, under the names that the API has for them. */
export const TEXT_FILTERS = [
  "job_type",
  "correlation_id",
  "id_prefix",
  "worker_id",
  "host_id",
  "parent_run_id",
  "group_id",
  "error_type",
  "error_text",
  "error_pattern",
  "created_after",
  "created_before",
  "finished_after",
  "finished_before",
] as const;
export type TextFilterName = (typeof TEXT_FILTERS)[number];

export type JobFilters = { status?: JobStatus[] | undefined; source?: (typeof SOURCES)[number] | undefined } & {
  [Name in TextFilterName]?: string | undefined;
};

/** A view keeps how long ago jobs were created at most, and not the time when it was saved. */
export type ListFilters = JobFilters & { last?: Span | undefined };

export interface JobsSearch extends ListFilters {
  /** `ended`: those that failed or were canceled, the last first. */
  order?: "ended" | undefined;
  /** The form for a new job is open. */
  new?: "job" | undefined;
  /** The job that is open beside the table, and its tab. */
  job?: string | undefined;
  tab?: JobTab | undefined;
}

/** What the page keeps in its address. */
export function jobsSearch(search: RawSearch): JobsSearch {
  const found: JobsSearch = {
    status: someOf(search, "status", STATUSES),
    source: oneOf(search, "source", SOURCES),
    order: oneOf(search, "order", ["ended"]),
    last: oneOf(search, "last", SPAN_NAMES),
    new: oneOf(search, "new", ["job"]),
    job: text(search, "job"),
    tab: oneOf(search, "tab", TABS),
  };
  for (const name of TEXT_FILTERS) found[name] = text(search, name);
  return found;
}

export function jobSearch(search: RawSearch): { tab?: JobTab | undefined } {
  return { tab: oneOf(search, "tab", TABS) };
}

/** The filters of a search that are set. */
export function filtersOf(search: JobsSearch): ListFilters {
  const found: ListFilters = {};
  if (search.status !== undefined) found.status = search.status;
  if (search.source !== undefined) found.source = search.source;
  for (const name of TEXT_FILTERS) if (search[name] !== undefined) found[name] = search[name];
  if (search.last !== undefined) found.last = search.last;
  return found;
}

/** The same as the API takes them: a span ends now. */
export function filtersAt({ last, ...filters }: ListFilters, now: number): JobFilters {
  return last === undefined ? filters : { ...filters, created_after: boundsOf({ last }, now).start };
}

const WHOLE_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ID_PREFIX = /^(?=.*[0-9])[0-9a-f]{4,8}(-[0-9a-f-]{0,27})?$/i;

/** What someone means who types this: an id, the beginning of one, or a correlation id. */
export function searchedFor(typed: string): { id: string } | { id_prefix: string } | { correlation_id: string } | null {
  const words = typed.trim();
  if (words === "") return null;
  if (WHOLE_ID.test(words)) return { id: words.toLowerCase() };
  if (ID_PREFIX.test(words)) return { id_prefix: words.toLowerCase().replace(/-+$/, "") };
  return { correlation_id: words };
}
