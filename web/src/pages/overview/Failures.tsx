import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { Section } from "@/components/Page";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import styles from "./Overview.module.css";

type Failure = Schemas["FailedJob"];

/** The jobs that failed last, with their last error. */
export function Failures({ failures, showTenant }: { failures: readonly Failure[] | undefined; showTenant: boolean }) {
  return (
    <Section title="Latest failures">
      {failures === undefined ? (
        <Skeleton height={180} />
      ) : failures.length === 0 ? (
        <p className={styles.none}>No job has failed.</p>
      ) : (
        <ul className={styles.rows}>
          {failures.map((one) => (
            <li key={one.id} className={styles.failure}>
              <StatusChip status={one.is_dead_letter ? "dead_letter" : "failed"} />
              <span className={styles.text}>
                <Link to="/jobs/$jobId" params={{ jobId: one.id }}>
                  {one.job_type}
                </Link>
                {showTenant && one.tenant !== null && <span className="quiet"> {one.tenant}</span>}
              </span>
              <Time at={one.finished_at} className={styles.aside} />
              <span className={styles.error} title={one.error ?? undefined}>
                {one.error ?? one.error_type ?? "No error was recorded."}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
