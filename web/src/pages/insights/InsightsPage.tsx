import { keepPreviousData } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { api, type Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { EmptyState } from "@/components/EmptyState";
import { FilterChip, TextFilter } from "@/components/FilterChips";
import { Page } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { type Tab, Tabs } from "@/components/Tabs";
import { useMinute } from "@/components/Time";
import { isSet, NO_RANGE, type TimeRange } from "@/components/timeRange";
import { TimeRangeFilter } from "@/components/TimeRangeFilter";
import { exactTimes, timeSpan } from "@/format/time";
import { useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { Views } from "@/views/Views";
import { Charts } from "./Charts";
import { GroupTable } from "./GroupTable";
import { dayStart, spanOf, wholeBounds } from "./groups";
import styles from "./Insights.module.css";
import { KeyFigures } from "./KeyFigures";
import type { InsightsSearch } from "./search";
import { StepTable } from "./StepTable";
import { UsageTable } from "./UsageTable";

type Insights = Schemas["Insights"];

const MINUTE = 60_000;

/** Usage, cost and reliability over hours, days and months, by job type and tenant. */
export function InsightsPage() {
  const search = useSearch({ from: "/insights" });
  const navigate = useNavigate({ from: "/insights" });
  const set = (next: Partial<InsightsSearch>): void => void navigate({ search: (before) => ({ ...before, ...next }) });
  const tenant = useTenant();
  const compares = useSeesAll() && tenant === undefined;
  const by = compares && search.by === "tenant" ? ("tenant" as const) : ("type" as const);
  const filters = { tenant, job_type: search.job_type, by, ...wholeBounds(isSet(search) ? search : { last: "7d" }, useMinute()) };
  const { data, error, refetch } = api.useQuery(
    "get",
    "/api/v1/insights",
    { params: { query: filters } },
    { refetchInterval: MINUTE, placeholderData: keepPreviousData },
  );
  const setRange = (range: TimeRange): void => set(range);
  const filtered = isSet(search) || search.job_type !== undefined;
  return (
    <Page
      title="Insights"
      actions={
        <>
          <TimeRangeFilter range={search} unset="Last 7 days" onChange={setRange} />
          <a className={styles.export} href={exportAddress(filters)} download>
            <Download size={14} aria-hidden /> Export as CSV
          </a>
        </>
      }
      filters={
        <>
          {search.job_type === undefined ? (
            <TextFilter label="Job type" placeholder="EMAIL_SEND" onSet={(job_type) => set({ job_type })} />
          ) : (
            <FilterChip name="Job type" value={search.job_type} onRemove={() => set({ job_type: undefined })} />
          )}
          <Views />
        </>
      }
    >
      {data === undefined ? (
        error === null ? (
          <Loading />
        ) : (
          <ProblemView error={error} onRetry={() => void refetch()} />
        )
      ) : data.groups.length === 0 && search.by !== "steps" && search.by !== "usage" ? (
        <Nothing metered={data.metered_until !== null} onClear={filtered ? () => set({ ...NO_RANGE, job_type: undefined }) : undefined} />
      ) : (
        <>
          <About data={data} />
          <KeyFigures data={data} />
          <Charts points={data.points} step={data.step} onRange={setRange} />
          <Compared data={data} by={by} compares={compares} search={search} set={set} />
        </>
      )}
    </Page>
  );
}

interface ComparedProps {
  data: Insights;
  by: "type" | "tenant";
  compares: boolean;
  search: InsightsSearch;
  set: (next: Partial<InsightsSearch>) => void;
}

function Compared({ data, by, compares, search, set }: ComparedProps) {
  const table = (
    <>
      <GroupTable
        data={data}
        by={by}
        sort={search.sort ?? "finished"}
        up={search.order === "up"}
        onSort={(sort, up) => set({ sort, order: up ? "up" : undefined })}
      />
      {data.is_cut && <p className={styles.cut}>The {data.groups.length} busiest. The CSV has all of them.</p>}
    </>
  );
  const tabs: Tab<"type" | "tenant" | "usage" | "steps">[] = [
    { key: "type", label: "By job type", content: () => table },
    ...(compares ? [{ key: "tenant" as const, label: "By tenant", content: () => table }] : []),
    {
      key: "steps",
      label: "Slowest steps",
      content: () => (
        <StepTable
          start={data.start}
          end={data.end}
          jobType={search.job_type}
          workflow={search.workflow}
          onWorkflow={(workflow) => set({ workflow })}
        />
      ),
    },
    { key: "usage", label: "Usage", content: () => <UsageTable start={data.start} end={data.end} /> },
  ];
  const value = search.by === "usage" || search.by === "steps" ? search.by : by;
  return <Tabs label="Group by" value={value} onChange={(next) => set({ by: next === "type" ? undefined : next })} tabs={tabs} />;
}

/** The time, in the words of the reader's clock, and where days begin. */
function About({ data }: { data: Insights }) {
  const { zone } = exactTimes(new Date());
  const begun = data.points.some((one) => !one.is_complete);
  return (
    <p className={styles.about}>
      <span>
        {timeSpan(new Date(data.start), new Date(data.end))}, {zone}
      </span>
      <span>{data.previous === null ? "No data for the period before" : `Compared with the ${spanOf(data.start, data.end)} before`}</span>
      {data.step === "day" && (
        <span>Days begin at {zone === "UTC" ? "00:00 UTC" : `${dayStart(new Date(data.end))}, which is 00:00 UTC`}</span>
      )}
      {begun && <span>The {data.step} that has begun is shaded: its figures are those so far</span>}
    </p>
  );
}

function Nothing({ metered, onClear }: { metered: boolean; onClear: (() => void) | undefined }) {
  if (!metered) {
    return (
      <EmptyState title="No data yet" command="atlas scheduler">
        A scheduler adds up what happens to jobs: outcomes, times, retries and cost, by the minute, hour and day.
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No jobs in this period" action={onClear !== undefined && <Button onClick={onClear}>Clear filters</Button>}>
      No job was enqueued or finished. Minutes are kept for 3 days, hours for 400 and days for 1,100.
    </EmptyState>
  );
}

function Loading() {
  return (
    <>
      <Skeleton height={72} />
      <div className={styles.charts}>
        {[1, 2, 3, 4].map((one) => (
          <Skeleton key={one} height={196} />
        ))}
      </div>
      <Skeleton height={240} />
    </>
  );
}

/** The same filters as a file. */
function exportAddress(filters: Record<string, string | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) if (value !== undefined) query.set(name, value);
  return `/api/v1/insights/export?${query.toString()}`;
}
