import { oneOf, text, type RawSearch } from "@/search";

export const PARTS = ["html", "text", "headers"] as const;

/** What the page keeps in its address. */
export interface OutboxSearch {
  /** The mail that is open beside the list, by its job. */
  mail?: string | undefined;
  part?: (typeof PARTS)[number] | undefined;
}

export function outboxSearch(search: RawSearch): OutboxSearch {
  return { mail: text(search, "mail"), part: oneOf(search, "part", PARTS) };
}
