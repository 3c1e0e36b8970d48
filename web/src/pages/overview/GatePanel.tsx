import { Hourglass, Server, ShieldAlert, ShieldCheck } from "lucide-react";
import type { ReactNode } from "react";
import type { Schemas } from "@/api/client";
import { Skeleton } from "@/components/Skeleton";
import { ClockTime, Time } from "@/components/Time";
import { plural } from "@/format/numbers";
import { duration } from "@/format/time";
import { type Gate, GateSwitch, useGate } from "@/gate/gate";
import styles from "./Overview.module.css";

/** The switch, large, with who turned it and why; below it workers, the oldest job and the seal. */
export function GatePanel({ overview }: { overview: Schemas["Overview"] | undefined }) {
  const { data: gate } = useGate();
  if (gate === undefined) return <Skeleton height={180} />;
  return (
    <section className={styles.gate} aria-label="Gate">
      <div className={styles.switch}>
        <GateSwitch large />
        <div>
          <h2 className={styles.state}>{gate.online ? "Online" : "Offline"}</h2>
          <p className="quiet">{gate.online ? "Jobs start when they are due." : "Nothing new starts."}</p>
        </div>
      </div>
      <p className={styles.who}>{whoAndWhy(gate)}</p>
      {overview !== undefined && (
        <ul className={styles.vitals}>
          <li className={overview.workers === 0 ? styles.bad : undefined}>
            <Server size={14} aria-hidden />
            {overview.workers === 0 ? "No worker is alive" : `${plural(overview.workers, "worker")} alive`}
          </li>
          <li>
            <Hourglass size={14} aria-hidden />
            {overview.oldest_queued_seconds === null
              ? "No job is due"
              : `Oldest due job: ${duration(overview.oldest_queued_seconds * 1000)}`}
          </li>
          {overview.seal !== null && <Seal seal={overview.seal} />}
        </ul>
      )}
    </section>
  );
}

function whoAndWhy(gate: Gate): ReactNode {
  if (gate.since === null) return "Never switched on.";
  return (
    <>
      Switched {gate.online ? "on" : "off"} by {gate.by ?? "someone"}, <Time at={gate.since} />
      {gate.reason !== null && <>: {gate.reason}</>}
      {gate.until !== null && !gate.online && (
        <>
          . Comes back at <ClockTime at={gate.until} />
        </>
      )}
    </>
  );
}

const LONG_SECONDS = 60;

/** Whether the audit log is sealed up to now. */
function Seal({ seal }: { seal: NonNullable<Schemas["Overview"]["seal"]> }) {
  const late = seal.lag_seconds > LONG_SECONDS;
  const Icon = late ? ShieldAlert : ShieldCheck;
  return (
    <li className={late ? styles.bad : undefined}>
      <Icon size={14} aria-hidden />
      <span>
        {late ? `${plural(seal.unsealed, "audit row")} not sealed for ${duration(seal.lag_seconds * 1000)}` : "Audit log sealed"}
        {seal.signed_at !== null && (
          <span className="quiet">
            , signed <Time at={seal.signed_at} />
          </span>
        )}
      </span>
    </li>
  );
}
