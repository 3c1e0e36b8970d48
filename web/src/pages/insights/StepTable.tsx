import { Link } from "@tanstack/react-router";
import { api, type Schemas } from "@/api/client";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { FilterChip, TextFilter } from "@/components/FilterChips";
import { percent, plural, whole } from "@/format/numbers";
import { duration } from "@/format/time";
import { useTenant } from "@/session/tenant";
import styles from "./Insights.module.css";

type StepTime = Schemas["StepTime"];

interface StepTableProps {
  start: string;
  end: string;
  jobType: string | undefined;
  workflow: string | undefined;
  onWorkflow: (workflow: string | undefined) => void;
}

const COLUMNS: readonly Column<StepTime>[] = [
  { key: "step", header: "Step", width: "minmax(120px, 2fr)", text: (one) => one.step },
  {
    key: "workflow",
    header: "Workflow",
    width: "minmax(100px, 1fr)",
    wideOnly: true,
    cell: (one) => (
      <Link to="/workflows/$key" params={{ key: one.workflow }} search={({ tenant }) => ({ tenant })} className="truncate">
        {one.workflow}
      </Link>
    ),
  },
  { key: "kind", header: "Kind", width: "88px", wideOnly: true, cell: (one) => one.kind },
  { key: "count", header: "Finished", width: "88px", align: "end", wideOnly: true, cell: (one) => whole(one.count) },
  { key: "failed", header: "Failed", width: "72px", align: "end", wideOnly: true, cell: (one) => whole(one.failed) },
  { key: "p50", header: "p50", width: "88px", align: "end", cell: (one) => duration(one.p50 * 1000) },
  { key: "p95", header: "p95", width: "88px", align: "end", cell: (one) => duration(one.p95 * 1000) },
  { key: "share", header: "Share", width: "72px", align: "end", cell: (one) => percent(one.share) },
];

/** The steps that took the most time in all: of every workflow, of one, or those that run jobs of a type. */
export function StepTable({ start, end, jobType, workflow, onWorkflow }: StepTableProps) {
  const params = { query: { tenant: useTenant(), start, end, job_type: jobType, workflow } };
  const query = api.useQuery("get", "/api/v1/insights/steps", { params }, { refetchInterval: 60_000 });
  return (
    <>
      <p className={styles.about}>
        {workflow === undefined ? (
          <TextFilter label="Workflow" placeholder="its key" onSet={onWorkflow} />
        ) : (
          <FilterChip name="Workflow" value={workflow} onRemove={() => onWorkflow(undefined)} />
        )}
        {query.data?.is_sampled === true && <span>Of the newest {plural(query.data.runs, "run")} of this time</span>}
      </p>
      <DataTable
        label="Slowest steps"
        inline
        rows={query.data?.items}
        rowKey={(one) => `${one.workflow} ${one.step} ${one.kind}`}
        columns={COLUMNS}
        query={query}
        empty={
          <EmptyState title="No step finished in this period" command="atlas insights --steps --days 7">
            A step is what a workflow records: code, a job, a sub-run, a wait for an event or an approval.
          </EmptyState>
        }
      />
    </>
  );
}
