import { timeRangeSearch } from "@/components/timeRange";
import type { RawSearch } from "@/search";

/** What the page keeps in its address: the range of time of its charts. */
export function overviewSearch(search: RawSearch) {
  return timeRangeSearch(search);
}
