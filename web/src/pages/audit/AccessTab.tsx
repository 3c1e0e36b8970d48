import { Download } from "lucide-react";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { serverNow } from "@/format/clock";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { whole } from "@/format/numbers";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import styles from "./Audit.module.css";

type Credential = Schemas["AccessCredential"];
type Activity = Schemas["AccessActivity"];

const CREDENTIALS: readonly Column<Credential>[] = [
  { key: "kind", header: "Kind", width: "88px", cell: (one) => one.kind },
  { key: "subject", header: "Subject", width: "minmax(140px, 2fr)", text: (one) => one.subject },
  { key: "role", header: "Role", width: "minmax(100px, 1fr)", text: (one) => one.role },
  { key: "scope", header: "Limited to", wideOnly: true, text: (one) => one.scope ?? "", look: "quiet" },
  {
    key: "used",
    header: "Last used",
    width: "104px",
    wideOnly: true,
    cell: (one) => (one.last_used_at === null ? <span className="quiet">never</span> : <Time at={one.last_used_at} />),
  },
  {
    key: "ends",
    header: "Valid until",
    width: "104px",
    wideOnly: true,
    cell: (one) => (one.ends_at === null ? <span className="quiet">no expiry</span> : <Time at={one.ends_at} />),
  },
  { key: "dormant", header: "", width: "104px", cell: (one) => one.is_dormant && <StatusChip status="stale" label="dormant" /> },
];

const ACTIVITY: readonly Column<Activity>[] = [
  { key: "actor", header: "Actor", width: "minmax(140px, 2fr)", text: (one) => one.actor_id },
  { key: "action", header: "Action", width: "minmax(140px, 2fr)", text: (one) => one.action, look: "mono" },
  { key: "count", header: "Times", width: "80px", align: "end", cell: (one) => whole(one.count) },
  { key: "last", header: "Last", width: "104px", align: "end", wideOnly: true, cell: (one) => <Time at={one.last_at} /> },
];

/** Who could do what in a month, who did, and which credentials nobody used. */
export function AccessTab() {
  const tenant = useTenant();
  const [month, setMonth] = useState(() => new Date(serverNow()).toISOString().slice(0, 7));
  const valid = /^\d{4}-(0[1-9]|1[0-2])$/.test(month);
  const report = api.useQuery("get", "/api/v1/audit/reports/access", { params: { query: { month, tenant } } }, { enabled: valid });
  const credentials = useWithTenant(CREDENTIALS, report.data?.credentials);
  const activity = useWithTenant(ACTIVITY, report.data?.activity);
  const search = new URLSearchParams({ month, ...(tenant !== undefined && { tenant }) });
  return (
    <div className={styles.report}>
      <div className={styles.month}>
        <TextField
          label="Month"
          error={valid ? undefined : "is not a month such as 2026-11"}
          value={month}
          maxLength={7}
          onChange={setMonth}
        />
        <a href={`/api/v1/audit/reports/access/export?${search.toString()}`} download>
          <Download size={14} aria-hidden /> Export as CSV
        </a>
      </div>
      <Section title="Credentials">
        <DataTable
          label="Credentials"
          inline
          rows={report.data?.credentials}
          rowKey={(one) => `${one.kind} ${one.id}`}
          columns={credentials}
          query={report}
          empty={<EmptyState title="No credentials in this month" />}
        />
      </Section>
      <Section title="Activity">
        <DataTable
          label="Activity"
          inline
          rows={report.data?.activity}
          rowKey={(one) => `${one.actor_id} ${one.action} ${one.tenant_id ?? ""}`}
          columns={activity}
          query={report}
          empty={<EmptyState title="No activity in this month" />}
        />
      </Section>
      {report.data?.is_cut === true && <p className="quiet">The first 5,000 of each are shown.</p>}
    </div>
  );
}
