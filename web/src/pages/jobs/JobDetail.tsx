import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api } from "@/api/client";
import { EmptyState } from "@/components/EmptyState";
import { Explanation } from "@/components/Explanation";
import { EndKept, Id } from "@/components/Id";
import { JsonView, TextView } from "@/components/JsonView";
import { Fact, Facts, Section } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Tabs } from "@/components/Tabs";
import { Duration, Moment, Time } from "@/components/Time";
import { exactMoney } from "@/format/numbers";
import { exactTime } from "@/format/time";
import { shortId, spaced } from "@/format/words";
import { JobEffects } from "@/pages/effects/JobEffects";
import { READERS, useCan } from "@/session/session";
import type { Attempt, FoundJob, Job } from "./detail";
import { Attempts, Progress, textOf } from "./JobColumns";
import { useTenantSlugs } from "@/session/tenantSlugs";
import styles from "./JobDetail.module.css";
import { LifeLine } from "./LifeLine";
import type { JobTab } from "./search";

interface JobDetailProps {
  found: FoundJob;
  tab: JobTab;
  onTab: (tab: JobTab) => void;
}

/** All about one job: why it is where it is, its life, and what went in and came out. */
export function JobDetail({ found: { jobId, job, attempts, reason }, tab, onTab }: JobDetailProps) {
  const audits = useCan(READERS);
  if (job.isError && job.data === undefined) return <ProblemView error={job.error} onRetry={() => void job.refetch()} />;
  const one = job.data;
  if (one === undefined) return <Loading />;
  const tabs = [
    { key: "summary" as const, label: "Summary", content: () => <Summary job={one} /> },
    { key: "input" as const, label: "Input", content: () => <Document value={one.payload} label="input" empty="The job has no input." /> },
    { key: "output" as const, label: "Output", content: () => <Output job={one} /> },
    { key: "attempts" as const, label: "Attempts and logs", count: attempts.length, content: () => <AttemptList attempts={attempts} /> },
    { key: "audit" as const, label: "Audit", content: () => <AuditRows jobId={jobId} /> },
  ].filter((each) => each.key !== "audit" || audits);
  return (
    <div className={styles.detail}>
      <Explanation found={reason} />
      {one.status === "running" && one.progress !== null && <Progress progress={one.progress} />}
      <LifeLine job={one} attempts={attempts} />
      {audits && <JobEffects jobId={jobId} />}
      <Tabs label="About the job" value={tab} onChange={onTab} tabs={tabs} />
    </div>
  );
}

function Summary({ job }: { job: Job }) {
  const tenants = useTenantSlugs([job.tenant_id]);
  const message = textOf(job.error["message"]);
  return (
    <div className={styles.detail}>
      {message !== undefined && (
        <Section title={textOf(job.error["type"]) ?? "Error"}>
          <TextView text={message} label="Error" />
        </Section>
      )}
      <Facts>
        <Fact name="Type">{job.job_type}</Fact>
        <Fact name="Attempts">
          <Attempts job={job} />
        </Fact>
        <Fact name="Priority">{job.priority}</Fact>
        <Fact name="Queued">
          <Time at={job.queued_at} />
        </Fact>
        <OptionalTime name="Scheduled for" at={job.scheduled_for} />
        <OptionalTime name={job.retry_count > 0 ? "Next retry" : "Due"} at={job.next_retry_at} />
        <OptionalTime name="Started" at={job.started_at} />
        <OptionalTime name="Finished" at={job.finished_at} />
        {job.started_at !== null && (job.status === "running" || job.finished_at !== null) && (
          <Fact name={job.status === "running" ? "Runs for" : "Ran for"}>
            <Duration from={job.started_at} to={job.status === "running" ? null : job.finished_at} />
          </Fact>
        )}
        <OptionalTime name="Cancel requested" at={job.cancel_requested_at} />
        <Optional name="Cancel requested by" value={job.cancel_requested_by} />
        {job.claimed_by !== null && (
          <Fact name="Worker">
            <Link to="/jobs" search={(before) => ({ tenant: before.tenant, worker_id: job.claimed_by ?? undefined })} className="mono">
              {job.claimed_by}
            </Link>
          </Fact>
        )}
        <Fact name="Source">
          {job.source}
          {job.source_ref !== null && <> · {isId(job.source_ref) ? <Id value={job.source_ref} /> : job.source_ref}</>}
        </Fact>
        <Optional name="Created by" value={job.created_by} />
        {job.correlation_id !== null && (
          <Fact name="Correlation">
            <Link to="/jobs" search={(before) => ({ tenant: before.tenant, correlation_id: job.correlation_id ?? undefined })}>
              {job.correlation_id}
            </Link>
          </Fact>
        )}
        {job.parent_run_id !== null && (
          <Fact name="Started by run">
            <Link to="/runs/$runId" params={{ runId: job.parent_run_id }} search={({ tenant }) => ({ tenant })} className="mono">
              {shortId(job.parent_run_id)}
            </Link>
          </Fact>
        )}
        {job.job_type === "ENGINE_RUN" && (
          <Fact name="Workflow run">
            <Link to="/runs/$runId" params={{ runId: job.id }} search={({ tenant }) => ({ tenant })}>
              Open the run
            </Link>
          </Fact>
        )}
        <Optional name="Dedupe key" value={job.dedupe_key} />
        <Optional name="Timeout" value={job.timeout_seconds === null ? null : `${job.timeout_seconds} s`} />
        <OptionalId name="Host" value={job.host_id} />
        <OptionalId name="Server" value={job.server_instance_id} />
        <Fact name="Tenant">
          {tenants?.get(job.tenant_id)} <Id value={job.tenant_id} />
        </Fact>
        {job.cost_cents > 0 && <Fact name="Cost">{exactMoney(job.cost_cents)}</Fact>}
      </Facts>
    </div>
  );
}

