import { oneOf, text, type RawSearch } from "@/search";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The ranges that end now, by the word for them in the address. */
export const SPANS = {
  "15m": { label: "Last 15 minutes", ms: 15 * MINUTE },
  "1h": { label: "Last hour", ms: HOUR },
  "6h": { label: "Last 6 hours", ms: 6 * HOUR },
  "24h": { label: "Last 24 hours", ms: DAY },
  "7d": { label: "Last 7 days", ms: 7 * DAY },
  "30d": { label: "Last 30 days", ms: 30 * DAY },
  "90d": { label: "Last 90 days", ms: 90 * DAY },
  "1y": { label: "Last year", ms: 365 * DAY },
} as const;

export type Span = keyof typeof SPANS;
export const SPAN_NAMES = Object.keys(SPANS) as Span[];

/** A range of time in the address: the last so long, or between two times, either of which may be missing. */
export interface TimeRange {
  last?: Span | undefined;
  since?: string | undefined;
  until?: string | undefined;
}

/** Two times in the form that the API takes; a missing one does not bound. */
export interface Bounds {
  start?: string;
  end?: string;
}

export function timeRangeSearch(search: RawSearch): TimeRange {
  const last = oneOf(search, "last", SPAN_NAMES);
  if (last !== undefined) return { last, since: undefined, until: undefined };
  return { last, since: time(search, "since"), until: time(search, "until") };
}

export const NO_RANGE: TimeRange = { last: undefined, since: undefined, until: undefined };

export function isSet({ last, since, until }: TimeRange): boolean {
  return last !== undefined || since !== undefined || until !== undefined;
}

/** Seconds since 1970, as a chart gives them. */
export function between(from: number, to: number): TimeRange {
  return { last: undefined, since: new Date(from * 1000).toISOString(), until: new Date(to * 1000).toISOString() };
}

/** The range at a time. */
export function boundsOf({ last, since, until }: TimeRange, now: number): Bounds {
  if (last !== undefined) return { start: new Date(now - SPANS[last].ms).toISOString() };
  return { ...(since !== undefined && { start: since }), ...(until !== undefined && { end: until }) };
}

// What the API keeps: three days of minutes and 400 of hours. It returns at most this number of steps.
const MINUTES_KEPT = 3 * DAY - HOUR;
const HOURS_KEPT = 400 * DAY;
const MAX_STEPS = 750;

/** Minutes where they are kept and not too many, or else hours, or else days. */
export function stepOf({ start, end }: Bounds, now: number): "minute" | "hour" | "day" {
  if (start === undefined) return "minute";
  const from = Date.parse(start);
  const to = end === undefined ? now : Math.min(now, Date.parse(end));
  if (to - from < (MAX_STEPS - 1) * MINUTE && now - from < MINUTES_KEPT) return "minute";
  return to - from < (MAX_STEPS - 1) * HOUR && now - from < HOURS_KEPT ? "hour" : "day";
}

/** A time of the address that can be read, in the form that the API takes. */
function time(search: RawSearch, name: string): string | undefined {
  const at = Date.parse(text(search, name) ?? "");
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}
