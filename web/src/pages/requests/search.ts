import { oneOf, text, type RawSearch } from "@/search";

export const REQUEST_STATUSES = ["draft", "awaiting_human", "queued", "executed", "failed", "blocked", "rejected"] as const;

export interface RequestsSearch {
  status?: (typeof REQUEST_STATUSES)[number] | undefined;
  workflow?: string | undefined;
}

/** What the page keeps in its address. */
export function requestsSearch(search: RawSearch): RequestsSearch {
  return { status: oneOf(search, "status", REQUEST_STATUSES), workflow: text(search, "workflow") };
}
