import { api, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { Id } from "@/components/Id";
import { TextView } from "@/components/JsonView";
import { Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { whole } from "@/format/numbers";
import { useTenant } from "@/session/tenant";
import styles from "./Audit.module.css";

const LIMIT = 100;

const SEALS: Column<Schemas["AuditSeal"]>[] = [
  { key: "n", header: "Seal", width: "96px", cell: (one) => <span className="mono">#{whole(one.n)}</span> },
  { key: "rows", header: "Rows", width: "80px", align: "end", cell: (one) => whole(one.rows) },
  { key: "size", header: "Tree", width: "110px", align: "end", wideOnly: true, cell: (one) => whole(one.size) },
  { key: "at", header: "Sealed", width: "120px", cell: (one) => <Time at={one.sealed_at} /> },
  { key: "root", header: "Root", cell: (one) => <Id value={one.root} /> },
];

const CHECKPOINTS: Column<Schemas["AuditCheckpoint"]>[] = [
  { key: "size", header: "Tree", width: "96px", align: "end", cell: (one) => whole(one.size) },
  { key: "at", header: "Signed", width: "120px", cell: (one) => <Time at={one.signed_at} /> },
  { key: "key", header: "Key", text: (one) => one.key_name, look: "mono" },
  { key: "root", header: "Root", wideOnly: true, text: (one) => one.note.split("\n")[2] ?? "", look: "mono" },
];

/** The seals and the signed checkpoints, newest first, and the keys that verify them. */
export function SealsTab() {
  const tenant = useTenant();
  const poll = { refetchInterval: 5000 };
  const { rows: sealRows, ...seals } = useList("/api/v1/audit/seals", { tenant, limit: LIMIT }, poll);
  const { rows: noteRows, ...checkpoints } = useList("/api/v1/audit/checkpoints", { limit: LIMIT }, poll);
  const keys = api.useQuery("get", "/api/v1/audit/key", { parseAs: "text" });
  return (
    <div className={styles.sections}>
      <Section title="Seals">
        <DataTable
          label="seals"
          inline
          rows={sealRows}
          rowKey={(one) => String(one.n)}
          columns={SEALS}
          query={seals}
          empty={<EmptyState title="No seals yet">A scheduler, or `atlas up`, seals new rows every second.</EmptyState>}
        />
      </Section>
      <Section title="Signed checkpoints">
        <DataTable
          label="signed checkpoints"
          inline
          rows={noteRows}
          rowKey={(one) => `${one.size} ${one.key_name}`}
          columns={CHECKPOINTS}
          query={checkpoints}
          empty={
            <EmptyState title="No checkpoints yet">
              A process with the signing key signs the head of the tree every five seconds.
            </EmptyState>
          }
        />
      </Section>
      <Section title="Public keys">
        <p className="quiet">Keep a copy outside of Atlas: with it, an export or a proof can be checked without trusting this server.</p>
        {keys.data !== undefined && <TextView text={keys.data} label="Keys, one per line" />}
      </Section>
    </div>
  );
}
