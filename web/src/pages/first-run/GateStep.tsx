import { Link } from "@tanstack/react-router";
import { Play, Power } from "lucide-react";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { ProblemLine } from "@/components/ProblemView";
import { duration } from "@/format/time";
import { GateDialog, useGate } from "@/gate/gate";
import { OPERATORS, useCan, useSession } from "@/session/session";
import styles from "./FirstRun.module.css";
import { LONG_JOB, MARKS, useEnqueue, useHasLongJob, useNewest, useReason } from "./guide";
import { JobLink } from "./MailSteps";
import { gateProof, SWITCHES } from "./stages";
import { Note, NotForRole, type StepView } from "./Step";

type Listed = Schemas["ListedJob"];

const ENDED = ["succeeded", "failed", "dead_letter", "canceled"];

/** The fifth step: Atlas off, a job that waits, and Atlas on again. */
export function useGateStep(tenant: string | undefined): StepView {
  const operates = useCan(OPERATORS);
  const { data: gate } = useGate();
  const { job } = useNewest(MARKS.gate, tenant, LONG_JOB);
  const switches =
    api.useQuery(
      "get",
      "/api/v1/audit",
      { params: { query: { action: Object.values(SWITCHES), limit: 50 } } },
      { enabled: operates, refetchInterval: 3000, meta: { live: ["atlas"] } },
    ).data?.items ?? [];
  const proof = gateProof(job, switches);
  const done = proof !== null && gate?.online === true && job?.finished_at != null;
  return {
    title: "Switch Atlas off and on",
    stage: done ? "done" : gate?.online === false || (job !== undefined && !ENDED.includes(job.status)) ? "working" : "open",
    outcome: job !== undefined && proof !== null && (
      <>
        <JobLink job={job}>The job</JobLink> came while Atlas was off, waited{" "}
        {duration(Date.parse(job.started_at ?? "") - Date.parse(job.queued_at))}, and started when {proof.online.actor_id} brought it back.{" "}
        <Link to="/audit" search={{ action: Object.values(SWITCHES) }}>
          The audit log
        </Link>{" "}
        has both switches.
      </>
    ),
    body: <Body tenant={tenant} job={job} isProved={proof !== null} />,
  };
}

function Body({ tenant, job, isProved }: { tenant: string | undefined; job: Listed | undefined; isProved: boolean }) {
  const { role } = useSession();
  const operates = useCan(OPERATORS);
  const { data: gate } = useGate();
  if (!operates) return <NotForRole role={role} what="switch Atlas" roles={OPERATORS} />;
  if (gate === undefined) return null;
  const waiting = job !== undefined && !ENDED.includes(job.status);
  return (
    <>
      <p>
        One switch stops every start, in all workers and for all tenants. Running jobs finish, and enqueued jobs wait. On an installation
        that others use, tell them first.
      </p>
      <ol className={styles.parts}>
        <li aria-current={gate.online && !waiting ? "step" : undefined}>
          {gate.online ? "Take Atlas offline." : "Atlas is offline."} {gate.online && <Switch online={false} />}
        </li>
        <li aria-current={!gate.online && !waiting ? "step" : undefined}>
          Enqueue a job, which waits. {!gate.online && !waiting && <Enqueue tenant={tenant} />}
          {waiting && <Waits job={job} />}
        </li>
        <li aria-current={!gate.online && waiting ? "step" : undefined}>
          Bring Atlas online: the job starts. {!gate.online && <Switch online />}
        </li>
      </ol>
      {gate.online && job !== undefined && !waiting && !isProved && (
        <Note>The last job did not wait for the switch: it was enqueued while Atlas was online. Begin with the first line.</Note>
      )}
    </>
  );
}

function Switch({ online }: { online: boolean }) {
  const [asked, setAsked] = useState(false);
  return (
    <>
      <Button icon={<Power size={14} aria-hidden />} onClick={() => setAsked(true)}>
        {online ? "Bring online" : "Take offline"}
      </Button>
      {asked && <GateDialog online={online} onClose={() => setAsked(false)} />}
    </>
  );
}

function Enqueue({ tenant }: { tenant: string | undefined }) {
  const enqueue = useEnqueue(tenant);
  const known = useHasLongJob();
  if (known === false)
    return <span className={styles.quiet}>The example {LONG_JOB} is not there; the step before says how it gets there.</span>;
  return (
    <>
      <Button
        icon={<Play size={14} aria-hidden />}
        busy={enqueue.isPending}
        onClick={() => enqueue.mutate({ definition_key: LONG_JOB, correlation_id: MARKS.gate, payload: { seconds: 1 } })}
      >
        Enqueue a job
      </Button>
      <ProblemLine error={enqueue.error} />
    </>
  );
}

function Waits({ job }: { job: Listed }) {
  const reason = useReason(job.id, true);
  return (
    <span role="status">
      <JobLink job={job}>It is there</JobLink>: {reason ?? job.status}
    </span>
  );
}
