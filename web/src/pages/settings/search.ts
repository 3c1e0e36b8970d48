import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function settingsSearch(_search: RawSearch) {
  return {};
}
