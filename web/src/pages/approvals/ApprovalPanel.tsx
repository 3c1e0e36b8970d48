import { Link } from "@tanstack/react-router";
import { SidePanel } from "@/components/Dialog";
import { Id } from "@/components/Id";
import { Fact, Facts } from "@/components/Page";
import { ProblemView } from "@/components/ProblemView";
import { Skeleton } from "@/components/Skeleton";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import styles from "./Approvals.module.css";
import { type Approval, Content, DecisionButtons, useApproval } from "./DecisionDialog";

/** One approval: exactly what is being approved, and the decision. */
export function ApprovalPanel({ approvalId, onClose }: { approvalId: string; onClose: () => void }) {
  const { data, error, refetch } = useApproval(approvalId);
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
        <Fact name="Requested">
          <Time at={approval.created_at} />
        </Fact>
        <Fact name={approval.kind === "intent" ? "Request" : `Run, at step ${approval.step ?? ""}`}>
          <Link to="/runs/$runId" params={{ runId: approval.run_id }} search={({ tenant }) => ({ tenant })}>
            <Id value={approval.run_id} />
          </Link>
        </Fact>
        <Fact name={approval.status === "pending" ? "Expires" : "Decided"}>
          {approval.decided_at === null ? <Time at={approval.expires_at} /> : <Time at={approval.decided_at} />}
        </Fact>
        {approval.decided_by !== null && <Fact name="Decided by">{approval.decided_by}</Fact>}
        {approval.comment !== null && <Fact name="Comment">{approval.comment}</Fact>}
      </Facts>
      <Subject approval={approval} />
      {approval.status === "pending" && <DecisionButtons approval={approval} onDone={onDone} />}
    </div>
  );
}

/** What the decision is about, exactly. */
function Subject({ approval }: { approval: Approval }) {
  return (
    <>
      <h2>What is being approved</h2>
      <p>
        {approval.kind === "intent" ? "A run of" : "The next step of"} <strong>{approval.workflow ?? "a deleted workflow"}</strong> with
        this input:
      </p>
      <Content approval={approval} />
      <p className="quiet">
        The decision is bound to this input by its SHA-256 <Id value={approval.input_hash} />
      </p>
    </>
  );
}
