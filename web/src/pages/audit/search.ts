import { type TimeRange, timeRangeSearch } from "@/components/timeRange";
import { oneOf, someOf, text, texts, type RawSearch } from "@/search";

export const LEVELS = ["info", "warn", "error"] as const;
export const TABS = ["log", "seals", "verifications", "access"] as const;

/** What the page keeps in its address. */
export interface AuditSearch extends TimeRange {
  tab?: (typeof TABS)[number] | undefined;
  text?: string | undefined;
  action?: string[] | undefined;
  level?: (typeof LEVELS)[number][] | undefined;
  /** Only what people did. */
  people?: true | undefined;
  actor_id?: string | undefined;
  entity_type?: string | undefined;
  entity_id?: string | undefined;
  /** The row that is open beside the list. */
  row?: string | undefined;
}

export function auditSearch(search: RawSearch): AuditSearch {
  return {
    tab: oneOf(search, "tab", TABS),
    text: text(search, "text"),
    action: texts(search, "action"),
    level: someOf(search, "level", LEVELS),
    people: String(search["people"]) === "true" ? true : undefined,
    actor_id: text(search, "actor_id"),
    entity_type: text(search, "entity_type"),
    entity_id: text(search, "entity_id"),
    ...timeRangeSearch(search),
    row: text(search, "row"),
  };
}
