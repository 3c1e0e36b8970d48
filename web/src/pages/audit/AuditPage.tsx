import { useNavigate, useSearch } from "@tanstack/react-router";
import { Download, ShieldCheck } from "lucide-react";
import { useState } from "react";
import { api } from "@/api/client";
import { Button } from "@/components/Button";
import { Page } from "@/components/Page";
import { Tabs } from "@/components/Tabs";
import { Tooltip } from "@/components/Tooltip";
import { duration } from "@/format/time";
import { plural, whole } from "@/format/numbers";
import { Time } from "@/components/Time";
import { useTenant } from "@/session/tenant";
import { AccessTab } from "./AccessTab";
import styles from "./Audit.module.css";
import { ExportDialog } from "./ExportDialog";
import { LogTab } from "./LogTab";
import { SealsTab } from "./SealsTab";
import { VerificationsTab, useStartVerification } from "./VerificationsTab";

/** The audit log as a ledger: what happened, who did it, and the proof that it was not changed. */
export function AuditPage() {
  const search = useSearch({ from: "/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const [exporting, setExporting] = useState(false);
  const verification = useStartVerification(
    () => void navigate({ search: (before) => ({ ...before, tab: "verifications", row: undefined }) }),
  );
  return (
    <Page
      title="Audit"
      fill
      about={<SealStatus />}
      actions={
        <>
          <Button icon={<Download size={14} aria-hidden />} onClick={() => setExporting(true)}>
            Export
          </Button>
          <Button kind="primary" icon={<ShieldCheck size={14} aria-hidden />} busy={verification.isPending} onClick={verification.start}>
            Verify now
          </Button>
        </>
      }
    >
      <Tabs
        label="Parts of the audit log"
        fill
        value={search.tab ?? "log"}
        onChange={(next) => void navigate({ search: (before) => ({ ...before, tab: next === "log" ? undefined : next, row: undefined }) })}
        tabs={[
          { key: "log", label: "Log", content: () => <LogTab /> },
          { key: "seals", label: "Seals and checkpoints", content: () => <SealsTab /> },
          { key: "verifications", label: "Verifications", content: () => <VerificationsTab error={verification.error} /> },
          { key: "access", label: "Access report", content: () => <AccessTab /> },
        ]}
      />
      {exporting && <ExportDialog onClose={() => setExporting(false)} />}
    </Page>
  );
}

/** How far the log is sealed, signed and verified, in one line. */
function SealStatus() {
  const { data } = api.useQuery("get", "/api/v1/audit/status", { params: { query: { tenant: useTenant() } } }, { refetchInterval: 3000 });
  if (data === undefined) return null;
  const waiting =
    data.unsealed === 0
      ? "all sealed"
      : `${plural(data.unsealed, "row waits", "rows wait")} for a seal, ${duration(data.lag_seconds * 1000)}`;
  return (
    <p className={styles.status}>
      <Tooltip
        content={`${whole(data.size)} leaves in the tree, ${data.signed_size === null ? "none" : whole(data.signed_size)} of them under a signed checkpoint`}
      >
        <span data-late={data.lag_seconds > 10}>{waiting}</span>
      </Tooltip>
      {data.verified !== null && (
        <span data-late={data.verified.status === "damaged"}>
          verified {data.verified.status} <Time at={data.verified.verified_at} />
        </span>
      )}
    </p>
  );
}
