import { useNavigate, useSearch } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { ChoiceFilter, FilterChip, TextFilter } from "@/components/FilterChips";
import { Id } from "@/components/Id";
import { Page } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { spaced } from "@/format/words";
import { WorkflowTabs } from "@/pages/workflows/WorkflowTabs";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import { REQUEST_STATUSES, type RequestsSearch } from "./search";

type Request = Schemas["Intent"];

const LOOKS: Record<string, string> = { draft: "queued", awaiting_human: "waiting", executed: "succeeded" };

const COLUMNS: readonly Column<Request>[] = [
  {
    key: "status",
    header: "Status",
    width: "136px",
    cell: (one) => <StatusChip status={LOOKS[one.status] ?? one.status} label={spaced(one.status)} />,
  },
  { key: "workflow", header: "Workflow", width: "minmax(100px, 1fr)", text: (one) => one.workflow },
  { key: "reason", header: "Decision", width: "minmax(160px, 2fr)", wideOnly: true, text: (one) => one.reason ?? "", look: "quiet" },
  { key: "id", header: "Id", width: "136px", wideOnly: true, cell: (one) => <Id value={one.id} /> },
  { key: "by", header: "Requested by", width: "minmax(120px, 1fr)", wideOnly: true, text: (one) => one.requested_by },
  { key: "created", header: "Created", width: "104px", align: "end", cell: (one) => <Time at={one.created_at} /> },
];

/** Requests for workflows: those that policy holds or has refused have no run. */
export function RequestsPage() {
  const search = useSearch({ from: "/requests" });
  const navigate = useNavigate({ from: "/requests" });
  const set = (changes: RequestsSearch): void => void navigate({ search: (before) => ({ ...before, ...changes }) });
  const pages = useList(
    "/api/v1/intents",
    { status: search.status, workflow: search.workflow, tenant: useTenant(), limit: 50 },
    { live: ["run"] },
  );
  const columns = useWithTenant(COLUMNS, pages.rows);
  const isFiltered = search.status !== undefined || search.workflow !== undefined;
  return (
    <Page
      title="Workflows"
      fill
      tabs={<WorkflowTabs />}
      filters={
        <>
          <ChoiceFilter
            label="Status"
            values={REQUEST_STATUSES}
            chosen={search.status === undefined ? [] : [search.status]}
            onChange={(chosen) => set({ status: chosen.at(-1) })}
            show={spaced}
          />
          {search.status !== undefined && (
            <FilterChip name="Status" value={spaced(search.status)} onRemove={() => set({ status: undefined })} />
          )}
          {search.workflow === undefined ? (
            <TextFilter label="Workflow" placeholder="its key" onSet={(workflow) => set({ workflow })} />
          ) : (
            <FilterChip name="Workflow" value={search.workflow} onRemove={() => set({ workflow: undefined })} />
          )}
        </>
      }
    >
      <DataTable
        label="Requests"
        rows={pages.rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={pages}
        onOpen={(one) => void navigate({ to: "/runs/$runId", params: { runId: one.id }, search: ({ tenant }) => ({ tenant }) })}
        empty={
          isFiltered ? (
            <EmptyState
              title="No such requests"
              action={<Button onClick={() => set({ status: undefined, workflow: undefined })}>Clear filters</Button>}
            />
          ) : (
            <EmptyState title="No requests yet" command="atlas workflow run daily-brief">
              A request for a workflow becomes a run when policy allows it, waits for an approval, or is blocked.
            </EmptyState>
          )
        }
      />
    </Page>
  );
}
