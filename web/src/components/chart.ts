import { money, percent, short } from "@/format/numbers";
import { duration, exactTime } from "@/format/time";

/** What a chart counts or measures. */
export type Unit = "count" | "seconds" | "share" | "money";

interface Scale {
  /** A value, exactly. */
  show: (value: number) => string;
  /** A value at the axis, where there is little room. */
  tick: (value: number) => string;
  /** The distances between ticks that are allowed. */
  steps: number[];
  /** The top of the axis where all values are smaller. */
  atLeast: number;
}

const DAY = 86_400;
const TENS = [1, 10, 100, 1000, 10_000, 100_000, 1e6, 1e7, 1e8];

export const SCALES: Record<Unit, Scale> = {
  // Half a job does not exist: a tick at 0.5 would be the second one that is called 1.
  count: { show: short, tick: short, steps: TENS.flatMap((ten) => [ten, 2 * ten, 5 * ten]), atLeast: 1 },
  seconds: {
    show: seconds,
    tick: (value) => (value === 0 ? "0" : seconds(value).replace(/ 00 [sm]$|\.0(?= s)| 0 h$/, "")),
    steps: [
      ...[0.001, 0.01, 0.1, 1].flatMap((ten) => [ten, 2 * ten, 5 * ten]),
      10,
      15,
      30,
      60,
      120,
      300,
      600,
      900,
      1800,
      3600,
      7200,
      21_600,
      DAY,
      2 * DAY,
      7 * DAY,
    ],
    atLeast: 0.01,
  },
  share: { show: percent, tick: percent, steps: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1], atLeast: 0.01 },
  money: { show: money, tick: money, steps: TENS.flatMap((ten) => [ten, 2 * ten, 5 * ten]), atLeast: 10 },
};

function seconds(value: number): string {
  return duration(value * 1000);
}

/** 13:05; the day where one begins, or where ticks are days apart. */
export function timeTick(at: number, step: number): string {
  const exact = exactTime(new Date(at * 1000));
  const clock = exact.slice(11, 16);
  return step >= DAY || clock === "00:00" ? exact.slice(5, 10) : clock;
}

/** How long a bucket is: as long as the shortest distance between two. A chart of one has minutes. */
export function bucketSeconds(times: readonly number[]): number {
  return times.slice(1).reduce((least, at, index) => Math.min(least, at - (times[index] ?? 0)), times.length < 2 ? 60 : Infinity);
}

/** Values with none beside them, to which no line leads: they are drawn as points. */
export function isolated(values: readonly (number | null | undefined)[]): number[] {
  return values.flatMap((value, index) =>
    isMissing(value) || !isMissing(values[index - 1]) || !isMissing(values[index + 1]) ? [] : [index],
  );
}

function isMissing(value: number | null | undefined): boolean {
  return value === null || value === undefined;
}

export interface Series {
  label: string;
  /** One value for each time; null where nothing was measured. */
  values: readonly (number | null)[];
  /** A CSS variable: "--running". */
  colour: string;
  /** Filled down to zero, softly. */
  filled?: boolean;
}

export interface ChartProps {
  /** What the chart shows, for those who do not see it. */
  label: string;
  /** Seconds since 1970, ascending. */
  times: readonly number[];
  series: readonly Series[];
  height?: number;
  /** What is counted; jobs if not given. */
  unit?: Unit;
  /** Shades the gap between the first two lines, in the colour of the upper one. */
  gap?: boolean;
  /** The last bucket has not ended: it is shaded, and its values are those so far. */
  isRunning?: boolean;
  /** Called with the seconds of a range that was drawn with the mouse or the keys: whole buckets. */
  onRange?: (from: number, to: number) => void;
}
