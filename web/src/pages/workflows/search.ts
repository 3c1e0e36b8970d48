import { oneOf, type RawSearch } from "@/search";

export const WORKFLOW_TABS = ["definition", "versions"] as const;
export const TRY_TABS = ["graph", "dry-run", "policy", "changes"] as const;

export type WorkflowTab = (typeof WORKFLOW_TABS)[number];
export type TryTab = (typeof TRY_TABS)[number];

export interface WorkflowSearch {
  tab?: WorkflowTab | undefined;
  /** The versions that are compared. */
  from?: number | undefined;
  to?: number | undefined;
}

/** What the page of a workflow keeps in its address. */
export function workflowSearch(search: RawSearch): WorkflowSearch {
  return { tab: oneOf(search, "tab", WORKFLOW_TABS), from: version(search, "from"), to: version(search, "to") };
}

export interface EditSearch {
  tab?: TryTab | undefined;
}

/** What the editor keeps in its address: what is shown beside the text. */
export function editSearch(search: RawSearch): EditSearch {
  return { tab: oneOf(search, "tab", TRY_TABS) };
}

/** In an address it is text, and after a step within the pages a number. */
function version(search: RawSearch, name: string): number | undefined {
  const given = search[name];
  const text = typeof given === "number" ? String(given) : given;
  return typeof text === "string" && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}
