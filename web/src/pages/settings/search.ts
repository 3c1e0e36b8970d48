import { oneOf, text, type RawSearch } from "@/search";

export const TABS = ["tokens", "sessions", "tenants", "definitions", "policies", "retention", "webhooks", "grants", "system"] as const;

/** What the page keeps in its address. */
export interface SettingsSearch {
  tab?: (typeof TABS)[number] | undefined;
  /** The tenant or command whose dialog is open. */
  edit?: string | undefined;
}

export function settingsSearch(search: RawSearch): SettingsSearch {
  return { tab: oneOf(search, "tab", TABS), edit: text(search, "edit") };
}
