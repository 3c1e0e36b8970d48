import { useMemo, useState } from "react";
import { client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Action, Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { useFields } from "@/components/useFields";
import { shortId } from "@/format/words";
import { OPERATORS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useTenantSlugs } from "@/session/tenantSlugs";
import { listOf } from "./lists";
import { useChange } from "@/components/useChange";

type Grant = Schemas["EnqueueGrant"];

const LIST = "/api/v1/grants";

/** What logins of other applications may enqueue in SQL. */
export function GrantsTab() {
  const tenant = useTenant();
  const operates = useCan(OPERATORS);
  const [adding, setAdding] = useState(false);
  const [revoking, setRevoking] = useState<Grant | null>(null);
  const { rows, ...query } = useList(LIST, { tenant });
  const slugs = useTenantSlugs(useMemo(() => (rows ?? []).map((one) => one.tenant_id), [rows]));
  const revoke = useChange((one: Grant) => client.DELETE("/api/v1/grants/{grant_id}", { params: { path: { grant_id: one.id } } }), {
    done: (one) => `${one.login} may no longer enqueue ${one.job_type}`,
    lists: [LIST],
    onDone: () => setRevoking(null),
  });
  const columns: Column<Grant>[] = [
    { key: "login", header: "Login", width: "minmax(120px, 1fr)", text: (one) => one.login, look: "mono" },
    { key: "type", header: "Job type", width: "minmax(120px, 1fr)", text: (one) => one.job_type, look: "mono" },
    {
      key: "tenant",
      header: "Tenant",
      width: "120px",
      wideOnly: true,
      text: (one) => slugs?.get(one.tenant_id) ?? tenant ?? shortId(one.tenant_id),
      look: "id",
    },
    { key: "by", header: "Granted by", wideOnly: true, text: (one) => one.created_by, look: "quiet" },
    { key: "since", header: "Since", width: "100px", wideOnly: true, cell: (one) => <Time at={one.created_at} /> },
    {
      key: "revoke",
      header: "",
      width: "84px",
      align: "end",
      cell: (one) => operates && <Action onClick={() => setRevoking(one)}>Revoke</Action>,
    },
  ];
  return (
    <Section title="Grants" actions={operates && <Button onClick={() => setAdding(true)}>New grant</Button>}>
      <DataTable
        label="grants"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={query}
        empty={
          <EmptyState title="No grants yet" command="atlas grant enqueue shop --tenant demo --type 'invoice.*'">
            A login of another application enqueues jobs in SQL, in its own transactions, as far as its grants allow.
          </EmptyState>
        }
      />
      {adding && <NewGrant onClose={() => setAdding(false)} />}
      {revoking !== null && (
        <ChangeDialog
          danger
          onClose={() => setRevoking(null)}
          title={`Revoke the grant of ${revoking.login}?`}
          description={`It may no longer enqueue ${revoking.job_type}. What it enqueued stays.`}
          action="Revoke"
          change={revoke}
          input={revoking}
        />
      )}
    </Section>
  );
}

function NewGrant({ onClose }: { onClose: () => void }) {
  const tenant = useTenant();
  const { values, field } = useFields({ login: "", tenants: tenant ?? "", job_types: "" });
  const { login, tenants, job_types } = values;
  const add = useChange(() => client.POST(LIST, { body: { login, tenants: listOf(tenants), job_types: listOf(job_types) } }), {
    done: () => `${login} may enqueue ${job_types}`,
    lists: [LIST],
    onDone: onClose,
  });
  return (
    <ChangeDialog
      onClose={onClose}
      title="New grant"
      action="Grant"
      change={add}
      disabled={Object.values(values).some((text) => text.trim() === "")}
    >
      <TextField label="Login" hint="As Postgres knows it." required maxLength={63} {...field("login")} />
      <TextField label="Tenants" hint="Slugs, separated by commas." required {...field("tenants")} />
      <TextField
        label="Job types"
        hint="Separated by commas; invoice.* matches every type with that prefix."
        required
        {...field("job_types")}
      />
    </ChangeDialog>
  );
}
