import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function approvalsSearch(_search: RawSearch) {
  return {};
}
