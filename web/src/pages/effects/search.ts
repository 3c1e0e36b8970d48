import { oneOf, text, type RawSearch } from "@/search";

export const STATES = ["unknown", "intended", "done", "refused"] as const;
export type EffectState = (typeof STATES)[number];

/** What the page keeps in its address: which effects it lists. */
export interface EffectsSearch {
  state?: EffectState | "all" | undefined;
  provider?: string | undefined;
}

export function effectsSearch(search: RawSearch): EffectsSearch {
  return { state: oneOf(search, "state", [...STATES, "all"]), provider: text(search, "provider") };
}
