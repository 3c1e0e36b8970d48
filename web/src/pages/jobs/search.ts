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
  "error_type",
  "error_text",
  "error_pattern",
  "created_after",
  "created_before",
  "finished_after",
  "finished_before",
] as const;
export type TextFilterName = (typeof TEXT_FILTERS)[number];

export type JobFilters = { status?: JobStatus[] | undefined; source?: (typeof SOURCES)[number] | undefined } & { [Name in TextFilterName]?: string | undefined };

export interface JobsSearch extends JobFilters {
  /** `ended`: those that failed or were canceled, the last first. */
  order?: "ended" | undefined;
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
    job: text(search, "job"),
    tab: oneOf(search, "tab", TABS),
  };
  for (const name of TEXT_FILTERS) found[name] = text(search, name);
  return found;
}

export function jobSearch(search: RawSearch): { tab?: JobTab | undefined } {
  return { tab: oneOf(search, "tab", TABS) };
}

/** The filters of a search that are set, as the API takes them. */
export function filtersOf(search: JobsSearch): JobFilters {
  const found: JobFilters = {};
  if (search.status !== undefined) found.status = search.status;
  if (search.source !== undefined) found.source = search.source;
  for (const name of TEXT_FILTERS) if (search[name] !== undefined) found[name] = search[name];
  return found;
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
