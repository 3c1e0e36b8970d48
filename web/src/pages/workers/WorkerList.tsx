import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { ChangeDialog, SidePanel } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Explanation } from "@/components/Explanation";
import { Id } from "@/components/Id";
import { Fact, Facts, Section } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Duration, Time, useNow } from "@/components/Time";
import { plural, whole } from "@/format/numbers";
import { useChange } from "@/components/useChange";
import { OPERATORS, useCan } from "@/session/session";
import { useWithTenant } from "@/session/tenantColumn";
import { workerState, type Worker } from "./state";
import styles from "./workers.module.css";

type WorkerJob = Schemas["WorkerJob"];

const HEARTBEAT_MS = 3000;

const COLUMNS: readonly Column<Worker>[] = [
  { key: "state", header: "State", width: "112px", cell: (one) => <State worker={one} /> },
  {
    key: "id",
    header: "Worker",
    width: "minmax(160px, 2fr)",
    text: (one) => one.worker_id,
    look: "id",
  },
  { key: "host", header: "Machine", width: "minmax(110px, 1fr)", wideOnly: true, text: (one) => one.hostname },
  { key: "types", header: "Runs", width: "minmax(140px, 2fr)", wideOnly: true, cell: (one) => <Types types={one.job_types} /> },
  { key: "running", header: "Running", width: "88px", align: "end", cell: (one) => slotsOf(one) },
  { key: "seen", header: "Heartbeat", width: "104px", wideOnly: true, cell: (one) => <Time at={one.last_seen_at} /> },
  { key: "version", header: "Version", width: "88px", wideOnly: true, cell: (one) => one.version },
  { key: "since", header: "Started", width: "96px", wideOnly: true, cell: (one) => <Time at={one.started_at} /> },
];

/** How many of its slots are taken: a worker of an earlier release does not say how many it has. */
function slotsOf(worker: Worker, running = worker.running_count): string {
  return worker.concurrency == null ? whole(running) : `${whole(running)} of ${whole(worker.concurrency)}`;
}

/** The worker processes of the last day. */
export function WorkerList({ open, onOpen }: { open: string | undefined; onOpen: (id: string | undefined) => void }) {
  const pages = useList("/api/v1/workers", {}, { refetchInterval: HEARTBEAT_MS });
  return (
    <>
      <DataTable
        label="Workers"
        rows={pages.rows}
        rowKey={(one) => one.worker_id}
        columns={COLUMNS}
        query={pages}
        onOpen={(one) => onOpen(one.worker_id)}
        openKey={open}
        empty={
          <EmptyState title="No worker runs" command="atlas worker --app shop.jobs">
            Jobs wait until a worker claims them. `atlas up` starts workers too.
          </EmptyState>
        }
      />
      {open !== undefined && <WorkerPanel key={open} id={open} onClose={() => onOpen(undefined)} />}
    </>
  );
}

const LOOKS = { alive: "alive", draining: "waiting", stale: "stale", stopped: "canceled" } as const;

function State({ worker }: { worker: Worker }) {
  const state = workerState(worker, useNow());
  return <StatusChip status={LOOKS[state]} label={state} />;
}

function Types({ types }: { types: readonly string[] }) {
  return (
    <span className="truncate" title={types.join("\n")}>
      {types.length === 0 ? (
        <span className="quiet">every type</span>
      ) : (
        types.slice(0, 3).join(", ") + (types.length > 3 ? ` and ${types.length - 3} more` : "")
      )}
    </span>
  );
}

const JOBS: readonly Column<WorkerJob>[] = [
  { key: "type", header: "Job type", width: "minmax(120px, 1fr)", text: (one) => one.job_type },
  {
    key: "id",
    header: "Job",
    width: "136px",
    cell: (one) => (
      <Link to="/jobs/$jobId" params={{ jobId: one.id }}>
        <Id value={one.id} />
      </Link>
    ),
  },
  { key: "attempt", header: "Attempt", width: "72px", align: "end", cell: (one) => one.attempt_count },
  { key: "time", header: "Runs for", width: "88px", align: "end", cell: (one) => <Duration from={one.started_at} /> },
];

function WorkerPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const query = api.useQuery(
    "get",
    "/api/v1/workers/{worker_id}",
    { params: { path: { worker_id: id } } },
    { refetchInterval: HEARTBEAT_MS },
  );
  const why = api.useQuery(
    "get",
    "/api/v1/workers/{worker_id}/explain",
    { params: { path: { worker_id: id } } },
    { refetchInterval: HEARTBEAT_MS, meta: { live: ["atlas"] } },
  );
  const worker = query.data;
  const columns = useWithTenant(JOBS, worker?.jobs);
  return (
    <SidePanel
      title={worker?.hostname ?? "Worker"}
      about={worker && <State worker={worker} />}
      onClose={onClose}
      actions={worker && <Drain worker={worker} />}
    >
      {worker === undefined ? (
        query.isError ? (
          <ProblemView error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <Skeleton width="60%" />
        )
      ) : (
        <div className={styles.stack}>
          <Explanation found={why.data} />
          <Facts>
            <Fact name="Worker">
              <Id value={worker.worker_id} whole />
            </Fact>
            <Fact name="Slots used">{slotsOf(worker, Math.max(worker.jobs.length, worker.running_count))}</Fact>
            <Fact name="Version">{worker.version}</Fact>
            <Fact name="Started">
              <Time at={worker.started_at} />
            </Fact>
            <Fact name="Heartbeat">
              <Time at={worker.last_seen_at} />
            </Fact>
            <Fact name="Lease expires">
              <Time at={worker.lease_expires_at} />
            </Fact>
          </Facts>
          <Section title="Running jobs">
            <DataTable
              inline
              label="Running jobs"
              rows={worker.jobs}
              rowKey={(one) => one.id}
              columns={columns}
              query={query}
              empty={<EmptyState title="No running jobs" />}
            />
          </Section>
          <Section title="Job types">
            <ul className={styles.types}>
              {worker.job_types.map((one) => (
                <li key={one} className="mono">
                  {one}
                </li>
              ))}
            </ul>
          </Section>
        </div>
      )}
    </SidePanel>
  );
}

function Drain({ worker }: { worker: Schemas["WorkerDetails"] }) {
  const may = useCan(OPERATORS);
  const [open, setOpen] = useState(false);
  const drain = useChange(() => client.POST("/api/v1/workers/{worker_id}/drain", { params: { path: { worker_id: worker.worker_id } } }), {
    done: () => "The worker is draining",
    lists: ["/api/v1/workers"],
    onDone: () => setOpen(false),
  });
  if (!may || !worker.is_alive || worker.drain_requested_at != null) return null;
  const running = worker.jobs.length;
  return (
    <>
      <Button onClick={() => setOpen(true)}>Drain</Button>
      <ChangeDialog
        open={open}
        onClose={() => setOpen(false)}
        title="Drain this worker?"
        description={`It claims no more jobs${running === 0 ? "" : `, finishes ${plural(running, "running job")}`} and exits. A supervisor may restart it.`}
        action="Drain worker"
        danger
        change={drain}
      />
    </>
  );
}
