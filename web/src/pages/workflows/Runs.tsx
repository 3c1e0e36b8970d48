import { StatusIcon, statusColour } from "@/components/StatusChip";
import { short } from "@/format/numbers";
import type { Sum } from "./workflows";
import styles from "./Workflows.module.css";

const PARTS = [
  ["active", "running", "not finished"],
  ["succeeded", "succeeded", "succeeded"],
  ["failed", "failed", "failed"],
  ["canceled", "canceled", "were canceled"],
] as const;

/** How the newest runs went: an icon, a number and a word for each outcome that there is. */
export function Runs({ sum }: { sum: Sum }) {
  if (sum.total === 0) return <span className="quiet">none lately</span>;
  return (
    <span className={styles.counts}>
      {PARTS.filter(([name]) => sum[name] > 0).map(([name, status, words]) => (
        <span key={name} className={styles.count} style={{ color: statusColour(status) }} title={`${sum[name]} ${words}`}>
          <StatusIcon status={status} />
          {short(sum[name])}
          <span className="visually-hidden"> {words}</span>
        </span>
      ))}
    </span>
  );
}
