import { useNavigate, useSearch } from "@tanstack/react-router";
import { api } from "@/api/client";
import { Page } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { useMinute } from "@/components/Time";
import { type Bounds, boundsOf, isSet, type TimeRange } from "@/components/timeRange";
import { TimeRangeFilter } from "@/components/TimeRangeFilter";
import { useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { Failures } from "./Failures";
import { FirstRunOffer } from "./FirstRunOffer";
import { Flow } from "./Flow";
import { GatePanel } from "./GatePanel";
import { useFailuresInRange, useTypesInRange } from "./inRange";
import { Needs } from "./Needs";
import styles from "./Overview.module.css";
import { Pauses } from "./Pauses";
import { StatusBar } from "./StatusBar";
import { Tenants } from "./Tenants";
import { Types, TypesInRange } from "./Types";

/** Whether Atlas is on, whether work flows, and where it does not. */
export function OverviewPage() {
  const range = useSearch({ from: "/" });
  const navigate = useNavigate({ from: "/" });
  const setRange = (next: TimeRange): void => void navigate({ search: (before) => ({ ...before, ...next }) });
  const bounds = boundsOf(range, useMinute());
  const tenant = useTenant();
  const all = useSeesAll() && tenant === undefined;
  const query = { params: { query: { tenant } } };
  const { data, error, refetch } = api.useQuery("get", "/api/v1/overview", query, {
    meta: { live: ["job", "run", "atlas"] },
    refetchInterval: 10_000,
  });
  if (data === undefined && error !== null) {
    return (
      <Page title="Overview">
        <ProblemView error={error} onRetry={() => void refetch()} />
      </Page>
    );
  }
  return (
    <Page title="Overview" actions={<TimeRangeFilter range={range} unset="Last hour" onChange={setRange} />}>
      <FirstRunOffer />
      <div className={styles.first}>
        <GatePanel overview={data} />
        <Flow bounds={bounds} onRange={setRange} />
      </div>
      {data === undefined ? <Skeleton height={64} /> : <StatusBar counts={data.counts} estimated={data.estimated} />}
      <Pauses />
      <Needs needs={data?.needs} />
      <div className={styles.pair}>
        {isSet(range) ? (
          <InRange bounds={bounds} showTenant={all} />
        ) : (
          <>
            <Types types={data?.types} />
            <Failures failures={data?.failures} showTenant={all} />
          </>
        )}
      </div>
      {all && <Tenants />}
    </Page>
  );
}

/** What happened by type, and what failed, in the part of the time that was chosen. */
function InRange({ bounds, showTenant }: { bounds: Bounds; showTenant: boolean }) {
  return (
    <>
      <TypesInRange types={useTypesInRange(bounds)} />
      <Failures failures={useFailuresInRange(bounds)} showTenant={showTenant} />
    </>
  );
}
