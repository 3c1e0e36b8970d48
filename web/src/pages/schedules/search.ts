import { oneOf, text, type RawSearch } from "@/search";

export const TABS = ["triggers", "events", "recurring"] as const;

/** What the page keeps in its address. */
export interface SchedulesSearch {
  tab?: (typeof TABS)[number] | undefined;
  /** The trigger that is open beside the list. */
  trigger?: string | undefined;
  /** The event, or the recurring function, that is open beside its list. */
  event?: string | undefined;
  recurring?: string | undefined;
  /** Events of this name, or that begin alike: `invoice.*`. */
  name?: string | undefined;
}

export function schedulesSearch(search: RawSearch): SchedulesSearch {
  return {
    tab: oneOf(search, "tab", TABS),
    trigger: text(search, "trigger"),
    event: text(search, "event"),
    recurring: text(search, "recurring"),
    name: text(search, "name"),
  };
}
