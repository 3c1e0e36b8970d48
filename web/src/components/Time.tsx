import { useSyncExternalStore } from "react";
import { duration, exactTimes, relativeTime } from "@/format/time";

/** All clocks of a page tick together, once a second, and only while some are shown. */
let now = Date.now();
let timer: ReturnType<typeof setInterval> | null = null;
const watchers = new Set<() => void>();

function subscribe(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const one of watchers) one();
  }, 1000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };
}

/** The present time, to the second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

/** The present minute, for what is asked of the server by time: it changes once a minute. */
export function useMinute(): number {
  return useSyncExternalStore(subscribe, () => now - (now % 60_000));
}

/** A time: relative, and exact in the local zone and in UTC on hover. */
export function Time({ at, className }: { at: string | number | Date; className?: string }) {
  const present = useNow();
  const date = new Date(at);
  const { local, zone, utc } = exactTimes(date);
  return (
    <time dateTime={date.toISOString()} title={`${local} ${zone}\n${utc} UTC`} className={className}>
      {relativeTime(date.getTime(), present)}
    </time>
  );
}

/** How long something took; while it has no end, a timer that runs. */
export function Duration({ from, to }: { from: string; to?: string | null | undefined }) {
  const present = useNow();
  const end = to === null || to === undefined ? present : Date.parse(to);
  const ms = end - Date.parse(from);
  // The clocks of the server and of this machine differ a little.
  return <span>{duration(Math.max(0, to === null || to === undefined ? Math.floor(ms / 1000) * 1000 : ms))}</span>;
}
