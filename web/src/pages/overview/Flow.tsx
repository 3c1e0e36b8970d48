import { api, type Schemas } from "@/api/client";
import { LineChart, type Series } from "@/components/Chart";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { duration } from "@/format/time";
import { useTenant } from "@/session/tenant";
import styles from "./Overview.module.css";

type Point = Schemas["PointShown"];

const HEIGHT = 140;

/** What was enqueued and finished in each minute of the last hour, and how long jobs waited. */
export function Flow() {
  const query = { params: { query: { tenant: useTenant() } } };
  const { data, error, refetch } = api.useQuery("get", "/api/v1/jobs/series", query, { refetchInterval: 10_000 });
  if (data === undefined) {
    if (error !== null) return <ProblemView error={error} onRetry={() => void refetch()} />;
    return (
      <>
        <Skeleton height={HEIGHT + 48} />
        <Skeleton height={HEIGHT + 48} />
      </>
    );
  }
  // The minute that has begun would look like a drop.
  const points = (data.series[0]?.points ?? []).filter((one) => one.is_complete);
  const times = points.map((one) => Date.parse(one.at) / 1000);
  const enqueued: Series = { label: "enqueued", values: points.map((one) => one.enqueued), colour: "--queued" };
  const finished: Series = { label: "finished", values: points.map((one) => one.finished), colour: "--succeeded" };
  return (
    <>
      <section className={styles.chart}>
        <h2>Jobs per minute</h2>
        {points.length === 0 ? <Unmetered /> : <LineChart label={flowLabel(points)} times={times} series={[enqueued, finished]} gap height={HEIGHT} />}
      </section>
      <section className={styles.chart}>
        <h2>Time until a job starts</h2>
        {points.length === 0 ? (
          <Unmetered />
        ) : (
          <LineChart
            label="How long jobs waited, median and 95th percentile"
            times={times}
            series={[
              { label: "p50", values: points.map((one) => one.wait_p50), colour: "--running" },
              { label: "p95", values: points.map((one) => one.wait_p95), colour: "--waiting" },
            ]}
            height={HEIGHT}
            atLeast={0.01}
            format={(seconds) => duration(seconds * 1000)}
          />
        )}
      </section>
    </>
  );
}

function Unmetered() {
  return <p className={styles.unmetered}>Nothing is metered yet. A scheduler does it: `atlas scheduler`.</p>;
}

function flowLabel(points: readonly Point[]): string {
  const sum = (pick: (point: Point) => number): number => points.reduce((total, point) => total + pick(point), 0);
  return `Jobs per minute in the last hour: ${sum((one) => one.enqueued)} enqueued, ${sum((one) => one.finished)} finished`;
}
