import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function jobsSearch(_search: RawSearch) {
  return {};
}

export function jobSearch(_search: RawSearch) {
  return {};
}
