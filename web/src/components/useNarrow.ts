import { useSyncExternalStore } from "react";

const NARROW = window.matchMedia("(max-width: 640px)");

function subscribe(watcher: () => void): () => void {
  NARROW.addEventListener("change", watcher);
  return () => NARROW.removeEventListener("change", watcher);
}

/** Whether the window is as narrow as a phone. */
export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => NARROW.matches);
}
