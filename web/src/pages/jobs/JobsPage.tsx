import { useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowUp, Plus } from "lucide-react";
import { useMemo, useState, type ReactNode } from "react";
import { Button } from "@/components/Button";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { Page } from "@/components/Page";
import { ForkAnewDialog } from "@/pages/runs/ForkDialog";
import { hasUndone } from "@/pages/runs/states";
import { JOB_MAKERS, MANAGERS, useCan } from "@/session/session";
import { useTenantSlugs } from "@/session/tenantSlugs";
import { Columns, shownOf, useHidden } from "@/views/Columns";
import { Views } from "@/views/Views";
import { APPLIES_TO } from "./bulk";
import { BulkBar } from "./BulkBar";
import { BulkDialog } from "./BulkDialog";
import { BulkProgress } from "./BulkProgress";
import { JobFilterLine, StatusTabs } from "./JobFilterLine";
import { jobColumns } from "./JobColumns";
import { JobPanel } from "./JobPanel";
import { JobTabs } from "./JobTabs";
import { type ListedJob, useJobs, useReasons } from "./jobs";
import styles from "./Jobs.module.css";
import { NewJobDialog } from "./NewJobDialog";
import { filtersOf, type JobsSearch } from "./search";

const NONE: ReadonlySet<string> = new Set();

/** All jobs: a table that stays in place while work arrives, filters in the address, actions on many. */
export function JobsPage() {
  const search = useSearch({ from: "/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const manages = useCan(MANAGERS);
  const makes = useCan(JOB_MAKERS);
  // What was chosen among other jobs is not chosen among these.
  const filters = filtersOf(search);
  const shown = JSON.stringify(filters);
  const [choice, setChoice] = useState({ shown, ids: NONE });
  const chosen = choice.shown === shown ? choice.ids : NONE;
  const setChosen = (ids: ReadonlySet<string>): void => setChoice({ shown, ids });
  const [retried, setRetried] = useState<ListedJob | null>(null);
  const jobs = useJobs(search);
  const reasons = useReasons(jobs.rows);
  const tenants = useTenantSlugs(useMemo(() => (jobs.rows ?? []).map((job) => job.tenant_id), [jobs.rows]));
  const hidden = useHidden();
  const columns = useMemo(() => jobColumns({ reasons, tenants }), [reasons, tenants]);
  const set = (changes: Partial<JobsSearch>): void => {
    void navigate({ search: (before) => ({ ...before, ...changes }) });
  };
  const open = (id: string | undefined): void =>
    void navigate({ search: (before) => ({ ...before, job: id, tab: undefined }), replace: search.job !== undefined });
  const newJob = makes && (
    <Button kind="primary" icon={<Plus size={14} aria-hidden />} onClick={() => set({ new: "job" })}>
      New job
    </Button>
  );
  return (
    <Page
      title="Jobs"
      fill
      actions={newJob}
      tabs={<JobTabs />}
      filters={
        <>
          <JobFilterLine search={search} onChange={set} onOpen={open} />
          <Columns columns={columns} />
          <Views />
        </>
      }
    >
      <BulkProgress />
      <StatusTabs search={search} />
      {chosen.size > 0 && (
        <BulkBar
          chosen={chosen}
          rows={jobs.rows ?? []}
          filters={filters}
          hasMore={jobs.query.hasNextPage}
          onClear={() => setChosen(NONE)}
          onDone={() => void jobs.restart()}
        />
      )}
      <div className={styles.place}>
        {jobs.newCount !== null && (
          <button type="button" className={styles.pill} onClick={() => void jobs.restart()}>
            <ArrowUp size={14} aria-hidden />
            {jobs.newCount} new
          </button>
        )}
        <DataTable
          label="Jobs"
          rows={jobs.rows}
          rowKey={(job: ListedJob) => job.id}
          columns={shownOf(columns, hidden)}
          query={jobs.query}
          empty={<NoJobs search={search} action={newJob} onClear={() => void navigate({ search: ({ tenant }) => ({ tenant }) })} />}
          onOpen={(job) => open(job.id)}
          onEnter={(job) => void navigate({ to: "/jobs/$jobId", params: { jobId: job.id }, search: ({ tenant }) => ({ tenant }) })}
          onRetry={manages && chosen.size === 0 ? (job) => APPLIES_TO.retry.includes(job.status) && setRetried(job) : undefined}
          openKey={search.job}
          {...(manages && { chosen, onChoose: setChosen })}
        />
      </div>
      {search.job !== undefined && (
        <JobPanel
          key={search.job}
          jobId={search.job}
          tab={search.tab ?? "summary"}
          onTab={(tab) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })}
          onClose={() => open(undefined)}
          onGoTo={open}
        />
      )}
      {search.new !== undefined && (
        <NewJobDialog
          onClose={() => void navigate({ search: (before) => ({ ...before, new: undefined }), replace: true })}
          onCreated={(id) => open(id)}
        />
      )}
      {retried !== null &&
        (hasUndone(retried) ? (
          <ForkAnewDialog runId={retried.id} onClose={() => setRetried(null)} />
        ) : (
          <BulkDialog verb="retry" selection={{ ids: [retried.id] }} onClose={() => setRetried(null)} onDone={() => void jobs.restart()} />
        ))}
    </Page>
  );
}

function NoJobs({ search, action, onClear }: { search: JobsSearch; action: ReactNode; onClear: () => void }) {
  const filters = Object.keys(filtersOf(search));
  if (filters.length === 0 && search.order === undefined) {
    return (
      <EmptyState
        title="No jobs yet"
        command={`atlas enqueue EMAIL_SEND --tenant demo --input '{"to": "ann@example.com", "subject": "Hello", "text": "It works."}'`}
        action={action}
      >
        A job is one piece of work in the queue: a mail, a command, a run of a workflow. Enqueue the first one here, or with a command.
      </EmptyState>
    );
  }
  const what = search.status?.length === 1 ? `${search.status[0]?.replace("_", " ")} jobs` : "jobs";
  return (
    <EmptyState title={`No ${what} match these filters`} action={<Button onClick={onClear}>Clear filters</Button>}>
      Older jobs may have been removed by retention; the audit log still has what happened to them.
    </EmptyState>
  );
}
