import { Link } from "@tanstack/react-router";
import { CircleAlert, CircleCheck } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { Section } from "@/components/Page";
import { Skeleton } from "@/components/Skeleton";
import { Sentence } from "@/components/Sentence";
import { ClockTime } from "@/components/Time";
import styles from "./Overview.module.css";
import { placeOf } from "./places";

type Need = Schemas["Need"];

/** What needs attention, and where to go for it. */
export function Needs({ needs }: { needs: readonly Need[] | undefined }) {
  return (
    <Section title="Needs attention">
      {needs === undefined ? <Skeleton height={36} /> : needs.length === 0 ? <Nothing /> : <List needs={needs} />}
    </Section>
  );
}

function Nothing() {
  return (
    <p className={styles.nothing}>
      <CircleCheck size={16} aria-hidden /> Nothing needs you.
    </p>
  );
}

/** How many of a kind are shown at first: many types without a worker do not hide the rest. */
const FEW = 4;

function List({ needs }: { needs: readonly Need[] }) {
  const [showsAll, setShowsAll] = useState(false);
  const isFew = (need: Need, at: number): boolean => needs.slice(0, at).filter((other) => other.kind === need.kind).length < FEW;
  const shown = showsAll ? needs : needs.filter(isFew);
  return (
    <ul className={styles.rows}>
      {shown.map((need) => (
        <li key={`${need.kind} ${need.message}`} className={styles.row} data-kind={need.kind}>
          <CircleAlert size={14} className={styles.alert} aria-hidden />
          <span className={styles.text}>
            <Sentence text={need.message} />
          </span>
          {need.since !== null && (
            <span className={styles.aside}>
              since <ClockTime at={need.since} />
            </span>
          )}
          <WhereToGo need={need} />
        </li>
      ))}
      {shown.length < needs.length && (
        <li className={styles.row}>
          <Button kind="ghost" onClick={() => setShowsAll(true)}>
            Show {needs.length - shown.length} more
          </Button>
        </li>
      )}
    </ul>
  );
}

function WhereToGo({ need }: { need: Need }) {
  const { label, to, jobs } = placeOf(need);
  return jobs === undefined ? (
    <Link to={to} className={styles.go}>
      {label}
    </Link>
  ) : (
    <Link to="/jobs" search={jobs} className={styles.go}>
      {label}
    </Link>
  );
}
