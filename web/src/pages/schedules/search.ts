import type { RawSearch } from "@/search";

/** What the page keeps in its address. */
export function schedulesSearch(_search: RawSearch) {
  return {};
}
