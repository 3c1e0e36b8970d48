import { serverNow } from "./clock";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** By how much the server's clock, as this page knows it, may be behind: the server names whole seconds, and the page's clock ticks once a second. */
const CLOCK_ERROR = 3000;

/** "3 min ago", "in 2 h": how far a time is away. Within the first seconds "just now". */
export function relativeTime(at: number, now: number): string {
  const distance = Math.abs(at - now);
  if (at > now && distance < CLOCK_ERROR) return "just now";
  if (distance < 5000) return at > now ? "in a few seconds" : "just now";
  const words = coarse(distance);
  return at > now ? `in ${words}` : `${words} ago`;
}

function coarse(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / 1000)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** A length of time as people write it: 80 ms, 1.2 s, 4 m 05 s, 3 h 20 m, 2 d 4 h. */
export function duration(ms: number): string {
  if (ms < 0) return "0 s";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (ms < MINUTE) return `${Math.floor(ms / 1000)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} m ${two(Math.floor((ms % MINUTE) / 1000))} s`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ${two(Math.floor((ms % HOUR) / MINUTE))} m`;
  return `${Math.floor(ms / DAY)} d ${Math.floor((ms % DAY) / HOUR)} h`;
}

const ZONE = new Intl.DateTimeFormat().resolvedOptions().timeZone;

/** 2026-11-15 02:14:07.123, in the given zone; the browser's if none is given. */
export function exactTime(at: Date, zone: string = ZONE): string {
  const parts = new Intl.DateTimeFormat("en-GB", {
    timeZone: zone,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
    hourCycle: "h23",
  }).formatToParts(at);
  const part = (type: Intl.DateTimeFormatPartTypes): string => parts.find((one) => one.type === type)?.value ?? "";
  return `${part("year")}-${part("month")}-${part("day")} ${part("hour")}:${part("minute")}:${part("second")}.${part("fractionalSecond")}`;
}

/** The exact time in the browser's zone and in UTC, for a tooltip. */
export function exactTimes(at: Date): { local: string; zone: string; utc: string } {
  return { local: exactTime(at), zone: ZONE, utc: exactTime(at, "UTC") };
}

/** The same as text under each other. */
export function timeTitle(at: Date): string {
  const { local, zone, utc } = exactTimes(at);
  return `${local} ${zone}\n${utc} UTC`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** 02:14 today, 19 Nov 02:14 on another day of this year, or with its whole date; with its seconds if asked for. */
export function clockTime(at: Date, now = new Date(serverNow()), seconds = false): string {
  const exact = exactTime(at).slice(0, seconds ? 19 : 16);
  const today = exactTime(now);
  if (exact.slice(0, 10) === today.slice(0, 10)) return exact.slice(11);
  if (exact.slice(0, 4) !== today.slice(0, 4)) return exact;
  return `${Number(exact.slice(8, 10))} ${MONTHS[Number(exact.slice(5, 7)) - 1] ?? ""} ${exact.slice(11)}`;
}

/** 13:05 – 13:20 today; with the date of another day, or both. */
export function timeSpan(from: Date, to: Date, now = new Date(serverNow())): string {
  const begin = exactTime(from).slice(0, 16);
  const end = exactTime(to).slice(0, 16);
  return begin.slice(0, 10) === end.slice(0, 10) ? `${clockTime(from, now)} – ${end.slice(11)}` : `${begin} – ${end}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
