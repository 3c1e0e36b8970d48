import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function deadLettersSearch(_search: RawSearch) {
  return {};
}
