import type { Schemas } from "@/api/client";
import { Time } from "@/components/Time";
import styles from "./schedules.module.css";

/** Due times by the schedule's own clock, each with a mark where a clock change touches it. */
export function NextTimes({ times }: { times: readonly Schemas["Occurrence"][] }) {
  if (times.length === 0) return <p className="quiet">Never due.</p>;
  return (
    <ol className={styles.times}>
      {times.map((one) => (
        <li key={one.utc}>
          <span className="mono">{shown(one.local)}</span>
          <Time at={one.utc} className="quiet" />
          {one.note === "" ? <span /> : <span className={styles.mark}>{one.note}</span>}
        </li>
      ))}
    </ol>
  );
}

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** 2026-11-16T07:00:00+01:00 as the zone's own clock shows it: Mon 2026-11-16 07:00. */
export function shown(local: string): string {
  const day = DAYS[new Date(`${local.slice(0, 10)}T00:00:00Z`).getUTCDay()] ?? "";
  const seconds = local.slice(16, 19);
  return `${day} ${local.slice(0, 10)} ${local.slice(11, 16)}${seconds === ":00" ? "" : seconds}`;
}
