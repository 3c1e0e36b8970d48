import type { RawSearch } from "@/search";

/** What the page keeps in its address: nothing yet but the tenant. */
export function deadLettersSearch(_search: RawSearch) {
  return {};
}
