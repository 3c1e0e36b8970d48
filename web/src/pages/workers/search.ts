import { oneOf, text, type RawSearch } from "@/search";

export const TABS = ["workers", "hosts"] as const;

/** What the page keeps in its address. */
export function workersSearch(search: RawSearch) {
  return {
    tab: oneOf(search, "tab", TABS),
    /** The worker, or the host, that is open beside its list. */
    worker: text(search, "worker"),
    host: text(search, "host"),
  };
}
