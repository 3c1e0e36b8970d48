import { oneOf, text, type RawSearch } from "@/search";

export const RUN_STATUSES = ["queued", "waiting", "running", "succeeded", "failed", "canceled"] as const;
export const RUN_TABS = ["graph", "events", "timeline", "input", "output", "compare"] as const;

export type RunStatus = (typeof RUN_STATUSES)[number];
export type RunTab = (typeof RUN_TABS)[number];

export interface RunsSearch {
  status?: RunStatus | undefined;
  workflow?: string | undefined;
  /** The form for a new run is open. */
  new?: "run" | undefined;
}

/** What the list of runs keeps in its address. */
export function runsSearch(search: RawSearch): RunsSearch {
  return { status: oneOf(search, "status", RUN_STATUSES), workflow: text(search, "workflow"), new: oneOf(search, "new", ["run"]) };
}

export interface RunSearch {
  tab?: RunTab | undefined;
  /** The step whose details are open. */
  step?: string | undefined;
  /** The run that it is compared with. */
  with?: string | undefined;
}

/** What the page of a run keeps in its address. */
export function runSearch(search: RawSearch): RunSearch {
  return { tab: oneOf(search, "tab", RUN_TABS), step: text(search, "step"), with: text(search, "with") };
}
