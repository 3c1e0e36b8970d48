import { Link, useNavigate } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useMemo } from "react";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { Page } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { useShortcut } from "@/frame/shortcuts";
import { PausedChip } from "@/pauses/PauseControls";
import { MANAGERS, useCan } from "@/session/session";
import { useTenantSlugs } from "@/session/tenantSlugs";
import { Runs } from "./Runs";
import { WorkflowTabs } from "./WorkflowTabs";
import { sumOf, useRunCounts, useWorkflows, versionWord, type RunCounts, type Workflow } from "./workflows";
import styles from "./Workflows.module.css";

/** All workflows that can be started: those in the code of workers, and declared ones. */
export function WorkflowsPage() {
  const navigate = useNavigate({ from: "/workflows" });
  const workflows = useWorkflows();
  const counts = useRunCounts();
  const slugs = useTenantSlugs(useMemo(() => (workflows.rows ?? []).map((one) => one.tenant_id), [workflows.rows]));
  const manages = useCan(MANAGERS);
  const columns = useMemo(() => columnsOf(counts, slugs), [counts, slugs]);
  const write = (): void => void navigate({ to: "/workflows/new", search: ({ tenant }) => ({ tenant }) });
  useShortcut("n", "New workflow", write, manages);
  const open = ({ key, tenant_id }: Workflow): void => {
    const owner = tenant_id === null ? undefined : slugs?.get(tenant_id);
    void navigate({ to: "/workflows/$key", params: { key }, search: ({ tenant }) => ({ tenant: owner ?? tenant }) });
  };
  const action = manages && (
    <Button kind="primary" icon={<Plus size={14} aria-hidden />} onClick={write}>
      New workflow
    </Button>
  );
  return (
    <Page title="Workflows" fill actions={action} tabs={<WorkflowTabs />}>
      <DataTable
        label="Workflows"
        rows={workflows.rows}
        rowKey={(one: Workflow) => one.id}
        columns={columns}
        query={workflows}
        onOpen={open}
        empty={
          <EmptyState title="No workflows yet" command="atlas workflow save order.json" action={action}>
            A workflow is work in steps that survives any crash. It is written here or saved as JSON, or it is a function in the code of a
            worker, which publishes it when it starts.
          </EmptyState>
        }
      />
    </Page>
  );
}

function columnsOf(counts: readonly RunCounts[], slugs: ReadonlyMap<string, string> | null): Column<Workflow>[] {
  return [
    { key: "key", header: "Workflow", width: "minmax(140px, 2fr)", cell: (one) => <Name workflow={one} /> },
    {
      key: "description",
      header: "Description",
      width: "minmax(160px, 3fr)",
      wideOnly: true,
      text: (one) => one.description,
      look: "quiet",
    },
    {
      key: "version",
      header: "Version",
      width: "84px",
      cell: (one) => <span className={one.version === 0 ? "quiet" : undefined}>{one.version === 0 ? "in code" : `v${one.version}`}</span>,
    },
    {
      key: "owner",
      header: "For",
      width: "112px",
      wideOnly: true,
      text: (one) => (one.tenant_id === null ? "all tenants" : (slugs?.get(one.tenant_id) ?? "this tenant")),
      look: "id",
    },
    { key: "runs", header: "Recent runs", width: "minmax(96px, 1fr)", cell: (one) => <Lately workflow={one} counts={counts} /> },
    {
      key: "last",
      header: "Last run",
      width: "104px",
      align: "end",
      wideOnly: true,
      cell: (one) => <Last at={sumOf(counts, one.key).last} />,
    },
    {
      key: "changed",
      header: "Published",
      width: "104px",
      align: "end",
      wideOnly: true,
      cell: (one) => <Time at={one.version === 0 ? one.last_seen_at : one.created_at} />,
    },
  ];
}

function Name({ workflow }: { workflow: Workflow }) {
  return (
    <>
      <span className="truncate" title={`${workflow.key}, ${versionWord(workflow.version)}`}>
        {workflow.key}
      </span>
      {!workflow.is_enabled && <StatusChip status="disabled" />}
      <PausedChip kind="workflow" target={workflow.key} />
    </>
  );
}

function Lately({ workflow, counts }: { workflow: Workflow; counts: readonly RunCounts[] }) {
  const sum = sumOf(counts, workflow.key);
  if (sum.total === 0) return <Runs sum={sum} />;
  return (
    <Link
      to="/runs"
      search={({ tenant }) => ({ tenant, workflow: workflow.key })}
      className={styles.counts}
      onClick={(event) => event.stopPropagation()}
    >
      <span className="visually-hidden">Runs of {workflow.key}:</span>
      <Runs sum={sum} />
    </Link>
  );
}

function Last({ at }: { at: string | null }) {
  return at === null ? null : <Time at={at} />;
}
