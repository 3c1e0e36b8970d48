import { api, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { DataTable, type Column } from "@/components/DataTable";
import { SidePanel } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Fact, Facts, Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { whole } from "@/format/numbers";
import { duration } from "@/format/time";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import styles from "./schedules.module.css";

type Recurring = Schemas["RecurringFunction"];
type RecurringRun = Schemas["RecurringRun"];

const COLUMNS: readonly Column<Recurring>[] = [
  {
    key: "last",
    header: "Last run",
    width: "120px",
    cell: (one) => <Outcome outcome={one.last_outcome} isRunning={one.worker_id !== null} />,
  },
  { key: "id", header: "Function", width: "minmax(160px, 2fr)", text: (one) => one.id, look: "mono" },
  { key: "every", header: "Every", width: "96px", cell: (one) => (one.repeat_seconds > 0 ? duration(one.repeat_seconds * 1000) : "once") },
  { key: "next", header: "Next", width: "104px", wideOnly: true, cell: (one) => <Time at={one.next_run_at} /> },
  {
    key: "ended",
    header: "Finished",
    width: "104px",
    wideOnly: true,
    cell: (one) => (one.last_finished_at === null ? <span className="quiet">–</span> : <Time at={one.last_finished_at} />),
  },
  { key: "runs", header: "Runs", width: "80px", align: "end", wideOnly: true, cell: (one) => whole(one.run_count) },
];

/** The functions that programs have registered to be called again and again. */
export function RecurringList({ open, onOpen }: { open: string | undefined; onOpen: (id: string | undefined) => void }) {
  const tenant = useTenant();
  const pages = useList("/api/v1/recurring", { tenant }, { refetchInterval: 5000 });
  const columns = useWithTenant(COLUMNS, pages.rows);
  const shown = pages.rows?.find((one) => keyOf(one) === open);
  return (
    <>
      <DataTable
        label="Recurring functions"
        rows={pages.rows}
        rowKey={keyOf}
        columns={columns}
        query={pages}
        onOpen={(one) => onOpen(keyOf(one))}
        openKey={open}
        empty={
          <EmptyState title="No recurring functions">
            Programs register them in code: a function that is called at an interval, in one process at a time. docs/scheduler.md shows how.
          </EmptyState>
        }
      />
      {shown !== undefined && <RecurringPanel one={shown} onClose={() => onOpen(undefined)} />}
    </>
  );
}

/** An id is its tenant's own. */
function keyOf(one: Recurring): string {
  return `${one.tenant_id}/${one.id}`;
}

const LOOKS: Record<string, string> = { timeout: "failed", stopped: "canceled", lost: "stale" };

function Outcome({ outcome, isRunning = false }: { outcome: string | null; isRunning?: boolean }) {
  if (isRunning) return <StatusChip status="running" />;
  return outcome === null ? (
    <StatusChip status="queued" label="not yet" />
  ) : (
    <StatusChip status={LOOKS[outcome] ?? outcome} label={outcome} />
  );
}

const RUNS: readonly Column<RecurringRun>[] = [
  {
    key: "outcome",
    header: "Outcome",
    width: "112px",
    cell: (one) => <Outcome outcome={one.outcome} isRunning={one.finished_at === null} />,
  },
  { key: "at", header: "Started", width: "104px", cell: (one) => <Time at={one.started_at} /> },
  { key: "took", header: "Took", width: "80px", align: "end", cell: (one) => (one.duration_ms === null ? "" : duration(one.duration_ms)) },
  {
    key: "error",
    header: "Error",
    width: "minmax(96px, 1fr)",
    cell: (one) => (
      <span className="truncate" title={one.error ?? ""}>
        {one.error}
      </span>
    ),
  },
];

function RecurringPanel({ one, onClose }: { one: Recurring; onClose: () => void }) {
  const params = { path: { recurring_id: one.id }, query: { tenant: one.tenant_id, limit: 50 } };
  const query = api.useQuery("get", "/api/v1/recurring/{recurring_id}/runs", { params }, { refetchInterval: 5000 });
  return (
    <SidePanel title={one.id} onClose={onClose}>
      <div className={styles.stack}>
        {one.last_error !== null && <p className={styles.trouble}>{one.last_error}</p>}
        <Facts>
          <Fact name="Every">{one.repeat_seconds > 0 ? duration(one.repeat_seconds * 1000) : "once"}</Fact>
          <Fact name="Next">
            <Time at={one.next_run_at} />
          </Fact>
          {one.timeout_seconds !== null && <Fact name="Timeout">{duration(one.timeout_seconds * 1000)}</Fact>}
          <Fact name="Runs">{whole(one.run_count)}</Fact>
          {one.worker_id !== null && <Fact name="Runs in">{one.worker_id}</Fact>}
        </Facts>
        <Section title="Runs">
          <DataTable
            inline
            label="Runs"
            rows={query.data?.items}
            rowKey={(run) => run.id}
            columns={RUNS}
            query={query}
            empty={<EmptyState title="Not run yet" />}
          />
        </Section>
      </div>
    </SidePanel>
  );
}
