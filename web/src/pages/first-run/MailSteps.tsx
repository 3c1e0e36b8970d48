import { Link } from "@tanstack/react-router";
import { Send } from "lucide-react";
import { useState, type ReactNode, type SyntheticEvent } from "react";
import { api, type Schemas } from "@/api/client";
import { isStatus } from "@/api/problem";
import { Button } from "@/components/Button";
import { Command } from "@/components/EmptyState";
import { TextField } from "@/components/Form";
import { ProblemLine } from "@/components/ProblemView";
import { duration } from "@/format/time";
import { JOB_MAKERS, READERS, useCan, useSession } from "@/session/session";
import styles from "./FirstRun.module.css";
import { MARKS, useEnqueue, useMailRoute, useNewest, useReason, useWhole } from "./guide";
import { mailStage, processOf } from "./stages";
import { Note, NotForRole, type StepView } from "./Step";

const MAIL = "EMAIL_SEND";
type Listed = Schemas["ListedJob"];

/** The first step: a mail, from the enqueue to its end. */
export function useMailStep(tenant: string | undefined): StepView & { job: Listed | undefined } {
  const { job } = useNewest(MARKS.mail, tenant, MAIL);
  const stage = mailStage(job);
  return {
    title: "Enqueue a mail",
    stage,
    job,
    outcome: job !== undefined && <Ran job={job} />,
    body: <MailBody tenant={tenant} job={job} />,
  };
}

function MailBody({ tenant, job }: { tenant: string | undefined; job: Listed | undefined }) {
  const { role } = useSession();
  const makes = useCan(JOB_MAKERS);
  const stage = mailStage(job);
  const reason = useReason(job?.id, stage === "working");
  return (
    <>
      <p>
        A job is a row in Postgres. An enqueue that has returned is committed; a worker claims the job immediately, and every change of it
        has a row in the audit log.
      </p>
      {stage === "working" && <p role="status">{reason ?? "The job is queued."}</p>}
      {stage === "off" && job !== undefined && (
        <Note>
          <p>
            <JobLink job={job}>The job</JobLink> did not succeed: {messageOf(job)}
          </p>
        </Note>
      )}
      {makes ? <MailForm tenant={tenant} again={job !== undefined} /> : <NotForRole role={role} what="enqueue jobs" roles={JOB_MAKERS} />}
    </>
  );
}

function MailForm({ tenant, again }: { tenant: string | undefined; again: boolean }) {
  const route = useMailRoute(tenant);
  const enqueue = useEnqueue(tenant);
  const [typed, setTyped] = useState<string>();
  if (route === undefined) return null;
  const refuses = route.providers.includes("none");
  const to = typed ?? (route.is_local ? "you@example.com" : "");
  const send = (event: SyntheticEvent): void => {
    event.preventDefault();
    enqueue.mutate({
      job_type: MAIL,
      correlation_id: MARKS.mail,
      payload: { to: to.trim(), subject: "Hello from Atlas", text: "This mail was sent by the guided first run." },
    });
  };
  if (refuses) {
    return (
      <Note>
        <p>
          No mail provider is set up here, so mails are refused. Write them to files for a start: set this where Atlas runs, and start it
          again.
        </p>
        <Command text="OUTBOUND_EMAIL_PROVIDER=outbox" />
      </Note>
    );
  }
  return (
    <form className={styles.form} onSubmit={send}>
      {!route.is_local && (
        <Note>
          <p>
            Mails of this tenant are really sent, by {route.providers.join(", then ")}. Name an address of your own. Nothing is sent before
            you press the button.
          </p>
        </Note>
      )}
      <TextField
        label="To"
        hint={route.is_local ? "Mails become files in the outbox of this machine; nothing is sent." : undefined}
        type="email"
        required
        value={to}
        onChange={setTyped}
      />
      <ProblemLine error={enqueue.error} />
      <Button
        type="submit"
        kind={again ? "plain" : "primary"}
        icon={<Send size={14} aria-hidden />}
        busy={enqueue.isPending}
        disabled={to.trim() === ""}
      >
        {again ? "Enqueue another mail" : "Enqueue a mail"}
      </Button>
    </form>
  );
}

