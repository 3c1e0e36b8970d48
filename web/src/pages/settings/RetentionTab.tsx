import { useState } from "react";
import type { Schemas } from "@/api/client";
import { Action } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { useEdit } from "@/components/useEdit";
import { OPERATORS, useCan } from "@/session/session";
import { tenantEdit, TENANTS, useTenants } from "./TenantsTab";
import { useChange } from "@/components/useChange";

type Tenant = Schemas["Tenant"];

/** What is removed when it is past its age, in words. */
const KINDS: Record<string, string> = {
  jobs: "Finished jobs",
  attempts: "Their attempts",
  steps: "Steps of runs",
  events: "Events",
  recurring: "Recurring runs",
};

/** For how many days finished things are kept: a tenant's own choice, else the default. The audit log keeps what happened. */
export function RetentionTab() {
  const { query, rows } = useTenants();
  const isOperator = useCan(OPERATORS);
  const [editing, setEditing] = useState<Tenant | null>(null);
  const columns: Column<Tenant>[] = [
    { key: "slug", header: "Tenant", width: "minmax(100px, 1fr)", text: (one) => one.slug, look: "id" },
    ...Object.entries(KINDS).map(([kind, label], at) => ({
      key: kind,
      header: label,
      width: "minmax(110px, 1fr)",
      align: "end" as const,
      wideOnly: at > 0,
      cell: (one: Tenant) => <Days tenant={one} kind={kind} />,
    })),
    {
      key: "edit",
      header: "",
      width: "72px",
      align: "end",
      cell: (one) => isOperator && one.removing_at === null && <Action onClick={() => setEditing(one)}>Edit</Action>,
    },
  ];
  return (
    <Section title="Retention">
      <p className="quiet">Finished jobs, runs and events are removed when they are older. Dead letters and the audit log stay.</p>
      <DataTable
        label="retention"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={query}
        empty={<EmptyState title="No tenants yet" />}
      />
      {editing !== null && <EditRetention tenant={editing} onClose={() => setEditing(null)} />}
    </Section>
  );
}

function Days({ tenant, kind }: { tenant: Tenant; kind: string }) {
  const days = tenant.retention_days[kind];
  const shown = days === null || days === undefined ? "for ever" : `${days} d`;
  return kind in tenant.retention ? (
    <span>{shown}</span>
  ) : (
    <span className="quiet" title="The default">
      {shown}
    </span>
  );
}

function EditRetention({ tenant, onClose }: { tenant: Tenant; onClose: () => void }) {
  const [days, setDays] = useState<Record<string, string>>(() =>
    Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, ownDays(tenant, kind)])),
  );
  const save = useEdit(tenant);
  const edit = useChange(
    () => {
      const retention: Record<string, number | null> = {};
      for (const [kind, value] of Object.entries(days)) if (value !== "") retention[kind] = value === "ever" ? null : Number(value);
      return save({ body: { retention }, ...tenantEdit(tenant) });
    },
    { done: () => `The retention of ${tenant.slug} is changed`, lists: [TENANTS], onDone: onClose },
  );
  return (
    <ChangeDialog
      onClose={onClose}
      title={`Retention of ${tenant.slug}`}
      description="Days until finished records are removed. Empty: the default. The word ever: kept forever."
      action="Save"
      change={edit}
    >
      {Object.entries(KINDS).map(([kind, label]) => (
        <TextField
          key={kind}
          name={`retention.${kind}`}
          label={label}
          placeholder={String(tenant.retention_days[kind] ?? "ever")}
          value={days[kind] ?? ""}
          pattern="\d+(\.\d+)?|ever"
          onChange={(text) => setDays((before) => ({ ...before, [kind]: text.trim() }))}
        />
      ))}
    </ChangeDialog>
  );
}

/** The tenant's own choice as it is typed: a number, "ever", or nothing for the default. */
function ownDays(tenant: Tenant, kind: string): string {
  if (!(kind in tenant.retention)) return "";
  const days = tenant.retention[kind];
  return typeof days === "number" ? String(days) : "ever";
}
