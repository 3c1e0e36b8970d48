import { oneOf, text, type RawSearch } from "@/search";

export const STATES = ["unknown", "intended", "done", "refused"] as const;
export type EffectState = (typeof STATES)[number];

export const TABS = ["effects", "reconciliations"] as const;
export type EffectTab = (typeof TABS)[number];

/** What the page keeps in its address: which effects it lists. */
export interface EffectsSearch {
  state?: EffectState | "all" | undefined;
  provider?: string | undefined;
  tab?: EffectTab | undefined;
  /** The provider whose reconciliation is open. */
  open?: string | undefined;
}

export function effectsSearch(search: RawSearch): EffectsSearch {
  return {
    state: oneOf(search, "state", [...STATES, "all"]),
    provider: text(search, "provider"),
    tab: oneOf(search, "tab", TABS),
    open: text(search, "open"),
  };
}
