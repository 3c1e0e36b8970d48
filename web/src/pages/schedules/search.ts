import { oneOf, text, type RawSearch } from "@/search";

export const TABS = ["triggers", "events", "recurring"] as const;

/** What the page keeps in its address. */
export function schedulesSearch(search: RawSearch) {
  return {
    tab: oneOf(search, "tab", TABS),
    /** The trigger that is open beside the list. */
    trigger: text(search, "trigger"),
    /** The event, or the recurring function, that is open beside its list. */
    event: text(search, "event"),
    recurring: text(search, "recurring"),
    /** Events of this name, or that begin alike: `invoice.*`. */
    name: text(search, "name"),
  };
}

export type SchedulesSearch = ReturnType<typeof schedulesSearch>;
