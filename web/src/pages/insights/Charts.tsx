import type { Schemas } from "@/api/client";
import type { Unit } from "@/components/chart";
import type { Series } from "@/components/chart";
import { LineChart } from "@/components/Chart";
import { between, type TimeRange } from "@/components/timeRange";
import styles from "./Insights.module.css";

type Point = Schemas["Point"];

interface Line {
  label: string;
  pick: (point: Point) => number | null;
  colour: string;
  filled?: boolean;
}

interface Chart {
  title: string;
  about: string;
  unit: Unit;
  lines: readonly Line[];
}

const CHARTS: readonly Chart[] = [
  {
    title: "Outcomes",
    about: "Finished jobs by outcome",
    unit: "count",
    lines: [
      { label: "succeeded", pick: (one) => one.succeeded, colour: "--succeeded" },
      { label: "failed", pick: (one) => one.failed + one.dead_lettered, colour: "--failed" },
      { label: "canceled", pick: (one) => one.canceled, colour: "--canceled" },
    ],
  },
  {
    title: "Retries and dead letters",
    about: "Retried attempts, of all attempts, and dead letters, of the finished jobs",
    unit: "share",
    lines: [
      { label: "retries", pick: (one) => one.retry_rate, colour: "--waiting" },
      { label: "dead letters", pick: (one) => one.dead_letter_rate, colour: "--failed" },
    ],
  },
  {
    title: "Queue latency",
    about: "Queue latency, median and 95th percentile",
    unit: "seconds",
    lines: [
      { label: "p50", pick: (one) => one.wait_p50, colour: "--running" },
      { label: "p95", pick: (one) => one.wait_p95, colour: "--waiting" },
    ],
  },
  {
    title: "Run time",
    about: "Run time of attempts, median and 95th percentile",
    unit: "seconds",
    lines: [
      { label: "p50", pick: (one) => one.run_p50, colour: "--running" },
      { label: "p95", pick: (one) => one.run_p95, colour: "--waiting" },
    ],
  },
  {
    title: "Usage",
    about: "Run time of all attempts together",
    unit: "seconds",
    lines: [{ label: "worked", pick: (one) => one.run_seconds, colour: "--queued", filled: true }],
  },
  {
    title: "Cost",
    about: "As reported by handlers",
    unit: "money",
    lines: [{ label: "cost", pick: (one) => one.cost_cents, colour: "--queued", filled: true }],
  },
];

/** What happened in each step. A part of the time is chosen by dragging, or with the keys. */
export function Charts({ points, step, onRange }: { points: readonly Point[]; step: string; onRange: (range: TimeRange) => void }) {
  const times = points.map((one) => Date.parse(one.at) / 1000);
  return (
    <div className={styles.charts}>
      {CHARTS.map(({ title, about, unit, lines }) => (
        <section key={title} className={styles.chart}>
          <h2>
            {title} <span className={styles.per}>per {step}</span>
          </h2>
          <LineChart
            label={`${about}, per ${step}`}
            times={times}
            series={lines.map(({ pick, ...line }): Series => ({ ...line, values: points.map(pick) }))}
            height={148}
            unit={unit}
            isRunning={points.at(-1)?.is_complete === false}
            onRange={(from, to) => onRange(between(from, to))}
          />
        </section>
      ))}
    </div>
  );
}
