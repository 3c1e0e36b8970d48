import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Play } from "lucide-react";
import { api, client, type Schemas } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { Button } from "@/components/Button";
import { Command } from "@/components/EmptyState";
import { ProblemLine } from "@/components/ProblemView";
import { duration } from "@/format/time";
import { JOB_MAKERS, READERS, useCan, useSession } from "@/session/session";
import styles from "./FirstRun.module.css";
import { BRIEF, MARKS, useMailRoute, useNewest, useReason, useWhole } from "./guide";
import { AuditLink } from "./MailSteps";
import { Note, NotForRole, type StepView } from "./Step";
import type { Stage } from "./stages";

type Approval = Schemas["Approval"];
type Listed = Schemas["ListedJob"];

/** The third step: a workflow that waits for another person. */
export function useApprovalStep(tenant: string | undefined, mail: Listed | undefined): StepView {
  const reads = useCan(READERS);
  const { job } = useNewest(MARKS.approval, tenant, "ENGINE_RUN");
  const query = { run_id: job?.id, tenant, limit: 1 };
  const approval = api.useQuery(
    "get",
    "/api/v1/approvals",
    { params: { query } },
    { enabled: reads && job !== undefined, refetchInterval: 3000, meta: { live: ["run"] } },
  ).data?.items[0];
  return {
    title: "Run a workflow with an approval",
    stage: stageOf(job, approval),
    outcome: job !== undefined && approval !== undefined && <Outcome job={job} approval={approval} />,
    body: <Body tenant={tenant} job={job} approval={approval} mail={mail} />,
  };
}

function stageOf(job: Listed | undefined, approval: Approval | undefined): Stage {
  if (job === undefined) return "open";
  if (job.status === "succeeded" && approval?.decided_at != null) return "done";
  return ["failed", "dead_letter", "canceled"].includes(job.status) ? "off" : "working";
}

function Outcome({ job, approval }: { job: Listed; approval: Approval }) {
  const waited = Date.parse(approval.decided_at ?? approval.created_at) - Date.parse(approval.created_at);
  return (
    <>
      <RunLink id={job.id} /> waited {duration(Math.max(0, waited))} without holding a worker, {approval.decided_by} {approval.status} it,
      and it {approval.status === "approved" ? "continued and sent its mail" : "finished without a mail"}.{" "}
      <AuditLink id={approval.id}>The decision</AuditLink> is in the audit log.
    </>
  );
}

function RunLink({ id }: { id: string }) {
  return (
    <Link to="/runs/$runId" params={{ runId: id }}>
      The run
    </Link>
  );
}

function Body({
  tenant,
  job,
  approval,
  mail,
}: {
  tenant: string | undefined;
  job: Listed | undefined;
  approval: Approval | undefined;
  mail: Listed | undefined;
}) {
  const { role } = useSession();
  const makes = useCan(JOB_MAKERS);
  const stage = stageOf(job, approval);
  return (
    <>
      <p>
        The example <code>{BRIEF}</code> asks a person before it sends a mail. Who asks for a run may not decide about it: that takes
        someone else, with a token of their own.
      </p>
      {stage === "working" && job !== undefined && <Waiting job={job} approval={approval} tenant={tenant} />}
      {stage === "off" && job !== undefined && (
        <Note>
          <p>
            <RunLink id={job.id} /> {job.status === "canceled" ? "was canceled" : "failed"} before it finished. Start a new one.
          </p>
        </Note>
      )}
      {stage !== "working" &&
        (makes ? (
          <Start tenant={tenant} mail={mail} again={job !== undefined} />
        ) : (
          <NotForRole role={role} what="start workflows" roles={JOB_MAKERS} />
        ))}
    </>
  );
}

function Start({ tenant, mail, again }: { tenant: string | undefined; mail: Listed | undefined; again: boolean }) {
  const queries = useQueryClient();
  const { data } = api.useQuery("get", "/api/v1/workflows", { params: { query: { tenant, limit: MAX_LISTED } } }, { staleTime: 30_000 });
  const route = useMailRoute(tenant);
  const given = useWhole(mail?.id)?.payload["to"];
  const to = typeof given === "string" ? given : route?.is_local === true ? "you@example.com" : undefined;
  const start = useMutation({
    mutationFn: async () => {
      const input: Record<string, unknown> = { to, topic: "the first run", news: ["A second person has read this."] };
      const body = { workflow: BRIEF, input, correlation_id: MARKS.approval } as Schemas["NewIntentBody"];
      await client.POST("/api/v1/intents", { params: { query: { tenant } }, body });
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ["get", "/api/v1/jobs/brief"] }),
  });
  if (data !== undefined && !data.items.some((one) => one.key === BRIEF && one.is_enabled)) {
    return (
      <Note>
        <p>
          The example <code>{BRIEF}</code> is not published here: <code>atlas up</code> loads it, unless it was started with{" "}
          <code>--no-demo</code>. From a clone of Atlas:
        </p>
        <Command text={`atlas workflow save examples/workflows/${BRIEF}.json`} />
      </Note>
    );
  }
  if (to === undefined) return <p>Mails are really sent here. Do the first step before this one: this mail goes to the same address.</p>;
  return (
    <>
      <ProblemLine error={start.error} />
      <Button
        kind={again ? "plain" : "primary"}
        icon={<Play size={14} aria-hidden />}
        busy={start.isPending}
        onClick={() => start.mutate()}
      >
        {again ? "Start it again" : `Start ${BRIEF}`}
      </Button>
    </>
  );
}

/** The run waits: for a worker, or for a person. */
function Waiting({ job, approval, tenant }: { job: Listed; approval: Approval | undefined; tenant: string | undefined }) {
  const reads = useCan(READERS);
  const reason = useReason(job.id, approval?.status !== "pending");
  if (approval?.status !== "pending") {
    return (
      <p role="status">
        {approval === undefined
          ? (reason ?? "The run starts.")
          : `${approval.decided_by ?? "Someone"} has ${approval.status} it; the run continues.`}{" "}
        <RunLink id={job.id} />
        {!reads && ` asks for an approval, which your role may not read: ${job.id}.`}
      </p>
    );
  }
  const search = { open: approval.id, ...(tenant !== undefined && { tenant }) };
  return (
    <>
      <p role="status">
        <RunLink id={job.id} /> waits for an answer to “{approval.title}”, and holds no worker meanwhile.
      </p>
      {approval.may_decide ? (
        <p>
          You may decide it:{" "}
          <Link to="/approvals" search={search}>
            open the approval
          </Link>
          .
        </p>
      ) : (
        <div className={styles.ways}>
          <p>
            You requested it, so another person decides. In a terminal on the machine of Atlas you act under the name of your login there,
            which is another one:
          </p>
          <Command text={`atlas workflow approve ${job.id}`} />
          <p>Or make a token for a second person there, and let them sign in with it and open the approval:</p>
          <Command text={`atlas token add --subject second-person --role tenant_admin --tenant ${tenant ?? "<tenant>"}`} />
          <Command text={`${window.location.origin}/approvals?open=${approval.id}`} />
        </div>
      )}
    </>
  );
}
