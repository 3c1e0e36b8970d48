import { Check, X } from "lucide-react";
import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { ChangeDialog } from "@/components/Dialog";
import { TextField } from "@/components/Form";
import { JsonView } from "@/components/JsonView";
import { Fact, Facts } from "@/components/Page";
import { Time } from "@/components/Time";
import { isSame } from "@/format/json";
import { exactMoney } from "@/format/numbers";
import { MANAGERS, useCan, useSession } from "@/session/session";
import { useChange } from "@/components/useChange";
import { useTenant } from "@/session/tenant";
import styles from "./Approvals.module.css";

export type Approval = Schemas["Approval"];

/** One approval, by its id. */
export function useApproval(approvalId: string) {
  const params = { path: { approval_id: approvalId }, query: { tenant: useTenant() } };
  return api.useQuery("get", "/api/v1/approvals/{approval_id}", { params }, { meta: { live: ["run"] } });
}

/** The two buttons that decide, or why the signed-in person may not. */
export function DecisionButtons({ approval, onDone }: { approval: Approval; onDone?: () => void }) {
  const { subject } = useSession();
  const manages = useCan(MANAGERS);
  const [asked, setAsked] = useState<boolean | null>(null);
  if (!manages) return <p className={styles.note}>An operator or an administrator of the tenant decides.</p>;
  if (approval.requested_by === subject) return <p className={styles.note}>You requested this, so another person decides.</p>;
  return (
    <div className={styles.buttons}>
      <Button kind="primary" icon={<Check size={14} aria-hidden />} onClick={() => setAsked(true)}>
        Approve
      </Button>
      <Button icon={<X size={14} aria-hidden />} onClick={() => setAsked(false)}>
        Reject
      </Button>
      {asked !== null && <DecisionDialog approval={approval} approve={asked} onClose={() => setAsked(null)} onDone={onDone} />}
    </div>
  );
}

/** The same for an approval of which the id is known. */
export function DecisionOf({ approvalId }: { approvalId: string }) {
  const { data } = useApproval(approvalId);
  return data?.status === "pending" ? <DecisionButtons approval={data} /> : null;
}

interface DecisionDialogProps {
  approval: Approval;
  approve: boolean;
  onClose: () => void;
  onDone?: (() => void) | undefined;
}

/** Shows for whom and for what the decision is, exactly, and asks once more. */
function DecisionDialog({ approval, approve, onClose, onDone }: DecisionDialogProps) {
  const tenant = useTenant();
  const [comment, setComment] = useState("");
  const decide = useChange(
    async () => {
      const body = { approve, comment: comment.trim() === "" ? null : comment.trim(), input_hash: approval.input_hash };
      const params = { path: { approval_id: approval.id }, query: { tenant } };
      return (await client.POST("/api/v1/approvals/{approval_id}/decision", { params, body })).data;
    },
    {
      done: (_, decided) => (decided?.status === "approved" ? "Approved: the run continues" : "Rejected"),
      onDone: () => {
        onClose();
        onDone?.();
      },
    },
  );
  const verb = approve ? "Approve" : "Reject";
  return (
    <ChangeDialog
      onClose={onClose}
      title={`${verb}: ${approval.title}`}
      description={
        approve ? "Check the input before you approve. This cannot be undone." : "The run receives the rejection. This cannot be undone."
      }
      action={`${verb} it`}
      danger={!approve}
      change={decide}
    >
      <Facts>
        <Fact name="Tenant">{approval.tenant ?? approval.tenant_id}</Fact>
        <Fact name="Workflow">{approval.workflow ?? "deleted"}</Fact>
        <Fact name="Version">{approval.version === 0 || approval.version === null ? "in code" : `v${approval.version}`}</Fact>
        <Fact name="Requested by">{approval.requested_by}</Fact>
        <Fact name="May spend">{exactMoney(approval.spend_cents ?? 0)}</Fact>
        <Fact name="Expires">
          <Time at={approval.expires_at} />
        </Fact>
      </Facts>
      <Content approval={approval} />
      <TextField label="Comment" hint="Recorded in the audit log with your name." value={comment} maxLength={2000} onChange={setComment} />
    </ChangeDialog>
  );
}

/** Exactly what the decision is about: the input, and what the workflow says beside it unless that is the same. */
export function Content({ approval: { input, detail } }: { approval: Pick<Approval, "input" | "detail"> }) {
  const added = Object.fromEntries(Object.entries(detail).filter(([name, value]) => !isSame(input?.[name], value)));
  return (
    <>
      {input === null ? <p className="quiet">Its input was deleted.</p> : <JsonView label="input" value={input} />}
      {Object.keys(added).length > 0 && !isSame(detail["input"], input) && (
        <>
          <h3>Detail</h3>
          <JsonView label="detail" value={added} />
        </>
      )}
    </>
  );
}
