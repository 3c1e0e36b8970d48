import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function workersSearch(_search: RawSearch) {
  return {};
}