function Optional({ name, value }: { name: string; value: string | null }) {
  return value === null ? null : <Fact name={name}>{value}</Fact>;
}

function OptionalId({ name, value }: { name: string; value: string | null }) {
  return value === null ? null : (
    <Fact name={name}>
      <Id value={value} />
    </Fact>
  );
}

function OptionalTime({ name, at }: { name: string; at: string | null }) {
  return at === null ? null : (
    <Fact name={name}>
      <Time at={at} />
    </Fact>
  );
}

function isId(text: string): boolean {
  return /^[0-9a-f-]{36}$/.test(text);
}

function Document({ value, label, empty }: { value: unknown; label: string; empty: string }) {
  return JSON.stringify(value) === "{}" ? <p className="quiet">{empty}</p> : <JsonView value={value} label={label} />;
}

function Output({ job }: { job: Job }) {
  if (Object.keys(job.error).length > 0 && job.status !== "succeeded") {
    return (
      <Section title="Error">
        <JsonView value={job.error} label="error" />
      </Section>
    );
  }
  return (
    <Document
      value={job.output}
      label="output"
      empty={job.status === "succeeded" ? "The job has no output." : "The job has not finished."}
    />
  );
}

function AttemptList({ attempts }: { attempts: readonly Attempt[] }) {
  if (attempts.length === 0)
    return <EmptyState title="Not started yet">Each attempt is shown here with its worker, its error and its log.</EmptyState>;
  return (
    <ol className={styles.attempts}>
      {[...attempts].reverse().map((attempt) => (
        <li key={attempt.attempt_no}>
          <AttemptView attempt={attempt} />
        </li>
      ))}
    </ol>
  );
}

function AttemptView({ attempt }: { attempt: Attempt }) {
  const parts: [string, string | null][] = [
    ["Error", attempt.error_text],
    ["Log", attempt.log_tail],
    ["Standard output", attempt.stdout_tail],
    ["Standard error", attempt.stderr_tail],
  ];
  return (
    <section className={styles.attempt} aria-label={`Attempt ${attempt.attempt_no}`}>
      <header className={styles.about}>
        <h3>Attempt {attempt.attempt_no}</h3>
        <StatusChip status={attempt.status} />
        {attempt.outcome !== null && <span className="quiet">{spaced(attempt.outcome)}</span>}
        {attempt.started_at !== null && <Time at={attempt.started_at} className="quiet" />}
        {attempt.started_at !== null && (attempt.finished_at !== null || attempt.status === "running") && (
          <Duration from={attempt.started_at} to={attempt.finished_at} />
        )}
        {attempt.exit_code !== null && <span className="quiet">exit {attempt.exit_code}</span>}
        {attempt.worker_id !== null && <EndKept text={attempt.worker_id} className="mono quiet" />}
      </header>
      {parts.map(([label, text]) =>
        text === null || text === "" ? null : <Part key={label} label={label} text={text} attempt={attempt.attempt_no} />,
      )}
    </section>
  );
}

function Part({ label, text, attempt }: { label: string; text: string; attempt: number }) {
  return (
    <details open>
      <summary className={styles.part}>{label}</summary>
      <TextView text={text} label={`${label} of attempt ${attempt}`} timed />
    </details>
  );
}

function AuditRows({ jobId }: { jobId: string }) {
  const rows = api.useQuery("get", "/api/v1/audit", { params: { query: { entity_id: jobId, limit: 100 } } });
  if (rows.isError) return <ProblemView error={rows.error} onRetry={() => void rows.refetch()} />;
  if (rows.data === undefined) return <Loading />;
  return (
    <ol className={styles.audit}>
      {rows.data.items.map((row) => (
        <li key={row.id} className={styles.row}>
          <Moment at={row.created_at} className="mono quiet">
            {exactTime(new Date(row.created_at))}
          </Moment>
          <span className="mono">{row.action}</span>
          <EndKept text={row.actor_id} className="quiet" />
          <span className="truncate">{[row.message, textOf(row.meta["reason"])].filter(Boolean).join(" ")}</span>
          <Link to="/audit" search={(before) => ({ tenant: before.tenant, entity_id: jobId })}>
            #{row.id}
          </Link>
        </li>
      ))}
    </ol>
  );
}

function Loading(): ReactNode {
  return (
    <div className={styles.detail} role="status" aria-label="Loading the job">
      <Skeleton width="70%" />
      <Skeleton width="100%" />
      <Skeleton width="45%" />
    </div>
  );
}
