import { timeRangeSearch, type TimeRange } from "@/components/timeRange";
import { oneOf, text, type RawSearch } from "@/search";
import { SORTS, type Sort } from "./groups";

export interface InsightsSearch extends TimeRange {
  job_type?: string | undefined;
  /** What the table compares; job types if not given. */
  by?: "tenant" | "usage" | "steps" | undefined;
  /** The workflow whose steps are compared. */
  workflow?: string | undefined;
  /** The column of its order; finished if not given. */
  sort?: Sort | undefined;
  order?: "up" | undefined;
}

/** What the page keeps in its address. */
export function insightsSearch(search: RawSearch): InsightsSearch {
  return {
    ...timeRangeSearch(search),
    job_type: text(search, "job_type"),
    by: oneOf(search, "by", ["tenant", "usage", "steps"]),
    workflow: text(search, "workflow"),
    sort: oneOf(search, "sort", SORTS),
    order: oneOf(search, "order", ["up"]),
  };
}
