import { oneOf, type RawSearch } from "@/search";

/** The steps of the guide, in their order. */
export const STEPS = ["mail", "outbox", "approval", "lease", "gate", "audit"] as const;
export type StepKey = (typeof STEPS)[number];

/** What the page keeps in its address: the step that is open, if it is not the first that is left. */
export function firstRunSearch(search: RawSearch): { step?: StepKey | undefined } {
  return { step: oneOf(search, "step", STEPS) };
}
