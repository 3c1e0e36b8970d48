import { useState } from "react";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { Switch } from "@/components/Form";
import { Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { spaced } from "@/format/words";
import { EngineDialog } from "@/gate/EngineDialog";
import { useGate } from "@/gate/gate";
import { OPERATORS, useCan } from "@/session/session";
import styles from "./Settings.module.css";

/** The engine's switch, and what the scheduler found that needs attention. */
export function SystemTab() {
  return (
    <>
      <Engine />
      <Findings />
    </>
  );
}

function Engine() {
  const operates = useCan(OPERATORS);
  const { data: gate } = useGate();
  const [asked, setAsked] = useState(false);
  if (gate === undefined) return null;
  const enabled = gate.engine_enabled;
  return (
    <Section title="Engine">
      <div className={styles.line}>
        <Switch on={enabled} disabled={!operates} label="Requests for workflows become runs" onChange={() => setAsked(true)} />
        <p>
          {enabled ? "On: workflow requests become runs." : "Off: workflow requests wait. Runs that have started continue."}
          {gate.engine_since != null && (
            <span className="quiet">
              {" "}
              {gate.engine_by ?? ""}, <Time at={gate.engine_since} />
              {gate.engine_reason != null && `: ${gate.engine_reason}`}
            </span>
          )}
        </p>
      </div>
      {asked && <EngineDialog enabled={!enabled} onClose={() => setAsked(false)} />}
    </Section>
  );
}

const COLUMNS: readonly Column<Schemas["Alert"]>[] = [
  { key: "kind", header: "Finding", width: "160px", cell: (one) => spaced(one.kind) },
  { key: "message", header: "What", width: "minmax(200px, 3fr)", text: (one) => one.message },
  { key: "subject", header: "Subject", width: "minmax(120px, 1fr)", wideOnly: true, text: (one) => one.subject, look: "mono" },
];

function Findings() {
  const pages = useList("/api/v1/system/findings", {}, { refetchInterval: 30_000 });
  return (
    <Section title="Findings">
      <DataTable
        label="findings"
        inline
        rows={pages.rows}
        rowKey={(one) => `${one.kind} ${one.subject} ${one.message}`}
        columns={COLUMNS}
        query={pages}
        empty={
          <EmptyState title="No findings" command="atlas doctor">
            The scheduler looks every minute for silent workers and hosts, stuck requests, rising failures and damage to the audit log.
          </EmptyState>
        }
      />
    </Section>
  );
}
