import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Check, X } from "lucide-react";
import { useState, type ReactNode } from "react";
import { api, client, type Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { SidePanel } from "@/components/Dialog";
import { Field, Input } from "@/components/Form";
import { Id } from "@/components/Id";
import { JsonView } from "@/components/JsonView";
import { Fact, Facts } from "@/components/Page";
import { ProblemLine, ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { useToast } from "@/components/Toast";
import { MANAGERS, useCan, useSession } from "@/session/session";
import { useTenant } from "@/session/tenant";
import styles from "./Approvals.module.css";

type Approval = Schemas["Approval"];

/** One approval: exactly what is being approved, and the decision. */
export function ApprovalPanel({ approvalId, onClose }: { approvalId: string; onClose: () => void }) {
  const query = { tenant: useTenant() };
  const { data, error, refetch } = api.useQuery(
    "get",
    "/api/v1/approvals/{approval_id}",
    { params: { path: { approval_id: approvalId }, query } },
    { meta: { live: ["run"] } },
  );
  return (
    <SidePanel title={data?.title ?? "Approval"} about={data && <StatusChip status={data.status} />} onClose={onClose}>
      {data !== undefined ? (
        <Body approval={data} onDone={onClose} />
      ) : error !== null ? (
        <ProblemView error={error} onRetry={() => void refetch()} />
      ) : (
        <Skeleton height={200} />
      )}
    </SidePanel>
  );
}

function Body({ approval, onDone }: { approval: Approval; onDone: () => void }) {
  return (
    <div className={styles.body}>
      <Facts>
        <Fact name="Requested by">{approval.requested_by}</Fact>
        <Fact name="Asked">
          <Time at={approval.created_at} />
        </Fact>
        <Fact name={approval.kind === "intent" ? "Request" : `Run, at step ${approval.step ?? ""}`}>
          <Link to="/runs/$runId" params={{ runId: approval.run_id }} search={({ tenant }) => ({ tenant })}>
            <Id value={approval.run_id} />
          </Link>
        </Fact>
        <Fact name={approval.status === "pending" ? "Ends by itself" : "Decided"}>
          {approval.decided_at === null ? <Time at={approval.expires_at} /> : <Time at={approval.decided_at} />}
        </Fact>
        {approval.decided_by !== null && <Fact name="Decided by">{approval.decided_by}</Fact>}
        {approval.comment !== null && <Fact name="Comment">{approval.comment}</Fact>}
      </Facts>
      <Subject approval={approval} />
      {approval.status === "pending" && <Decision approval={approval} onDone={onDone} />}
    </div>
  );
}

/** The input that the decision is about, and what the workflow says beside it. */
function Subject({ approval }: { approval: Approval }) {
  const query = { tenant: useTenant() };
  const isIntent = approval.kind === "intent";
  const intent = api.useQuery(
    "get",
    "/api/v1/intents/{intent_id}",
    { params: { path: { intent_id: approval.run_id }, query } },
    { enabled: isIntent },
  );
  const run = api.useQuery(
    "get",
    "/api/v1/runs/{run_id}",
    { params: { path: { run_id: approval.run_id }, query } },
    { enabled: !isIntent },
  );
  const subject = isIntent ? intent.data : run.data;
  const error = isIntent ? intent.error : run.error;
  return (
    <>
      <h2>What is being approved</h2>
      {subject !== undefined && (
        <p>
          {isIntent ? "A run of" : "The next step of"} <strong>{subject.workflow}</strong> with this input:
        </p>
      )}
      {subject !== undefined ? (
        <JsonView label="input" value={subject.input} />
      ) : error !== null ? (
        <ProblemLine error={error} />
      ) : (
        <Skeleton height={80} />
      )}
      {Object.keys(approval.detail).length > 0 && (
        <>
          <h3>Detail</h3>
          <JsonView label="detail" value={approval.detail} />
        </>
      )}
      <p className="quiet">
        The decision is bound to this input by its SHA-256 <Id value={approval.input_hash} />
      </p>
    </>
  );
}

function Decision({ approval, onDone }: { approval: Approval; onDone: () => void }) {
  const { subject } = useSession();
  const may = useCan(MANAGERS);
  const tenant = useTenant();
  const queries = useQueryClient();
  const toast = useToast();
  const [comment, setComment] = useState("");
  const decide = useMutation({
    mutationFn: async (approve: boolean) => {
      const body = { approve, comment: comment.trim() === "" ? null : comment.trim(), input_hash: approval.input_hash };
      return (
        await client.POST("/api/v1/approvals/{approval_id}/decision", {
          params: { path: { approval_id: approval.id }, query: { tenant } },
          body,
        })
      ).data;
    },
    onSuccess: async (decided) => {
      toast(decided?.status === "approved" ? "Approved: the run goes on" : "Rejected");
      await queries.invalidateQueries();
      onDone();
    },
  });
  if (!may) return <Note>An operator or an administrator of the tenant decides.</Note>;
  if (approval.requested_by === subject) return <Note>You asked for this, so another person decides.</Note>;
  return (
    <div className={styles.decision}>
      <Field label="Comment" hint="The audit log keeps it beside your name.">
        {(control) => <Input {...control} value={comment} maxLength={2000} onChange={(event) => setComment(event.target.value)} />}
      </Field>
      <ProblemLine error={decide.error} />
      <div className={styles.buttons}>
        <Button kind="primary" icon={<Check size={14} aria-hidden />} busy={decide.isPending} onClick={() => decide.mutate(true)}>
          Approve
        </Button>
        <Button icon={<X size={14} aria-hidden />} busy={decide.isPending} onClick={() => decide.mutate(false)}>
          Reject
        </Button>
      </div>
    </div>
  );
}

function Note({ children }: { children: ReactNode }) {
  return <p className={styles.note}>{children}</p>;
}
