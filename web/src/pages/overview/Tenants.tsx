import { Link } from "@tanstack/react-router";
import { api, type Schemas } from "@/api/client";
import { Section } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { Duration } from "@/components/Time";
import { short } from "@/format/numbers";
import { PauseButton, PausedChip } from "@/pauses/PauseControls";
import styles from "./Overview.module.css";

type Activity = Schemas["TenantActivity"];

/** All tenants, the deepest queue first; a click shows that tenant alone. */
export function Tenants() {
  const query = { params: { query: { limit: 100 } } };
  const { data, error, refetch } = api.useQuery("get", "/api/v1/overview/tenants", query, {
    meta: { live: ["atlas"] },
    refetchInterval: 10_000,
  });
  return (
    <Section title="Tenants">
      {data !== undefined ? (
        <>
          <div className={styles.scroll}>
            <table className={styles.table}>
              <thead>
                <tr>
                  <th>Tenant</th>
                  <th className={styles.figure}>Queued</th>
                  <th className={styles.figure}>Waiting</th>
                  <th className={styles.figure}>Running</th>
                  <th className={styles.figure}>Oldest</th>
                  <th className={styles.figure}>In / min</th>
                  <th className={styles.figure}>Out / min</th>
                  <th className={styles.figure}>Failed, 15 min</th>
                  <th className={styles.figure}>Dead letters</th>
                </tr>
              </thead>
              <tbody>
                {data.items.map((one) => (
                  <Row key={one.id} tenant={one} />
                ))}
              </tbody>
            </table>
          </div>
          {data.next_cursor !== null && <p className={styles.none}>These are the {data.items.length} tenants with the most active jobs.</p>}
        </>
      ) : error !== null ? (
        <ProblemView error={error} onRetry={() => void refetch()} />
      ) : (
        <Skeleton height={108} />
      )}
    </Section>
  );
}

function Row({ tenant }: { tenant: Activity }) {
  return (
    <tr>
      <td>
        <Link to="/" search={{ tenant: tenant.slug }} title={tenant.name}>
          {tenant.slug}
        </Link>{" "}
        <PausedChip kind="tenant" target={tenant.id} />
        <PauseButton kind="tenant" target={tenant.id} name={tenant.slug} small />
      </td>
      <td className={styles.figure}>
        {tenant.is_partial && "≈ "}
        {short(tenant.queued)}
      </td>
      <td className={styles.figure}>{short(tenant.waiting)}</td>
      <td className={styles.figure}>{short(tenant.running)}</td>
      <td className={styles.figure}>{tenant.oldest_due_at === null ? "–" : <Duration from={tenant.oldest_due_at} />}</td>
      <td className={styles.figure}>{rate(tenant.enqueued_per_minute)}</td>
      <td className={styles.figure}>{rate(tenant.finished_per_minute)}</td>
      <td className={tenant.failed > 0 ? styles.failed : styles.figure}>{short(tenant.failed)}</td>
      <td className={tenant.dead_letters > 0 ? styles.failed : styles.figure}>{short(tenant.dead_letters)}</td>
    </tr>
  );
}

function rate(perMinute: number): string {
  return perMinute > 0 && perMinute < 10 ? perMinute.toFixed(1) : short(perMinute);
}
