import { useMemo, useState } from "react";
import { client, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { shortId } from "@/format/words";
import { OPERATORS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useTenantSlugs } from "@/session/tenantSlugs";
import { useChange } from "./useChange";

type Grant = Schemas["EnqueueGrant"];

const LIST = "/api/v1/grants";

/** What logins of other applications may enqueue in SQL. */
export function GrantsTab() {
  const tenant = useTenant();
  const operates = useCan(OPERATORS);
  const [adding, setAdding] = useState(false);
  const [revoking, setRevoking] = useState<Grant | null>(null);
  const filters = { tenant, limit: 100 };
  const { rows, ...query } = usePages(
    ["get", LIST, filters],
    async (at) => (await client.GET(LIST, { params: { query: { ...filters, ...at } } })).data,
  );
  const slugs = useTenantSlugs(useMemo(() => (rows ?? []).map((one) => one.tenant_id), [rows]));
  const revoke = useChange((one: Grant) => client.DELETE("/api/v1/grants/{grant_id}", { params: { path: { grant_id: one.id } } }), {
    done: (one) => `${one.login} may no longer enqueue ${one.job_type}`,
    lists: [LIST],
    onDone: () => setRevoking(null),
  });
  const columns: Column<Grant>[] = [
    {
      key: "login",
      header: "Login",
      width: "minmax(120px, 1fr)",
      cell: (one) => <span className="mono truncate">{one.login}</span>,
    },
    {
      key: "type",
      header: "Job type",
      width: "minmax(120px, 1fr)",
      cell: (one) => <span className="mono truncate">{one.job_type}</span>,
    },
    {
      key: "tenant",
      header: "Tenant",
      width: "120px",
      wideOnly: true,
      cell: (one) => <span className="truncate">{slugs?.get(one.tenant_id) ?? tenant ?? shortId(one.tenant_id)}</span>,
    },
    { key: "by", header: "Granted by", wideOnly: true, cell: (one) => <span className="truncate quiet">{one.created_by}</span> },
    { key: "since", header: "Since", width: "100px", wideOnly: true, cell: (one) => <Time at={one.created_at} /> },
    {
      key: "revoke",
      header: "",
      width: "84px",
      align: "end",
      cell: (one) =>
        operates && (
          <Button kind="ghost" onClick={() => setRevoking(one)}>
            Revoke
          </Button>
        ),
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
            A login of another application enqueues jobs in SQL, in its own transactions, as far as a grant lets it.
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
  const [login, setLogin] = useState("");
  const [tenants, setTenants] = useState(tenant ?? "");
  const [types, setTypes] = useState("");
  const add = useChange(() => client.POST(LIST, { body: { login, tenants: listOf(tenants), job_types: listOf(types) } }), {
    done: () => `${login} may enqueue ${types}`,
    lists: [LIST],
    onDone: onClose,
  });
  return (
    <ChangeDialog
      onClose={onClose}
      title="New grant"
      action="Grant"
      change={add}
      disabled={[login, tenants, types].some((text) => text.trim() === "")}
    >
      <TextField label="Login" hint="As Postgres knows it." required name="login" value={login} maxLength={63} onChange={setLogin} />
      <TextField label="Tenants" hint="Slugs, separated by commas." required name="tenants" value={tenants} onChange={setTenants} />
      <TextField
        label="Job types"
        hint="Separated by commas; invoice.* is for all that begin so."
        required
        name="job_types"
        value={types}
        onChange={setTypes}
      />
    </ChangeDialog>
  );
}

function listOf(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}