/** Where a job ran and how long it took. */
function Ran({ job }: { job: Listed }) {
  const started = Date.parse(job.started_at ?? job.queued_at);
  const waited = Math.max(0, started - Date.parse(job.queued_at));
  const ran = Math.max(0, Date.parse(job.finished_at ?? job.queued_at) - started);
  const worker = processOf(job.claimed_by);
  return (
    <>
      <JobLink job={job}>The job</JobLink> waited {duration(waited)}, ran {duration(ran)}
      {worker !== null && ` in process ${worker.pid} on ${worker.host}`} and succeeded. <AuditLink id={job.id}>Its audit rows</AuditLink>{" "}
      say the same.
    </>
  );
}

/** The second step: the mail as a file, or where it went instead. */
export function useOutboxStep(job: Listed | undefined): StepView {
  const reads = useCan(READERS);
  const sent = job?.status === "succeeded";
  const whole = useWhole(sent ? job.id : undefined);
  const mail = api.useQuery(
    "get",
    "/api/v1/outbox/{job_id}",
    { params: { path: { job_id: job?.id ?? "" } } },
    { enabled: reads && sent, refetchInterval: (query) => (query.state.data === undefined ? 3000 : false) },
  );
  const output = whole?.output as { provider?: unknown } | null | undefined;
  const provider = output?.provider;
  const elsewhere = typeof provider === "string" && provider !== "outbox" ? provider : undefined;
  const to = whole?.payload["to"];
  const done = mail.data !== undefined || elsewhere !== undefined;
  return {
    title: "See it in the outbox",
    stage: done ? "done" : sent && reads ? (isStatus(mail.error, 404) ? "off" : "working") : "open",
    outcome:
      mail.data !== undefined ? (
        <>
          “{mail.data.subject}” to {mail.data.to} is a file of {mail.data.size} bytes, which any mail program opens:{" "}
          <Link to="/outbox" search={{ mail: mail.data.job_id }}>
            look at it in the outbox
          </Link>
          .
        </>
      ) : (
        `It was really sent, by ${elsewhere ?? ""}: look into the mailbox of ${typeof to === "string" ? to : "its recipient"}. The outbox has only mails that are not sent.`
      ),
    body: <OutboxBody job={job} missing={isStatus(mail.error, 404) && elsewhere === undefined} />,
  };
}

function OutboxBody({ job, missing }: { job: Listed | undefined; missing: boolean }) {
  const { role } = useSession();
  const reads = useCan(READERS);
  if (!reads) return <NotForRole role={role} what="read mails" roles={READERS} />;
  return (
    <>
      <p>
        Without further settings a mail becomes a file in the outbox. Microsoft Graph, Resend or SMTP take its place when they are set up.
      </p>
      {job === undefined && <p>Enqueue the mail of the step before first.</p>}
      {missing && job !== undefined && (
        <Note>
          <p>This API finds no file: the worker {processOf(job.claimed_by)?.host ?? ""} keeps its outbox on its own machine. Look there:</p>
          <Command text={`atlas outbox show ${job.id}`} />
        </Note>
      )}
    </>
  );
}

export function JobLink({ job, children }: { job: Pick<Listed, "id">; children: ReactNode }) {
  return (
    <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
      {children}
    </Link>
  );
}

export function AuditLink({ id, children }: { id: string; children: ReactNode }) {
  const reads = useCan(READERS);
  if (!reads) return <>{children}</>;
  return (
    <Link to="/audit" search={{ entity_id: id }}>
      {children}
    </Link>
  );
}

function messageOf(job: Listed): string {
  const message = job.error["message"];
  return typeof message === "string" ? message : `it is ${job.status}.`;
}
