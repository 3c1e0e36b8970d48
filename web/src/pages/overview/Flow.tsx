import { api, type Schemas } from "@/api/client";
import type { Series } from "@/components/chart";
import { LineChart } from "@/components/Chart";
import { useMinute } from "@/components/Time";
import { between, type Bounds, stepOf, type TimeRange } from "@/components/timeRange";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { nameCommand } from "@/format/command";
import { useTenant } from "@/session/tenant";
import styles from "./Overview.module.css";

type Point = Schemas["Point"];

const HEIGHT = 140;

interface FlowProps {
  bounds: Bounds;
  onRange: (range: TimeRange) => void;
}

/** What was enqueued and finished in each minute or hour of the page's time, and how long jobs waited. Dragging chooses a part of it. */
export function Flow({ bounds, onRange }: FlowProps) {
  const query = { params: { query: { tenant: useTenant(), step: stepOf(bounds, useMinute()), ...bounds } } };
  const { data, error, refetch } = api.useQuery("get", "/api/v1/jobs/series", query, {
    refetchInterval: 10_000,
    placeholderData: (before) => before,
  });
  if (data === undefined) {
    if (error !== null) return <ProblemView error={error} onRetry={() => void refetch()} />;
    return (
      <>
        <Skeleton height={HEIGHT + 48} />
        <Skeleton height={HEIGHT + 48} />
      </>
    );
  }
  // The step that has begun would look like a drop.
  const points = (data.series[0]?.points ?? []).filter((one) => one.is_complete);
  const times = points.map((one) => Date.parse(one.at) / 1000);
  const choose = (from: number, to: number): void => onRange(between(from, to));
  const enqueued: Series = { label: "enqueued", values: points.map((one) => one.enqueued), colour: "--queued" };
  const finished: Series = { label: "finished", values: points.map((one) => one.finished), colour: "--succeeded" };
  return (
    <>
      <section className={styles.chart}>
        <h2>Jobs per {data.step}</h2>
        {points.length === 0 ? (
          <NoSteps metered={data.metered_until !== null} />
        ) : (
          <LineChart
            label={flowLabel(points, data.step)}
            times={times}
            series={[enqueued, finished]}
            gap
            height={HEIGHT}
            onRange={choose}
          />
        )}
      </section>
      <section className={styles.chart}>
        <h2>Queue latency</h2>
        {points.length === 0 ? (
          <NoSteps metered={data.metered_until !== null} />
        ) : (
          <LineChart
            label="Queue latency, median and 95th percentile"
            times={times}
            series={[
              { label: "p50", values: points.map((one) => one.wait_p50), colour: "--running" },
              { label: "p95", values: points.map((one) => one.wait_p95), colour: "--waiting" },
            ]}
            height={HEIGHT}
            unit="seconds"
            onRange={choose}
          />
        )}
      </section>
    </>
  );
}

function NoSteps({ metered }: { metered: boolean }) {
  return (
    <p className={styles.unmetered}>
      {metered
        ? "No data is kept for this period: minutes are kept for 3 days, hours for 400, days for 1,100."
        : nameCommand("No data yet. A scheduler collects it: `atlas scheduler`.")}
    </p>
  );
}

function flowLabel(points: readonly Point[], step: string): string {
  const sum = (pick: (point: Point) => number): number => points.reduce((total, point) => total + pick(point), 0);
  return `Jobs per ${step}: ${sum((one) => one.enqueued)} enqueued, ${sum((one) => one.finished)} finished`;
}
