import type { Column } from "@/components/DataTable";
import { EndKept, Id } from "@/components/Id";
import { StatusChip, statusColour } from "@/components/StatusChip";
import { Duration, Time } from "@/components/Time";
import { inLocalTime, partsInLocalTime } from "@/format/sentence";
import { cx, shortId } from "@/format/words";
import type { ListedJob, SentencePart } from "./jobs";
import styles from "./Jobs.module.css";

const MAX_DOTS = 8;

export interface ColumnOptions {
  reasons: ReadonlyMap<string, readonly SentencePart[]>;
  /** The tenants' slugs by id, where jobs of several are listed. */
  tenants: ReadonlyMap<string, string> | null;
}

/** The columns of the jobs table. */
export function jobColumns({ reasons, tenants }: ColumnOptions): Column<ListedJob>[] {
  const columns: (Column<ListedJob> | null)[] = [
    { key: "status", header: "Status", width: "112px", cell: (job) => <JobStatus job={job} /> },
    {
      key: "type",
      header: "Type",
      width: "minmax(144px, 1.6fr)",
      cell: (job) => (
        <span className="truncate" title={job.job_type}>
          {job.job_type}
        </span>
      ),
    },
    { key: "id", header: "Id", width: "128px", wideOnly: true, cell: (job) => <Id value={job.id} /> },
    tenants === null
      ? null
      : {
          key: "tenant",
          header: "Tenant",
          width: "minmax(84px, 0.5fr)",
          wideOnly: true,
          cell: (job) => <Tenant job={job} tenants={tenants} />,
        },
    {
      key: "progress",
      header: "Progress or reason",
      width: "minmax(144px, 2.4fr)",
      wideOnly: true,
      cell: (job) => <Happening job={job} reason={reasons.get(job.id)} />,
    },
    { key: "attempts", header: "Attempts", width: "76px", wideOnly: true, cell: (job) => <Attempts job={job} /> },
    { key: "source", header: "Source", width: "64px", wideOnly: true, cell: (job) => <span className="quiet">{job.source}</span> },
    { key: "queued", header: "Queued", width: "88px", align: "end", cell: (job) => <Time at={job.queued_at} /> },
    { key: "ran", header: "Ran", width: "76px", align: "end", wideOnly: true, cell: (job) => <RunTime job={job} /> },
    { key: "worker", header: "Worker", width: "minmax(76px, 0.6fr)", wideOnly: true, cell: (job) => <Worker job={job} /> },
  ];
  return columns.filter((one) => one !== null);
}

/** The status, and that it was asked to stop. */
export function JobStatus({ job }: { job: Pick<ListedJob, "status" | "cancel_requested_at"> }) {
  if (job.status === "running" && job.cancel_requested_at !== null) return <StatusChip status="running" label="stopping" />;
  return <StatusChip status={job.status} />;
}

function Tenant({ job, tenants }: { job: ListedJob; tenants: ReadonlyMap<string, string> }) {
  return <EndKept text={tenants.get(job.tenant_id) ?? shortId(job.tenant_id)} className="quiet" />;
}

/** What a job is at: how far it is, why it waits, or why it failed. */
function Happening({ job, reason }: { job: ListedJob; reason: readonly SentencePart[] | undefined }) {
  if (job.status === "running") return <Progress progress={job.progress} />;
  const failed = job.status === "failed" || job.status === "dead_letter" ? textOf(job.error["message"]) : undefined;
  if (failed === undefined && reason === undefined) return null;
  const words = failed === undefined ? partsInLocalTime(reason ?? []) : inLocalTime(failed);
  return (
    <span className={cx("truncate", failed !== undefined ? styles.error : "quiet")} title={words}>
      {words}
    </span>
  );
}

/** A bar with what the handler reported last; it breathes while nothing was reported. */
export function Progress({ progress }: { progress: Record<string, unknown> | null }) {
  const percent = typeof progress?.["percent"] === "number" ? Math.max(0, Math.min(100, progress["percent"])) : null;
  const message = textOf(progress?.["message"]);
  return (
    <span className={styles.progress} title={message}>
      {percent !== null && (
        <span
          className={styles.bar}
          role="progressbar"
          aria-label="Progress"
          aria-valuenow={Math.round(percent)}
          aria-valuemin={0}
          aria-valuemax={100}
        >
          <span className={styles.done} style={{ width: `${percent}%` }} />
        </span>
      )}
      {percent !== null && <span className={styles.percent}>{Math.round(percent)} %</span>}
      <span className="truncate quiet">{message}</span>
    </span>
  );
}

/** Attempts as dots, 3 of 4 filled; as a number where there are many. */
export function Attempts({ job }: { job: Pick<ListedJob, "attempt_count" | "max_retries" | "status" | "lost_count"> }) {
  const allowed = Math.max(job.max_retries + 1, job.attempt_count);
  const title = `${job.attempt_count} of at most ${job.max_retries + 1} attempts${job.lost_count > 0 ? `, ${job.lost_count} lost with their worker` : ""}`;
  if (allowed > MAX_DOTS) return <span title={title}>{`${job.attempt_count}/${job.max_retries + 1}`}</span>;
  return (
    <span className={styles.dots} role="img" aria-label={title} title={title}>
      {Array.from({ length: allowed }, (_, index) => (
        <span
          key={index}
          className={styles.dot}
          style={
            index < job.attempt_count
              ? { background: index === job.attempt_count - 1 ? statusColour(job.status) : "var(--failed)", borderColor: "transparent" }
              : undefined
          }
        />
      ))}
    </span>
  );
}

function RunTime({ job }: { job: ListedJob }) {
  if (job.started_at === null || (job.status !== "running" && job.finished_at === null)) return <span className="quiet">–</span>;
  return <Duration from={job.started_at} to={job.status === "running" ? null : job.finished_at} />;
}

function Worker({ job }: { job: ListedJob }) {
  if (job.claimed_by === null) return null;
  return <EndKept text={job.claimed_by} className="mono quiet" />;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
