import { Link } from "@tanstack/react-router";
import { TriangleAlert } from "lucide-react";
import type { Schemas } from "@/api/client";
import { Section } from "@/components/Page";
import { Skeleton } from "@/components/Skeleton";
import { short } from "@/format/numbers";
import { duration } from "@/format/time";
import styles from "./Overview.module.css";

type Activity = Schemas["TypeActivityShown"];

/** The busiest job types of the last hour, with what waits and runs of each now. */
export function Types({ types }: { types: readonly Activity[] | undefined }) {
  return (
    <Section title="Busiest job types, last hour">
      {types === undefined ? (
        <Skeleton height={180} />
      ) : types.length === 0 ? (
        <p className={styles.none}>No job was enqueued or ended in the last hour.</p>
      ) : (
        <div className={styles.scroll}>
          <table className={styles.table}>
            <thead>
              <tr>
                <th>Type</th>
                <th className={styles.figure}>Queued</th>
                <th className={styles.figure}>Running</th>
                <th className={styles.figure}>Finished</th>
                <th className={styles.figure}>Failed</th>
                <th className={styles.figure}>Run p95</th>
              </tr>
            </thead>
            <tbody>
              {types.map((one) => (
                <Row key={one.job_type} activity={one} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Section>
  );
}

function Row({ activity }: { activity: Activity }) {
  const { job_type, queued, running, is_partial, last_hour: hour } = activity;
  const failed = hour.failed + hour.dead_lettered;
  // Nothing of it runs or ended, and no worker says that it serves it.
  const stuck = queued > 0 && running === 0 && hour.finished === 0 && !activity.is_served;
  return (
    <tr>
      <td>
        <Link to="/jobs" search={{ job_type }} className={styles.type}>
          {job_type}
        </Link>
        {stuck && (
          <span className={styles.stuck}>
            <TriangleAlert size={12} aria-hidden /> no worker
          </span>
        )}
      </td>
      <td className={styles.figure}>
        {short(queued)}
        {is_partial && "+"}
      </td>
      <td className={styles.figure}>{short(running)}</td>
      <td className={styles.figure}>{short(hour.finished)}</td>
      <td className={failed > 0 ? styles.failed : styles.figure}>{short(failed)}</td>
      <td className={styles.figure}>{hour.run_p95 === null ? "–" : duration(hour.run_p95 * 1000)}</td>
    </tr>
  );
}
