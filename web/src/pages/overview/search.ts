import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function overviewSearch(_search: RawSearch) {
  return {};
}
