import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function outboxSearch(_search: RawSearch) {
  return {};
}
