import { text, type RawSearch } from "@/search";

/** What the page keeps in its address: the group that is open. */
export function groupsSearch(search: RawSearch): { open?: string | undefined } {
  return { open: text(search, "open") };
}
