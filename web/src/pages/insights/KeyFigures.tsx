import type { Schemas } from "@/api/client";
import { money, percent, short } from "@/format/numbers";
import { duration } from "@/format/time";
import { cx } from "@/format/words";
import { changeOf, type Flow } from "./groups";
import styles from "./Insights.module.css";

interface Figure {
  name: string;
  /** What is counted, for those who hover. */
  about: string;
  pick: (flow: Flow) => number | null;
  show: (value: number) => string;
  /** Which way is good news. */
  good: "up" | "down" | null;
  isRate?: boolean;
}

const FIGURES: readonly Figure[] = [
  { name: "Jobs finished", about: "In any terminal state", pick: (flow) => flow.finished, show: short, good: null },
  {
    name: "Succeeded",
    about: "Of the finished jobs that were not canceled",
    pick: (flow) => flow.success_rate,
    show: percent,
    good: "up",
    isRate: true,
  },
  {
    name: "Dead letters",
    about: "Of the finished jobs that were not canceled",
    pick: (flow) => flow.dead_letter_rate,
    show: percent,
    good: "down",
    isRate: true,
  },
  {
    name: "Retries",
    about: "Failed attempts that are retried, of all attempts",
    pick: (flow) => flow.retry_rate,
    show: percent,
    good: "down",
    isRate: true,
  },
  {
    name: "Wait, p95",
    about: "From due to the start of the first attempt",
    pick: (flow) => flow.wait_p95,
    show: seconds,
    good: "down",
  },
  { name: "Run, p95", about: "Run time of an attempt", pick: (flow) => flow.run_p95, show: seconds, good: "down" },
  { name: "Run time", about: "Of all attempts together", pick: (flow) => flow.run_seconds, show: seconds, good: null },
  { name: "Cost", about: "As reported by handlers", pick: (flow) => flow.cost_cents, show: money, good: null },
];

/** The figures of the whole time, each with its change against the time before. */
export function KeyFigures({ data }: { data: Schemas["Insights"] }) {
  return (
    <dl className={styles.figures}>
      {FIGURES.map((figure) => {
        const value = figure.pick(data.total);
        const change = data.previous === null ? null : changeOf(value, figure.pick(data.previous), figure.good, figure.isRate);
        return (
          <div key={figure.name} className={styles.figure} title={figure.about}>
            <dt>{figure.name}</dt>
            <dd>
              <strong>{value === null ? "–" : figure.show(value)}</strong>
              {change !== null && (
                <span className={cx(styles.change, change.better === true && styles.better, change.better === false && styles.worse)}>
                  {change.text}
                </span>
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

export function seconds(value: number): string {
  return duration(value * 1000);
}
