import type { Schemas } from "@/api/client";
import { boundsOf, SPANS, type Bounds, type TimeRange } from "@/components/timeRange";
import { plural } from "@/format/numbers";

export type Flow = Schemas["Flow"];
export type Group = Schemas["InsightsGroup"];

/** The columns by which the table is ordered. */
export const SORTS = [
  "name",
  "finished",
  "success_rate",
  "retry_rate",
  "dead_letter_rate",
  "wait_p95",
  "run_p95",
  "run_seconds",
  "cost_cents",
] as const;
export type Sort = (typeof SORTS)[number];

export function nameOf(group: Group): string {
  return group.job_type ?? group.tenant ?? group.tenant_id ?? "";
}

/** The groups in the order of a column, the largest first or last; those without a value are always last. */
export function sorted(groups: readonly Group[], sort: Sort, up: boolean): Group[] {
  const way = up ? 1 : -1;
  return [...groups].sort((one, other) => {
    // A name has its own direction: from A to Z first.
    if (sort === "name") return -way * nameOf(one).localeCompare(nameOf(other));
    const a = one[sort];
    const b = other[sort];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return way * (a - b) || nameOf(one).localeCompare(nameOf(other));
  });
}

export interface Change {
  /** "+12 %", "2.1 times", "new". */
  text: string;
  /** Whether that is good news; null where it is neither. */
  better: boolean | null;
}

/** How a figure changed against the time before; null where there is nothing to compare or to say. */
export function changeOf(now: number | null, before: number | null | undefined, good: "up" | "down" | null, isRate = false): Change | null {
  if (now === null || before === null || before === undefined) return null;
  const by = now - before;
  // Small changes are no news.
  const notable = isRate ? Math.abs(by) >= 0.005 : Math.abs(by) >= 0.1 * before;
  const better = good === null || by === 0 || !notable ? null : by > 0 === (good === "up");
  const sign = by > 0 ? "+" : "−";
  if (isRate) {
    const points = Math.abs(by * 100);
    return points < 0.05 ? { text: "unchanged", better: null } : { text: `${sign}${points.toFixed(1)} points`, better };
  }
  if (before === 0) return now === 0 ? null : { text: "none before", better };
  const share = Math.abs(by / before);
  if (share < 0.005) return { text: "unchanged", better: null };
  return share >= 2 && by > 0
    ? { text: `${(now / before).toFixed(now / before < 10 ? 1 : 0)} times`, better }
    : { text: `${sign}${Math.round(share * 100)} %`, better };
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** A range as the API takes it. One that ends now begins with a whole hour or day, so that "last 7 days" are seven. */
export function wholeBounds(range: TimeRange, now: number): Bounds {
  const bounds = boundsOf(range, now);
  if (range.last === undefined || bounds.start === undefined) return bounds;
  const length = SPANS[range.last].ms;
  const step = length <= 6 * HOUR ? HOUR / 60 : length <= 8 * DAY ? HOUR : DAY;
  return { ...bounds, start: new Date(Math.ceil(Date.parse(bounds.start) / step) * step).toISOString() };
}

/** The length of a time, in the largest unit that is whole enough: "7 days", "6 hours". */
export function spanOf(start: string, end: string): string {
  const minutes = (Date.parse(end) - Date.parse(start)) / 60_000;
  if (minutes >= 2 * 1440) return plural(Math.round(minutes / 1440), "day");
  return minutes >= 120 ? plural(Math.round(minutes / 60), "hour") : plural(Math.max(1, Math.round(minutes)), "minute");
}

/** Where days begin, which are those of UTC, on the clock of the browser: "01:00". */
export function dayStart(at: Date, zone?: string): string {
  const midnight = new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()));
  return new Intl.DateTimeFormat("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    ...(zone !== undefined && { timeZone: zone }),
  }).format(midnight);
}
