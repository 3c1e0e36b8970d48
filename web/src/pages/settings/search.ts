import { oneOf, type RawSearch } from "@/search";

export const TABS = ["tokens", "sessions", "tenants", "definitions", "policies", "retention"] as const;

/** What the page keeps in its address. */
export interface SettingsSearch {
  tab?: (typeof TABS)[number] | undefined;
}

export function settingsSearch(search: RawSearch): SettingsSearch {
  return { tab: oneOf(search, "tab", TABS) };
}
