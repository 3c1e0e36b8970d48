import { Link } from "@tanstack/react-router";
import { TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import type { Schemas } from "@/api/client";
import { Section } from "@/components/Page";
import { Skeleton } from "@/components/Skeleton";
import { short } from "@/format/numbers";
import { duration } from "@/format/time";
import { PauseButton, PausedChip } from "@/pauses/PauseControls";
import styles from "./Overview.module.css";

type Activity = Schemas["TypeActivity"];

/** The busiest job types of a part of the time: what happened to each in it. */
export function TypesInRange({ types }: { types: readonly Schemas["TypeSeries"][] | undefined }) {
  return (
    <Table
      title="Busiest job types, in this period"
      columns={["Enqueued", "Finished", "Failed", "Retried", "Run p95"]}
      empty="No job was enqueued or finished in this period."
      count={types?.length}
    >
      {types?.map(({ job_type, total }) => {
        const failed = total.failed + total.dead_lettered;
        return (
          <tr key={job_type}>
            <td>
              <Link to="/jobs" search={{ job_type: job_type ?? undefined }} className={styles.type}>
                {job_type}
              </Link>
            </td>
            <td className={styles.figure}>{short(total.enqueued)}</td>
            <td className={styles.figure}>{short(total.finished)}</td>
            <td className={failed > 0 ? styles.failed : styles.figure}>{short(failed)}</td>
            <td className={styles.figure}>{short(total.retried)}</td>
            <td className={styles.figure}>{total.run_p95 === null ? "–" : duration(total.run_p95 * 1000)}</td>
          </tr>
        );
      })}
    </Table>
  );
}

/** The busiest job types of the last hour, with what waits and runs of each now. */
export function Types({ types }: { types: readonly Activity[] | undefined }) {
  return (
    <Table
      title="Busiest job types, last hour"
      columns={["Queued", "Running", "Finished", "Failed", "Run p95"]}
      empty="No job was enqueued or finished in the last hour."
      count={types?.length}
    >
      {types?.map((one) => (
        <Row key={one.job_type} activity={one} />
      ))}
    </Table>
  );
}

/** Job types with their figures; a skeleton until there is a count of them. */
function Table({
  title,
  columns,
  empty,
  count,
  children,
}: {
  title: string;
  columns: readonly string[];
  empty: string;
  count: number | undefined;
  children: ReactNode;
}) {
  return (
    <Section title={title}>
      {count === undefined ? (
        <Skeleton height={180} />
      ) : count === 0 ? (
        <p className={styles.none}>{empty}</p>
      ) : (
        <div className={styles.scroll}>
          <table className={styles.table}>
            <thead>
              <tr>
                <th>Type</th>
                {columns.map((name) => (
                  <th key={name} className={styles.figure}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>{children}</tbody>
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
        )}{" "}
        <PausedChip kind="type" target={job_type} />
        <PauseButton kind="type" target={job_type} name={job_type} small />
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
