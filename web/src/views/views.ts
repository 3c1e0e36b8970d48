import { useSyncExternalStore } from "react";
import { stringifySearch, type RawSearch } from "@/search";

/** The filters, columns and order of a list under a name. Its link holds all of it, for others too; its name is kept in this browser. */
export interface View {
  page: string;
  name: string;
  /** As in the address: `?status=failed&order=ended`. */
  search: string;
}

const KEY = "atlas.views";
const CHANGED = "atlas:views";
/** The name goes with a link behind `#`, which a page drops as soon as its filters change. */
const NAMED = "view=";
/** What is open beside a list, and the like, is no part of a view of it. */
const NOT_OF_A_VIEW = ["job", "tab", "row", "open", "new"];
const MAX_NAME_LENGTH = 60;

/** What a view keeps of a page's search; the same filters in another order are the same view. */
export function searchOfView(search: RawSearch): string {
  const kept = Object.entries(search).filter(([name]) => !NOT_OF_A_VIEW.includes(name));
  return stringifySearch(Object.fromEntries(kept.sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** The address of a view, which another person may open. */
export function linkOf({ page, name, search }: View): string {
  return `${page}${search}#${NAMED}${encodeURIComponent(name)}`;
}

/** The name of a view in the part of an address after `#`. */
export function nameIn(hash: string): string | undefined {
  if (!hash.startsWith(NAMED)) return undefined;
  try {
    return tidy(decodeURIComponent(hash.slice(NAMED.length)));
  } catch {
    return undefined;
  }
}

function tidy(name: string): string | undefined {
  const words = name.replace(/\s+/g, " ").trim().slice(0, MAX_NAME_LENGTH);
  return words === "" ? undefined : words;
}

/** The views with one more; one of the same name on the same page is replaced. */
export function withView(views: readonly View[], view: View): View[] {
  const name = tidy(view.name);
  if (name === undefined) return [...views];
  return [...without(views, { ...view, name }), { ...view, name }].sort((a, b) => a.name.localeCompare(b.name));
}

export function without(views: readonly View[], view: View): View[] {
  return views.filter((one) => one.page !== view.page || one.name !== view.name);
}

/** What a browser kept, whatever it is. */
export function readViews(kept: string | null): View[] {
  try {
    const found: unknown = JSON.parse(kept ?? "[]");
    return Array.isArray(found) ? found.filter(isView) : [];
  } catch {
    return [];
  }
}

function isView(one: unknown): one is View {
  if (typeof one !== "object" || one === null) return false;
  const { page, name, search } = one as Partial<Record<keyof View, unknown>>;
  // An address of our own: "//elsewhere" is not.
  return typeof page === "string" && /^\/[a-z-]+$/.test(page) && typeof name === "string" && typeof search === "string";
}

let cached: { text: string | null; views: View[] } = { text: null, views: [] };

function read(): View[] {
  const text = localStorage.getItem(KEY);
  if (text !== cached.text) cached = { text, views: readViews(text) };
  return cached.views;
}

function subscribe(watcher: () => void): () => void {
  window.addEventListener(CHANGED, watcher);
  window.addEventListener("storage", watcher);
  return () => {
    window.removeEventListener(CHANGED, watcher);
    window.removeEventListener("storage", watcher);
  };
}

/** The views that this browser keeps. */
export function useViews(): View[] {
  return useSyncExternalStore(subscribe, read);
}

export function keepViews(views: readonly View[]): void {
  localStorage.setItem(KEY, JSON.stringify(views));
  window.dispatchEvent(new Event(CHANGED));
}
