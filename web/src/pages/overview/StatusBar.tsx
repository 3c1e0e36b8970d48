import { Link } from "@tanstack/react-router";
import { StatusChip, statusColour } from "@/components/StatusChip";
import { short, whole } from "@/format/numbers";
import { spaced } from "@/format/words";
import styles from "./Overview.module.css";
import { STATUSES, shares } from "./shares";

/** All jobs as one bar, and the number of each status; a click lists them. */
export function StatusBar({ counts, estimated }: { counts: Record<string, number>; estimated: readonly string[] }) {
  const parts = shares(counts);
  return (
    <section className={styles.status} aria-label="Jobs by status">
      <div className={styles.bar} aria-hidden>
        {parts.map((one) => (
          <span
            key={one.status}
            title={`${spaced(one.status)}: ${whole(one.count)}`}
            style={{ flexGrow: one.share, background: statusColour(one.status) }}
          />
        ))}
      </div>
      <ul className={styles.counts}>
        {STATUSES.map((status) => (
          <li key={status}>
            <Link to="/jobs" search={{ status: [status] }} className={styles.count}>
              <StatusChip status={status} />
              <strong title={whole(counts[status] ?? 0)}>
                {estimated.includes(status) ? "≈ " : ""}
                {short(counts[status] ?? 0)}
              </strong>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
