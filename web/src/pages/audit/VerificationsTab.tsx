import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { JsonView } from "@/components/JsonView";
import { Section } from "@/components/Page";
import { ProblemLine } from "@/components/ProblemView";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { plural, whole } from "@/format/numbers";
import { useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import styles from "./Audit.module.css";

type Verification = Schemas["AuditVerification"];

const CHIPS: Record<Verification["status"], string> = {
  running: "running",
  whole: "succeeded",
  damaged: "failed",
  failed: "failed",
  lost: "canceled",
};

const COLUMNS: Column<Verification>[] = [
  { key: "status", header: "Result", width: "110px", cell: (one) => <StatusChip status={CHIPS[one.status]} label={one.status} /> },
  { key: "progress", header: "Rows", width: "minmax(140px, 1fr)", cell: (one) => <Progress one={one} /> },
  { key: "by", header: "Started by", wideOnly: true, text: (one) => one.started_by },
  { key: "at", header: "Updated", width: "110px", cell: (one) => <Time at={one.updated_at} /> },
];

/** Starts a verification of what the page shows, the whole log or a tenant's part of it, and shows it. */
export function useStartVerification(onStarted: () => void) {
  const tenant = useTenant();
  const queries = useQueryClient();
  const mutation = api.useMutation("post", "/api/v1/audit/verifications", {
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["get", "/api/v1/audit/verifications"] });
      onStarted();
    },
    onError: onStarted,
  });
  return {
    start: () => mutation.mutate({ params: { query: { tenant } } }),
    isPending: mutation.isPending,
    error: mutation.error as unknown,
  };
}

/** The last verifications, with the progress of one that runs and what each has found. */
export function VerificationsTab({ error }: { error: unknown }) {
  const [open, setOpen] = useState<string | undefined>();
  const tenant = useTenant();
  const ofAll = useSeesAll() && tenant === undefined;
  const query = api.useQuery(
    "get",
    "/api/v1/audit/verifications",
    { params: { query: { tenant, limit: 20 } } },
    { refetchInterval: (one) => (one.state.data?.items.some((each) => each.status === "running") === true ? 1000 : 15_000) },
  );
  const rows = query.data?.items;
  const shown = rows?.find((one) => one.id === open) ?? rows?.[0];
  return (
    <div className={styles.sections}>
      <ProblemLine error={error} />
      <DataTable
        label="verifications"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={COLUMNS}
        query={query}
        openKey={shown?.id}
        onOpen={(one) => setOpen(one.id)}
        empty={
          <EmptyState title="Not verified yet">
            {ofAll
              ? "A verification reads the whole log, recomputes every hash and compares the tree with the signed checkpoints."
              : "A verification reads all rows of this tenant, and checks that each is in the signed tree, unchanged, and that none is missing."}
          </EmptyState>
        }
      />
      {shown !== undefined && <Result one={shown} ofAll={ofAll} />}
    </div>
  );
}

function Progress({ one }: { one: Verification }) {
  const part = one.total === 0 ? 0 : one.done / one.total;
  return (
    <>
      {one.status === "running" && <progress className={styles.progress} max={1} value={part} aria-label="rows checked" />}
      <span>{one.status === "running" ? `${whole(one.done)} of ${whole(one.total)}` : whole(one.total)}</span>
    </>
  );
}

function Result({ one, ofAll }: { one: Verification; ofAll: boolean }) {
  const sentences: Record<Verification["status"], string> = {
    running: `It reads ${ofAll ? "the whole log" : "all rows of this tenant"}. You may leave this page.`,
    whole: `${ofAll ? "Nothing" : "No row of this tenant"} was changed, removed, inserted or reordered up to the last checkpoint.`,
    damaged: `${plural(one.findings.length, "finding")}.`,
    failed: "The verification did not complete.",
    lost: "The process that ran it stopped. Start another verification.",
  };
  return (
    <Section title={`Verification: ${one.status}`}>
      <p>{sentences[one.status]}</p>
      {one.findings.length > 0 && (
        <ul className={styles.findings}>
          {one.findings.map((finding, at) => (
            <li key={at}>
              <StatusChip status="failed" label={String(finding["kind"])} />
              <span>{String(finding["message"])}</span>
            </li>
          ))}
        </ul>
      )}
      {one.notices.map((notice) => (
        <p key={notice} className="quiet">
          {notice}
        </p>
      ))}
      {Object.keys(one.report).length > 0 && <JsonView value={one.report} label="figures" />}
    </Section>
  );
}
