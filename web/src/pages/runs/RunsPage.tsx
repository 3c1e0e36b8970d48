import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Play } from "lucide-react";
import { useMemo, useState } from "react";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { FilterChip, FilterMenu, TextFilter } from "@/components/FilterChips";
import { Id } from "@/components/Id";
import { Page } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Duration, Time } from "@/components/Time";
import { shortId } from "@/format/words";
import { JOB_MAKERS, MANAGERS, useCan } from "@/session/session";
import { useTenantSlugs } from "@/session/tenantSlugs";
import { WorkflowTabs } from "@/pages/workflows/WorkflowTabs";
import { Columns, shownOf, useHidden } from "@/views/Columns";
import { Views } from "@/views/Views";
import { ForkAnewDialog } from "./ForkDialog";
import { RunVerbDialog } from "./RunActions";
import styles from "./Runs.module.css";
import type { Run } from "./model";
import { useRuns } from "./runs";
import { RUN_STATUSES, type RunsSearch } from "./search";
import { StartRunDialog } from "./StartRunDialog";
import { hasUndone, mayRetry } from "./states";

function runColumns(tenants: ReadonlyMap<string, string> | null): Column<Run>[] {
  const [status, workflow, ...others] = COLUMNS;
  const tenant: Column<Run> = {
    key: "tenant",
    header: "Tenant",
    width: "minmax(64px, 0.5fr)",
    wideOnly: true,
    text: (run) => tenants?.get(run.tenant_id) ?? shortId(run.tenant_id),
    look: "quiet",
  };
  return tenants === null ? COLUMNS : [status, workflow, tenant, ...others];
}

const COLUMNS: [Column<Run>, Column<Run>, ...Column<Run>[]] = [
  { key: "status", header: "Status", width: "120px", cell: (run) => <StatusChip status={run.status} /> },
  {
    key: "workflow",
    header: "Workflow",
    width: "minmax(100px, 1.6fr)",
    cell: (run) => (
      <>
        <span className="truncate">{run.workflow}</span>
        {run.version > 0 && <span className="quiet">v{run.version}</span>}
      </>
    ),
  },
  { key: "id", header: "Id", width: "140px", wideOnly: true, cell: (run) => <Id value={run.id} /> },
  { key: "waits", header: "Next", width: "minmax(120px, 1fr)", wideOnly: true, cell: (run) => <Next run={run} /> },
  { key: "by", header: "Requested by", width: "minmax(150px, 1.1fr)", wideOnly: true, text: (run) => run.requested_by },
  { key: "created", header: "Created", width: "104px", align: "end", cell: (run) => <Time at={run.created_at} /> },
  {
    key: "duration",
    header: "Took",
    width: "96px",
    align: "end",
    wideOnly: true,
    cell: (run) => <Duration from={run.created_at} to={run.finished_at} />,
  },
];

/** All runs of workflows. */
export function RunsPage() {
  const search = useSearch({ from: "/runs" });
  const navigate = useNavigate({ from: "/runs" });
  const makes = useCan(JOB_MAKERS);
  const manages = useCan(MANAGERS);
  const hidden = useHidden();
  const [retried, setRetried] = useState<Run | null>(null);
  const runs = useRuns({ status: search.status, workflow: search.workflow });
  const tenants = useTenantSlugs(useMemo(() => (runs.rows ?? []).map((run) => run.tenant_id), [runs.rows]));
  const columns = useMemo(() => runColumns(tenants), [tenants]);
  const set = (changes: RunsSearch): void => void navigate({ search: (before) => ({ ...before, ...changes }) });
  const open = (id: string): void => void navigate({ to: "/runs/$runId", params: { runId: id }, search: ({ tenant }) => ({ tenant }) });
  const start = makes && (
    <Button kind="primary" icon={<Play size={14} aria-hidden />} onClick={() => set({ new: "run" })}>
      Start a workflow
    </Button>
  );
  const isFiltered = search.status !== undefined || search.workflow !== undefined;
  return (
    <Page
      title="Workflows"
      fill
      actions={start}
      tabs={<WorkflowTabs />}
      filters={
        <>
          <Filters search={search} onChange={set} />
          <Columns columns={columns} />
          <Views />
        </>
      }
    >
      <DataTable
        label="Workflow runs"
        rows={runs.rows}
        rowKey={(run: Run) => run.id}
        columns={shownOf(columns, hidden)}
        query={runs}
        onOpen={(run) => open(run.id)}
        onRetry={manages ? (run) => (mayRetry(run) || hasUndone(run)) && setRetried(run) : undefined}
        empty={
          isFiltered ? (
            <EmptyState
              title={`No ${search.status ?? ""} runs${search.workflow === undefined ? "" : ` of ${search.workflow}`}`}
              action={<Button onClick={() => set({ status: undefined, workflow: undefined })}>Clear filters</Button>}
            />
          ) : (
            <EmptyState
              title="No runs yet"
              command={`atlas workflow run daily-brief --tenant demo --input '{"to": "team@example.com", "topic": "tea"}'`}
              action={start}
            >
              A workflow is work in steps that survives any crash, and that may wait for days: for a time, an event or an approval. Each
              execution is a run.
            </EmptyState>
          )
        }
      />
      {search.new !== undefined && (
        <StartRunDialog
          onClose={() => void navigate({ search: (before) => ({ ...before, new: undefined }), replace: true })}
          onStarted={open}
        />
      )}
      {retried !== null &&
        (hasUndone(retried) ? (
          <ForkAnewDialog runId={retried.id} onClose={() => setRetried(null)} />
        ) : (
          <RunVerbDialog runId={retried.id} verb="retry" onClose={() => setRetried(null)} />
        ))}
    </Page>
  );
}

/** When a waiting run resumes; for a run that another run started, its parent. */
function Next({ run }: { run: Run }) {
  if (run.status === "waiting" && run.approval_expires_at != null) {
    return (
      <span className="truncate">
        waiting for approval, expires <Time at={run.approval_expires_at} />
      </span>
    );
  }
  if (run.status === "waiting" && run.wakes_at !== null) {
    return (
      <span className="quiet truncate">
        resumes <Time at={run.wakes_at} />
      </span>
    );
  }
  if (run.parent_run_id === null) return null;
  return (
    <Link
      to="/runs/$runId"
      params={{ runId: run.parent_run_id }}
      search={({ tenant }) => ({ tenant })}
      onClick={(event) => event.stopPropagation()}
      className="truncate"
    >
      part of another run
    </Link>
  );
}

function Filters({ search, onChange }: { search: RunsSearch; onChange: (changes: RunsSearch) => void }) {
  return (
    <>
      <FilterMenu label="Status">
        {(close) =>
          RUN_STATUSES.map((status) => (
            <button
              key={status}
              type="button"
              className={styles.choice}
              aria-pressed={search.status === status}
              onClick={() => {
                onChange({ status });
                close();
              }}
            >
              <StatusChip status={status} />
            </button>
          ))
        }
      </FilterMenu>
      <TextFilter label="Workflow" placeholder="its key" onSet={(workflow) => onChange({ workflow })} />
      {search.status !== undefined && <FilterChip name="Status" value={search.status} onRemove={() => onChange({ status: undefined })} />}
      {search.workflow !== undefined && (
        <FilterChip name="Workflow" value={search.workflow} onRemove={() => onChange({ workflow: undefined })} />
      )}
    </>
  );
}
