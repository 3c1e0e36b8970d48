import { Link } from "@tanstack/react-router";
import { api, type Schemas } from "@/api/client";
import { SidePanel } from "@/components/Dialog";
import { Id } from "@/components/Id";
import { JsonView } from "@/components/JsonView";
import { Fact, Facts, Section } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { Sentence } from "@/components/Sentence";
import { exactTimes } from "@/format/time";
import { whole } from "@/format/numbers";
import { useTenant } from "@/session/tenant";
import { useTenantSlugs } from "@/session/tenantSlugs";
import styles from "./Audit.module.css";
import { ProofSteps } from "./ProofSteps";

type Details = Schemas["EntryDetails"];

/** One row of the log: what it says, and the proof that it is in the signed tree, checked in this browser. */
export function EntryPanel({ id, onClose }: { id: number; onClose: () => void }) {
  const tenant = useTenant();
  const query = api.useQuery(
    "get",
    "/api/v1/audit/{row_id}",
    { params: { path: { row_id: id }, query: { tenant } } },
    // Until it is sealed.
    { refetchInterval: (one) => (one.state.data?.seal === null ? 2000 : false) },
  );
  return (
    <SidePanel title={query.data?.action ?? `Row ${id}`} onClose={onClose}>
      {query.isPending && <Skeleton height={120} />}
      {query.isError && query.data === undefined && <ProblemView error={query.error} onRetry={() => void query.refetch()} />}
      {query.data !== undefined && <Entry entry={query.data} />}
    </SidePanel>
  );
}

function Entry({ entry }: { entry: Details }) {
  const { local, zone, utc } = exactTimes(new Date(entry.created_at));
  const tenants = useTenantSlugs([entry.tenant_id]);
  return (
    <div className={styles.panel}>
      {entry.message !== "" && (
        <p>
          <Sentence text={entry.message} />
        </p>
      )}
      <Facts>
        <Fact name="Time">
          <span className="mono">{utc}</span> <span className="quiet">UTC</span>
          {local !== utc && (
            <>
              <br />
              <span className="mono">{local}</span> <span className="quiet">{zone}</span>
            </>
          )}
        </Fact>
        <Fact name="Actor">
          {entry.actor_id} <span className="quiet">{entry.actor_type}</span>
        </Fact>
        <Fact name="Subject">
          <Subject entry={entry} />
        </Fact>
        <Fact name="Level">{entry.level}</Fact>
        <Fact name="Tenant">
          {entry.tenant_id === null ? (
            "none"
          ) : (
            <>
              {tenants?.get(entry.tenant_id)} <Id value={entry.tenant_id} />
            </>
          )}
        </Fact>
        <Fact name="Row">
          <span className="mono">{whole(entry.id)}</span>
        </Fact>
        <Fact name="Seal">{entry.seal === null ? "not sealed yet" : <span className="mono">#{whole(entry.seal)}</span>}</Fact>
        <Fact name="Leaf">{entry.index === null ? "none yet" : <span className="mono">{whole(entry.index)}</span>}</Fact>
      </Facts>
      <Section title="Proof">
        <ProofSteps entry={entry} />
      </Section>
      <Section title="Facts">
        <JsonView value={entry.meta} label="facts of the row" />
      </Section>
    </div>
  );
}

/** What the row is about; jobs and runs have a page. */
function Subject({ entry }: { entry: Details }) {
  const name = (
    <>
      <span className="quiet">{entry.entity_type}</span> <Id value={entry.entity_id} />
    </>
  );
  if (entry.entity_type === "job") {
    return (
      <>
        {name}{" "}
        <Link to="/jobs/$jobId" params={{ jobId: entry.entity_id }}>
          Open the job
        </Link>
      </>
    );
  }
  if (entry.entity_type === "run") {
    return (
      <>
        {name}{" "}
        <Link to="/runs/$runId" params={{ runId: entry.entity_id }}>
          Open the run
        </Link>
      </>
    );
  }
  return name;
}
