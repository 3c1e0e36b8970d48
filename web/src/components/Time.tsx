import { useSyncExternalStore, type ReactNode } from "react";
import { serverNow, toServerTime } from "@/format/clock";
import { clockTime, duration, relativeTime, timeTitle } from "@/format/time";

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

/** The time of the last tick. While nothing is shown that ticks, the clock stands still: then it is read again. */
function readClock(): number {
  if (timer === null && Date.now() - now >= 1000) now = Date.now();
  return now;
}

/** The present time by the server's clock, to the second. */
export function useNow(): number {
  return toServerTime(useBrowserNow());
}

/** The present time by this browser's clock, to the second: for what happened in the browser. */
export function useBrowserNow(): number {
  return useSyncExternalStore(subscribe, readClock);
}

/** The present minute, for what is asked of the server by time: it changes once a minute. */
export function useMinute(): number {
  return useSyncExternalStore(subscribe, () => {
    const present = toServerTime(readClock());
    return present - (present % 60_000);
  });
}

interface TimeProps {
  at: string | number | Date;
  className?: string | undefined;
  children?: ReactNode;
}

/** A time: relative, and exact in the local zone and in UTC on hover. */
export function Time({ at, className }: Omit<TimeProps, "children">) {
  const present = useNow();
  return (
    <Moment at={at} className={className}>
      {relativeTime(new Date(at).getTime(), present)}
    </Moment>
  );
}

/** A time on the clock of this browser's zone, with the date on another day. */
export function ClockTime({ at, seconds = false }: { at: string; seconds?: boolean }) {
  return <Moment at={at}>{clockTime(new Date(at), new Date(serverNow()), seconds)}</Moment>;
}

/** Text that stands for a time, which is exact in the local zone and in UTC on hover. */
export function Moment({ at, className, children }: TimeProps) {
  const date = new Date(at);
  return (
    <time dateTime={date.toISOString()} title={timeTitle(date)} className={className}>
      {children}
    </time>
  );
}

/** How long something took; while it has no end, a timer that runs. */
export function Duration({ from, to }: { from: string; to?: string | null | undefined }) {
  const present = useNow();
  const end = to === null || to === undefined ? present : Date.parse(to);
  const ms = end - Date.parse(from);
  // The clocks of the server and of this machine may differ by a second or two.
  return <span>{duration(Math.max(0, to === null || to === undefined ? Math.floor(ms / 1000) * 1000 : ms))}</span>;
}
