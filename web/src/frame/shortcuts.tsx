import { createContext, use, useEffect, useEffectEvent, useState, type ReactNode } from "react";

export interface Shortcut {
  keys: string;
  label: string;
  run: () => void;
}

interface Registry {
  shortcuts: Set<Shortcut>;
}

const ShortcutContext = createContext<Registry>({ shortcuts: new Set() });
/** Two keys of a sequence, such as g j, follow each other within this time. */
const SEQUENCE_MS = 1200;

export function useShortcutList(): Shortcut[] {
  const { shortcuts } = use(ShortcutContext);
  const byKeys = new Map([...shortcuts].map((one) => [one.keys, one]));
  return [...byKeys.values()];
}

/**
 * Runs a function on a key ("r", "Enter") or a sequence ("g j"), unless something is being typed or a dialog is open. A panel beside a list is
 * no such dialog.
 */
export function useShortcut(keys: string, label: string, run: () => unknown, enabled = true): void {
  const { shortcuts } = use(ShortcutContext);
  const current = useEffectEvent(() => void run());
  useEffect(() => {
    if (!enabled) return;
    const shortcut = { keys, label, run: () => current() };
    shortcuts.add(shortcut);
    return () => {
      shortcuts.delete(shortcut);
    };
  }, [shortcuts, keys, label, enabled]);
}

/** Listens to the keys of the page. The shortcut that was added last wins. */
export function ShortcutProvider({ children }: { children: ReactNode }) {
  const [registry] = useState<Registry>(() => ({ shortcuts: new Set() }));
  useEffect(() => {
    let first = "";
    let firstAt = 0;
    const onKeyDown = (event: KeyboardEvent): void => {
      leaveSearch(event);
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event)) return;
      const sequence = first !== "" && event.timeStamp - firstAt < SEQUENCE_MS ? `${first} ${event.key}` : null;
      const known = [...registry.shortcuts].reverse();
      const found = known.find((one) => one.keys === sequence) ?? known.find((one) => one.keys === event.key);
      first = known.some((one) => one.keys.startsWith(`${event.key} `)) ? event.key : "";
      firstAt = event.timeStamp;
      if (found === undefined) return;
      event.preventDefault();
      first = "";
      found.run();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [registry]);
  return <ShortcutContext value={registry}>{children}</ShortcutContext>;
}

/** Escape leaves the search field of a page; so does Enter, once it has searched: the rows are next. */
function leaveSearch({ key, target }: KeyboardEvent): void {
  if ((key !== "Escape" && key !== "Enter") || !(target instanceof HTMLElement) || !target.matches("[data-page-search]")) return;
  requestAnimationFrame(() => target.blur());
}

function isTyping(event: KeyboardEvent): boolean {
  // Within a shadow root, as the editor of workflows is, the first of the path is what has the focus.
  const first = event.composedPath()[0];
  const target = first instanceof Element ? first : null;
  if (
    target?.closest("input:not([type=checkbox]), textarea, select, [contenteditable], [role=dialog]:not([data-panel]), [role=menu]") != null
  )
    return true;
  // Enter presses what has the focus.
  return event.key === "Enter" && target?.closest("button, a, summary") != null;
}
