import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ShieldCheck } from "lucide-react";
import { api, client, type Schemas } from "@/api/client";
import { isStatus } from "@/api/problem";
import { Button } from "@/components/Button";
import { Command } from "@/components/EmptyState";
import { ProblemLine } from "@/components/ProblemView";
import { plural, whole } from "@/format/numbers";
import { canCheck, checkProof, type Proof, type Step } from "@/pages/audit/proof";
import { useStartVerification } from "@/pages/audit/VerificationsTab";
import { READERS, useCan, useSeesAll, useSession } from "@/session/session";
import { Note, NotForRole, type StepView } from "./Step";

type Listed = Schemas["ListedJob"];
type Verification = Schemas["AuditVerification"];

/** The last step: the audit log is whole. Who sees all of it has it verified; a tenant checks the proof of a row of its own. */
export function useAuditStep(tenant: string | undefined, mail: Listed | undefined): StepView {
  const all = useVerification(mail);
  const own = useOwnProof(tenant, mail);
  const { role } = useSession();
  const reads = useCan(READERS);
  const seesAll = useSeesAll();
  if (!reads) return { title: TITLE, stage: "open", body: <NotForRole role={role} what="read the audit log" roles={READERS} /> };
  return seesAll ? all : own;
}

const TITLE = "Verify the audit log";
const EXPLAINED =
  "Every step of this guide left rows in an append-only log, whose hashes form a tree that is signed every few seconds. Any later change of a row, even by a superuser, is detected.";

function useVerification(mail: Listed | undefined): StepView {
  const seesAll = useSeesAll();
  const begun = mail === undefined ? 0 : Date.parse(mail.queued_at);
  const { data } = api.useQuery(
    "get",
    "/api/v1/audit/verifications",
    { params: { query: { limit: 1 } } },
    { enabled: seesAll, refetchInterval: (query) => (query.state.data?.items[0]?.status === "running" ? 500 : 5000) },
  );
  const newest = data?.items[0];
  const last = newest !== undefined && Date.parse(newest.updated_at) >= begun ? newest : undefined;
  const stages = { running: "working", whole: "done", damaged: "off", failed: "off", lost: "off" } as const;
  return {
    title: TITLE,
    stage: last === undefined ? "open" : stages[last.status],
    outcome: last !== undefined && (
      <>
        {plural(last.total, "row")} read, every hash computed again: the log is whole.{" "}
        <Link to="/audit" search={{ tab: "verifications" }}>
          The verification
        </Link>{" "}
        says more, and <Link to="/audit">the log</Link> has the rows.
      </>
    ),
    body: <VerificationBody last={last} />,
  };
}

function VerificationBody({ last }: { last: Verification | undefined }) {
  const verification = useStartVerification(() => undefined);
  return (
    <>
      <p>{EXPLAINED}</p>
      {last?.status === "running" && (
        <p role="status">
          {whole(last.done)} of {whole(last.total)} rows are checked.
        </p>
      )}
      {last !== undefined && ["damaged", "failed", "lost"].includes(last.status) && (
        <Note>
          <p>
            The verification is {last.status}.{" "}
            <Link to="/audit" search={{ tab: "verifications" }}>
              What it found
            </Link>{" "}
            is with the audit log.
          </p>
        </Note>
      )}
      <ProblemLine error={verification.error} />
      {last?.status !== "running" && (
        <Button
          kind={last === undefined ? "primary" : "plain"}
          icon={<ShieldCheck size={14} aria-hidden />}
          busy={verification.isPending}
          onClick={verification.start}
        >
          {last === undefined ? "Verify the log" : "Verify it again"}
        </Button>
      )}
      <p>Without trusting this server at all: export the log, and check it on a machine of your own.</p>
      <Command text="atlas audit export --out audit.jsonl && atlas audit verify --export audit.jsonl --key .atlas/keys/audit.pub" />
    </>
  );
}

/** Checks the proof of the row that says that the mail was enqueued, in this browser. */
function useOwnProof(tenant: string | undefined, mail: Listed | undefined): StepView {
  const seesAll = useSeesAll();
  const reads = useCan(READERS);
  const isChecking = reads && !seesAll && mail !== undefined;
  const row = api.useQuery(
    "get",
    "/api/v1/audit",
    { params: { query: { entity_id: mail?.id, action: ["JOB_CREATED"], tenant, limit: 1 } } },
    { enabled: isChecking, refetchInterval: (query) => (query.state.data?.items[0]?.seal == null ? 2000 : false) },
  ).data?.items[0];
  const sealed = row !== undefined && row.seal !== null ? row : undefined;
  const proof = useQuery({
    queryKey: ["first-run proof", sealed?.id, tenant],
    enabled: sealed !== undefined && canCheck(),
    staleTime: Infinity,
    // Sealed rows are signed some seconds later.
    retry: (count, error) => isStatus(error, 409) && count < 20,
    retryDelay: 1500,
    queryFn: () => (sealed === undefined ? [] : proofOf(sealed, tenant)),
  });
  const passed = proof.data?.filter((one) => one.passed).length ?? 0;
  const failed = proof.data?.find((one) => !one.passed);
  const isWhole = proof.data !== undefined && passed === PROOF_STEPS;
  return {
    title: TITLE,
    stage: isWhole ? "done" : failed !== undefined || proof.isError ? "off" : isChecking ? "working" : "open",
    outcome: sealed !== undefined && (
      <>
        This browser computed {passed} steps, from the bytes of{" "}
        <Link to="/audit" search={{ row: String(sealed.id) }}>
          the row of your mail
        </Link>{" "}
        to the signed head of the tree, and all agree.
      </>
    ),
    body: (
      <>
        <p>{EXPLAINED}</p>
        {mail === undefined && <p>Do the first step: the row of its mail is the one that is checked.</p>}
        {isChecking && sealed === undefined && <p role="status">Rows are sealed within seconds; the check follows by itself.</p>}
        {sealed !== undefined && !canCheck() && (
          <Note>
            <p>This browser checks proofs on pages with TLS or on this machine only. Without it:</p>
            <Command text={`atlas audit proof ${sealed.id}`} />
          </Note>
        )}
        {failed !== undefined && <Note>The proof does not hold: {failed.reason} An operator should verify the whole log.</Note>}
        <ProblemLine error={proof.error} />
      </>
    ),
  };
}

const PROOF_STEPS = 5;

async function proofOf(row: Schemas["AuditEntry"], tenant: string | undefined): Promise<Step[]> {
  const proof = await client.GET("/api/v1/audit/{row_id}/proof", { params: { path: { row_id: row.id }, query: { tenant } } });
  const keys = await client.GET("/api/v1/audit/key", { parseAs: "text" });
  const steps: Step[] = [];
  for await (const step of checkProof(proof.data as unknown as Proof, row, keys.data ?? "")) steps.push(step);
  return steps;
}
