import { Moment, useNow } from "@/components/Time";
import { duration, exactTime, timeTitle } from "@/format/time";
import { plural } from "@/format/numbers";
import { cx } from "@/format/words";
import { lifeOf, type LifeAttempt, type LifeJob } from "./life";
import styles from "./LifeLine.module.css";

/** A job's life from left to right, to scale: it waited, ran, failed, waited for its retry, ran again. */
export function LifeLine({ job, attempts }: { job: LifeJob; attempts: readonly LifeAttempt[] }) {
  const now = useNow();
  const { parts, leftOut, total } = lifeOf(job, attempts, now);
  return (
    <figure className={styles.life} aria-label={`The life of the job: ${duration(total)}`}>
      <ol className={styles.line}>
        {parts.map((part) => (
          <li
            key={part.key}
            className={cx(styles.part, styles[part.tone])}
            style={{ flexGrow: Math.max(part.ms, 1) }}
            title={`${part.label}, ${duration(part.ms)}\n${timeTitle(new Date(part.from))}`}
          >
            <span className={styles.words}>
              <span className="truncate">{part.label}</span>
              <span>{duration(part.ms)}</span>
            </span>
          </li>
        ))}
      </ol>
      <figcaption className={styles.caption}>
        <Moment at={parts[0]?.from ?? now}>{exactTime(new Date(parts[0]?.from ?? now)).slice(0, 19)}</Moment>
        {leftOut > 0 && <span>{plural(leftOut, "earlier attempt")} not drawn</span>}
        <span>{duration(total)} in all</span>
      </figcaption>
    </figure>
  );
}
