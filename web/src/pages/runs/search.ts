import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function runsSearch(_search: RawSearch) {
  return {};
}

export function runSearch(_search: RawSearch) {
  return {};
}
