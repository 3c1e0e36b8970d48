import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Play, Square } from "lucide-react";
import { api, client, type Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { Command } from "@/components/EmptyState";
import { ProblemLine } from "@/components/ProblemView";
import { useNow } from "@/components/Time";
import { LifeLine } from "@/pages/jobs/LifeLine";
import { JOB_MAKERS, MANAGERS, OPERATORS, useCan, useSeesAll, useSession } from "@/session/session";
import styles from "./FirstRun.module.css";
import { LONG_JOB, MARKS, useEnqueue, useHasLongJob, useNewest, useReason } from "./guide";
import { AuditLink, JobLink } from "./MailSteps";
import { leaseStage, processOf, successorOf } from "./stages";
import { Note, NotForRole, type StepView } from "./Step";

type Listed = Schemas["ListedJob"];
type Attempt = Schemas["Attempt"];

/** Long enough to read the page, to copy the command and to run it. */
const SECONDS = 120;
const LOOK_MS = 1000;

/** The fourth step: a worker is killed, and its job moves to another. */
export function useLeaseStep(tenant: string | undefined): StepView {
  const { job } = useNewest(MARKS.lease, tenant, LONG_JOB);
  const found = leaseStage(job);
  const active = job !== undefined && job.finished_at === null;
  const attempts =
    api.useQuery(
      "get",
      "/api/v1/jobs/{job_id}/attempts",
      { params: { path: { job_id: job?.id ?? "" } } },
      { enabled: job !== undefined, refetchInterval: active ? LOOK_MS : false },
    ).data?.items ?? [];
  return {
    title: "Kill a worker, and watch the lease move",
    stage: found.stage,
    outcome: job !== undefined && <Moved job={job} attempts={attempts} />,
    body: <Body tenant={tenant} job={job} attempts={attempts} />,
  };
}

function Moved({ job, attempts }: { job: Listed; attempts: readonly Attempt[] }) {
  const lost = attempts.find((one) => one.status === "lost");
  const next = attempts.find((one) => lost !== undefined && one.attempt_no > lost.attempt_no);
  const [before, after] = [processOf(lost?.worker_id), processOf(next?.worker_id)];
  return (
    <>
      Process {before?.pid ?? "one"} was lost with attempt {lost?.attempt_no ?? 1} of <JobLink job={job}>the job</JobLink>; its lease ended,
      and process {after?.pid ?? "another"}
      {after !== null && ` on ${after.host}`} took it as attempt {next?.attempt_no ?? 2}. <AuditLink id={job.id}>The audit rows</AuditLink>{" "}
      have both.
    </>
  );
}

function Body({ tenant, job, attempts }: { tenant: string | undefined; job: Listed | undefined; attempts: readonly Attempt[] }) {
  const { role } = useSession();
  const makes = useCan(JOB_MAKERS);
  const found = leaseStage(job);
  const begins = found.stage === "open" || found.stage === "off";
  return (
    <>
      <p>
        A job belongs to its worker as long as the worker renews its lease. A worker that is killed renews nothing: the lease expires, and
        the job goes to another worker. No one has to act.
      </p>
      {job !== undefined && attempts.length > 0 && <LifeLine job={job} attempts={attempts} />}
      {found.stage === "working" && job !== undefined && <Going job={job} at={found.at} />}
      {found.stage === "off" && <Note>{WHYS[found.why]}</Note>}
      {begins &&
        (makes ? <Begin tenant={tenant} again={job !== undefined} /> : <NotForRole role={role} what="enqueue jobs" roles={JOB_MAKERS} />)}
      {found.stage === "done" && job?.status === "running" && <Stop job={job} tenant={tenant} />}
    </>
  );
}

const WHYS = {
  ended: "The job finished before its worker was killed. Start it again; it runs for two minutes.",
  returned:
    "The worker stopped in good order and returned the job: no lease expired. That is what a deploy does. A crash is kill -9; start the job again for it.",
  stopped: "The job was stopped before its worker was killed. Start it again.",
};

function Begin({ tenant, again }: { tenant: string | undefined; again: boolean }) {
  const enqueue = useEnqueue(tenant);
  const known = useHasLongJob();
  if (known === false) {
    return (
      <Note>
        <p>
          The example <code>{LONG_JOB}</code> is not there: <code>atlas up</code> loads it, unless it was started with{" "}
          <code>--no-demo</code>. From a clone of Atlas:
        </p>
        <Command text={`atlas definition add examples/definitions/${LONG_JOB}.json`} />
      </Note>
    );
  }
  return (
    <>
      <ProblemLine error={enqueue.error} />
      <Button
        kind={again ? "plain" : "primary"}
        icon={<Play size={14} aria-hidden />}
        busy={enqueue.isPending}
        onClick={() => enqueue.mutate({ definition_key: LONG_JOB, correlation_id: MARKS.lease, payload: { seconds: SECONDS } })}
      >
        {again ? "Start it again" : "Start a job of two minutes"}
      </Button>
    </>
  );
}

function Going({ job, at }: { job: Listed; at: "waits" | "runs" | "lost" }) {
  const reason = useReason(job.id, at !== "runs");
  if (at === "runs") return <Kill job={job} />;
  return (
    <p role="status">
      {at === "lost" ? "The lease has expired: the job was lost with its worker and is queued again." : ""}{" "}
      {reason ?? "The job waits for a worker."}
    </p>
  );
}

/** Which process to kill, and what becomes of its lease. */
function Kill({ job }: { job: Listed }) {
  const process = processOf(job.claimed_by);
  const seesAll = useSeesAll();
  const worker = api.useQuery(
    "get",
    "/api/v1/workers/{worker_id}",
    { params: { path: { worker_id: job.claimed_by ?? "" } } },
    { enabled: seesAll && job.claimed_by !== null, refetchInterval: LOOK_MS },
  ).data;
  const programs = api.useQuery("get", "/api/v1/system/status", {}, { enabled: useCan(OPERATORS), refetchInterval: LOOK_MS }).data
    ?.programs;
  if (process === null) {
    return (
      <Note>
        <p>
          The worker {job.claimed_by ?? "of this job"} fetches its jobs from elsewhere and does not say which process it is. End it on its
          machine as hard as you can, or skip this step.
        </p>
      </Note>
    );
  }
  const ours = programs?.some((one) => one.pid === process.pid) === true;
  const successor = ours ? undefined : successorOf(job, programs ?? []);
  if (successor !== undefined) {
    return (
      <div className={styles.ways}>
        <p>
          Process {process.pid} is gone, and <code>atlas up</code> has started process {successor} in its place.{" "}
          <JobLink job={job}>The job</JobLink> still belongs to the old lease.
        </p>
        {worker !== undefined && <Lease worker={worker} gone />}
      </div>
    );
  }
  return (
    <div className={styles.ways}>
      <p>
        Process {process.pid} on <strong>{process.host}</strong> runs <JobLink job={job}>the job</JobLink>. Kill it there, in a terminal:
      </p>
      <Command text={`kill -9 ${process.pid}`} />
      <p className={styles.quiet}>
        {ours ? (
          <>
            It is a worker of the <code>atlas up</code> that serves this page, which starts a new worker within a second.
          </>
        ) : (
          "It was not started by the API's own machine. In a container or under systemd its supervisor starts a new worker, and any other worker that serves commands takes the job, too. If you cannot reach that machine, skip this step."
        )}
      </p>
      {worker !== undefined && <Lease worker={worker} />}
    </div>
  );
}

const HEARTBEAT_LATE_MS = 15_000;

function Lease({ worker, gone = false }: { worker: Schemas["WorkerDetails"]; gone?: boolean }) {
  const now = useNow();
  const left = Date.parse(worker.lease_expires_at) - now;
  const silent = now - Date.parse(worker.last_seen_at);
  return (
    <p role="status" className={styles.lease}>
      {left <= 0
        ? "Its lease has expired. The next sweep, within ten seconds, returns the job."
        : gone || silent > HEARTBEAT_LATE_MS
          ? `No heartbeat for ${seconds(silent)}. The lease expires in ${seconds(left)}.`
          : `It renews its lease; without that, it would expire in ${seconds(left)}.`}
    </p>
  );
}

/** Whole seconds: a clock that ticks shows no parts of them. */
function seconds(ms: number): string {
  return `${Math.max(0, Math.ceil(ms / 1000))} s`;
}

/** The job has shown what it should; it need not run on. */
function Stop({ job, tenant }: { job: Listed; tenant: string | undefined }) {
  const queries = useQueryClient();
  const cancel = useMutation({
    mutationFn: async () =>
      (await client.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id: job.id }, query: { tenant } } })).data,
    onSuccess: () => queries.invalidateQueries({ queryKey: ["get", "/api/v1/jobs/brief"] }),
  });
  const manages = useCan(MANAGERS);
  if (!manages || job.cancel_requested_at !== null) return null;
  return (
    <>
      <p>The second attempt runs now. It counts to the end, or you stop it here.</p>
      <ProblemLine error={cancel.error} />
      <Button icon={<Square size={14} aria-hidden />} busy={cancel.isPending} onClick={() => cancel.mutate()}>
        Cancel the job
      </Button>
    </>
  );
}
