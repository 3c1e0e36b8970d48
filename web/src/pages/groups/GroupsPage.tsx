import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { RotateCw, Square } from "lucide-react";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Button } from "@/components/Button";
import { DataTable, type Column } from "@/components/DataTable";
import { SidePanel } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Id } from "@/components/Id";
import { Fact, Facts, Page } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { plural, whole } from "@/format/numbers";
import { shortId, spaced } from "@/format/words";
import { APPLIES_TO } from "@/pages/jobs/bulk";
import { BulkDialog } from "@/pages/jobs/BulkDialog";
import { JobTabs } from "@/pages/jobs/JobTabs";
import { type JobStatus, STATUSES } from "@/pages/jobs/search";
import { JOB_MAKERS, MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import { NewGroupDialog } from "./NewGroupDialog";

type Group = Schemas["JobGroup"];

const COLUMNS: readonly Column<Group>[] = [
  { key: "state", header: "State", width: "112px", cell: (one) => <State group={one} /> },
  { key: "name", header: "Group", width: "minmax(140px, 2fr)", text: (one) => nameOf(one) },
  { key: "total", header: "Jobs", width: "80px", align: "end", cell: (one) => whole(one.total) },
  { key: "counts", header: "By status", width: "minmax(160px, 2fr)", wideOnly: true, text: (one) => countsOf(one), look: "quiet" },
  { key: "then", header: "Followed by", width: "minmax(100px, 1fr)", wideOnly: true, text: (one) => one.then_type ?? "" },
  { key: "created", header: "Created", width: "104px", align: "end", cell: (one) => <Time at={one.created_at} /> },
];

function nameOf(group: Group): string {
  return group.name === "" ? shortId(group.id) : group.name;
}

/** "3 succeeded, 1 failed": at its end where it has ended. */
function countsOf(group: Group): string {
  const counts = Object.entries(group.ended_counts ?? group.counts).filter(([, count]) => count > 0);
  return counts.map(([status, count]) => `${whole(count)} ${spaced(status)}`).join(", ");
}

function State({ group }: { group: Group }) {
  return group.ended_at === null ? <StatusChip status="running" /> : <StatusChip status="succeeded" label="finished" />;
}

/** Jobs that were enqueued together, and how far they are. */
export function GroupsPage() {
  const { open } = useSearch({ from: "/groups" });
  const navigate = useNavigate({ from: "/groups" });
  const show = (id: string | undefined): void =>
    void navigate({ search: (before) => ({ ...before, open: id }), replace: open !== undefined });
  const pages = useList("/api/v1/groups", { tenant: useTenant(), limit: 50 }, { live: ["job"], refetchInterval: 30_000 });
  const columns = useWithTenant(COLUMNS, pages.rows);
  const makes = useCan(JOB_MAKERS);
  const [adding, setAdding] = useState(false);
  return (
    <Page title="Jobs" fill tabs={<JobTabs />} actions={makes && <Button onClick={() => setAdding(true)}>New group</Button>}>
      <DataTable
        label="Groups"
        rows={pages.rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={pages}
        onOpen={(one) => show(one.id)}
        openKey={open}
        empty={
          <EmptyState title="No groups yet" command="atlas group list">
            A program enqueues jobs as a group, and a job that follows when all of them have finished.
          </EmptyState>
        }
      />
      {adding && <NewGroupDialog onClose={() => setAdding(false)} onCreated={show} />}
      {open !== undefined && <GroupPanel key={open} id={open} onClose={() => show(undefined)} />}
    </Page>
  );
}

function GroupPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const params = { path: { group_id: id }, query: { tenant: useTenant() } };
  const query = api.useQuery("get", "/api/v1/groups/{group_id}", { params }, { meta: { live: ["job"] }, refetchInterval: 10_000 });
  const group = query.data;
  return (
    <SidePanel
      title={group === undefined ? "Group" : nameOf(group)}
      about={group && <State group={group} />}
      onClose={onClose}
      actions={group && <Actions group={group} />}
    >
      {group === undefined ? (
        query.isError ? (
          <ProblemView error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <Skeleton width="60%" />
        )
      ) : (
        <Facts>
          <Fact name="Jobs">
            <Link to="/jobs" search={({ tenant }) => ({ tenant, group_id: id })}>
              {plural(group.total, "job")}
            </Link>
          </Fact>
          {STATUSES.filter((status) => (group.counts[status] ?? 0) > 0).map((status) => (
            <Fact key={status} name={spaced(status)}>
              <JobsOf group={group} status={status} />
            </Fact>
          ))}
          <Fact name="Created">
            <Time at={group.created_at} />
          </Fact>
          <Fact name="By">{group.created_by}</Fact>
          {group.ended_at !== null && (
            <Fact name="Finished">
              <Time at={group.ended_at} />
            </Fact>
          )}
          {group.then_type !== null && (
            <Fact name="Followed by">
              {group.then_type}{" "}
              {group.then_job_id !== null && (
                <Link to="/jobs/$jobId" params={{ jobId: group.then_job_id }} search={({ tenant }) => ({ tenant })}>
                  <Id value={group.then_job_id} />
                </Link>
              )}
            </Fact>
          )}
          <Fact name="Id">
            <Id value={group.id} />
          </Fact>
        </Facts>
      )}
    </SidePanel>
  );
}

function JobsOf({ group, status }: { group: Group; status: JobStatus }) {
  return (
    <Link to="/jobs" search={({ tenant }) => ({ tenant, group_id: group.id, status: [status] })}>
      {whole(group.counts[status] ?? 0)}
    </Link>
  );
}

function Actions({ group }: { group: Group }) {
  const manages = useCan(MANAGERS);
  const queries = useQueryClient();
  const [asked, setAsked] = useState<"cancel" | "retry" | null>(null);
  // The dialog counts them: of the jobs of a status some may be refused.
  const isOffered = (verb: "cancel" | "retry"): boolean => APPLIES_TO[verb].some((status) => (group.counts[status] ?? 0) > 0);
  if (!manages) return null;
  return (
    <>
      {isOffered("retry") && (
        <Button icon={<RotateCw size={14} aria-hidden />} onClick={() => setAsked("retry")}>
          Retry jobs
        </Button>
      )}
      {isOffered("cancel") && (
        <Button icon={<Square size={14} aria-hidden />} onClick={() => setAsked("cancel")}>
          Cancel jobs
        </Button>
      )}
      {asked !== null && (
        <BulkDialog
          verb={asked}
          selection={{ filter: { group_id: group.id } }}
          about={
            asked === "cancel"
              ? "When the last job has finished, the job that follows the group is enqueued."
              : "The job that followed the group is not enqueued again."
          }
          onClose={() => setAsked(null)}
          onDone={() => void queries.invalidateQueries()}
        />
      )}
    </>
  );
}
