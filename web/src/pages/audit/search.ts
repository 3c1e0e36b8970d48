import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function auditSearch(_search: RawSearch) {
  return {};
}
