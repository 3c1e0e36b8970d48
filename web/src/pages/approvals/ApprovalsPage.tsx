import { useNavigate, useSearch } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { Page } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { useChosenInView } from "@/components/Tabs";
import { Time } from "@/components/Time";
import { capitalized, cx } from "@/format/words";
import { useWithTenant } from "@/session/tenantColumn";
import { useTenant } from "@/session/tenant";
import { ApprovalPanel } from "./ApprovalPanel";
import styles from "./Approvals.module.css";
import { APPROVAL_STATUSES, type ApprovalStatus } from "./search";

type Approval = Schemas["Approval"];

const PAGE = 50;

const COLUMNS: Column<Approval>[] = [
  { key: "status", header: "Status", width: "112px", cell: (one) => <StatusChip status={one.status} /> },
  { key: "title", header: "Question", width: "minmax(180px, 3fr)", text: (one) => one.title },
  {
    key: "kind",
    header: "About",
    width: "minmax(100px, 1fr)",
    wideOnly: true,
    text: (one) => (one.kind === "intent" ? "a request" : `step ${one.step ?? ""}`),
  },
  { key: "by", header: "Requested by", width: "minmax(120px, 1fr)", wideOnly: true, text: (one) => one.requested_by },
  { key: "created", header: "Requested", width: "104px", align: "end", cell: (one) => <Time at={one.created_at} /> },
  {
    key: "expires",
    header: "Expires",
    width: "112px",
    align: "end",
    wideOnly: true,
    cell: (one) =>
      one.status === "pending" ? <Time at={one.expires_at} /> : one.decided_at === null ? null : <Time at={one.decided_at} />,
  },
];

/** What waits for a person's decision, and what was decided. */
export function ApprovalsPage() {
  const { status = "pending", open } = useSearch({ from: "/approvals" });
  const navigate = useNavigate({ from: "/approvals" });
  const approvals = useList("/api/v1/approvals", { status, tenant: useTenant(), limit: PAGE }, { live: ["run"] });
  const columns = useWithTenant(COLUMNS, approvals.rows);
  const show = (id: string | undefined): void =>
    void navigate({ search: (before) => ({ ...before, open: id }), replace: open !== undefined });
  return (
    <Page
      title="Approvals"
      fill
      filters={<StatusLine status={status} onChange={(next) => void navigate({ search: ({ tenant }) => ({ tenant, status: next }) })} />}
    >
      <DataTable
        label="Approvals"
        rows={approvals.rows}
        rowKey={(one: Approval) => one.id}
        columns={columns}
        query={approvals}
        onOpen={(one) => show(one.id)}
        openKey={open}
        empty={
          status === "pending" ? (
            <EmptyState title="No pending approvals">
              Workflows wait here for a decision before they continue, and requests that policy sends to review. Whoever requested one may
              not decide it.
            </EmptyState>
          ) : (
            <EmptyState
              title={`No ${status} approvals`}
              action={<Button onClick={() => void navigate({ search: ({ tenant }) => ({ tenant }) })}>Show pending</Button>}
            />
          )
        }
      />
      {open !== undefined && <ApprovalPanel key={open} approvalId={open} onClose={() => show(undefined)} />}
    </Page>
  );
}

function StatusLine({ status, onChange }: { status: ApprovalStatus; onChange: (status: ApprovalStatus) => void }) {
  const line = useChosenInView<HTMLDivElement>(status);
  return (
    <div ref={line} className={cx(styles.statuses, "line-of-choices")} role="group" aria-label="Status">
      {APPROVAL_STATUSES.map((one) => (
        <button key={one} type="button" className={styles.status} aria-pressed={one === status} onClick={() => onChange(one)}>
          {capitalized(one)}
        </button>
      ))}
    </div>
  );
}
