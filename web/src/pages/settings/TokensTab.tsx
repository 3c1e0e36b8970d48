import { KeyRound } from "lucide-react";
import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { MAX_LISTED, useList } from "@/api/pages";
import { Action, Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Checkbox, Field, Select, TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { useFields } from "@/components/useFields";
import { serverNow } from "@/format/clock";
import { plural } from "@/format/numbers";
import { OPERATORS, useCan, useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { TenantField } from "@/session/TenantField";
import { useWithTenant } from "@/session/tenantColumn";
import { SecretDialog } from "./SecretDialog";
import { useChange } from "@/components/useChange";

type Token = Schemas["Token"];
type Role = Token["role"];

const LIST = "/api/v1/tokens";
/** What each role may do, in a line. */
const ROLES: Record<Role, string> = {
  operator: "everything, for every tenant",
  tenant_admin: "everything of its tenant but limits and policies",
  enqueuer: "create jobs and events, read jobs and runs",
  auditor: "read, and verify the audit log",
  host: "fetch the jobs of one host",
  worker: "claim jobs of its tenant",
};

/** Roles whose tokens may belong to no tenant. */
const FOR_ALL_TENANTS: readonly Role[] = ["operator", "auditor"];

/** The credentials of people and programs. */
export function TokensTab() {
  const tenant = useTenant();
  const [adding, setAdding] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const { rows, ...query } = useList(LIST, { tenant });
  const own: Column<Token>[] = [
    { key: "subject", header: "Subject", width: "minmax(140px, 1.4fr)", text: (one) => one.subject },
    { key: "role", header: "Role", width: "120px", cell: (one) => one.role },
    {
      key: "state",
      header: "State",
      width: "110px",
      cell: (one) => <StatusChip status={stateOf(one)} label={stateOf(one) === "canceled" ? "revoked" : stateOf(one)} />,
    },
    { key: "prefix", header: "Prefix", width: "100px", wideOnly: true, cell: (one) => <span className="mono">{one.prefix}</span> },
    { key: "by", header: "Created by", wideOnly: true, text: (one) => one.created_by, look: "quiet" },
    { key: "created", header: "Created", width: "100px", wideOnly: true, cell: (one) => <Time at={one.created_at} /> },
    {
      key: "used",
      header: "Last used",
      width: "100px",
      wideOnly: true,
      cell: (one) => (one.last_used_at === null ? <span className="quiet">never</span> : <Time at={one.last_used_at} />),
    },
    {
      key: "revoke",
      header: "",
      width: "84px",
      align: "end",
      cell: (one) => one.revoked_at === null && <Action onClick={() => setRevoking(one)}>Revoke</Action>,
    },
  ];
  const columns = useWithTenant(own, rows);
  return (
    <Section
      title="Tokens"
      actions={
        <Button kind="primary" icon={<KeyRound size={14} aria-hidden />} onClick={() => setAdding(true)}>
          New token
        </Button>
      }
    >
      <DataTable
        label="tokens"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={query}
        empty={
          <EmptyState title="No tokens yet" command={`atlas token add --tenant ${tenant ?? "demo"} --role enqueuer --subject billing`}>
            A token is what a person or a program signs in with.
          </EmptyState>
        }
      />
      {adding && <NewToken onClose={() => setAdding(false)} />}
      {revoking !== null && <RevokeToken token={revoking} onClose={() => setRevoking(null)} />}
    </Section>
  );
}

function RevokeToken({ token, onClose }: { token: Token; onClose: () => void }) {
  const tenant = useTenant();
  const [withCreated, setWithCreated] = useState(false);
  const revoke = useChange(
    async () => {
      const params = { path: { token_id: token.id }, query: { tenant, with_created: withCreated } };
      return (await client.DELETE("/api/v1/tokens/{token_id}", { params })).data;
    },
    {
      done: (_, revoked) => {
        const others = revoked?.created.length ?? 0;
        return `The token ${token.prefix} is revoked${others === 0 ? "" : `, with ${plural(others, "token")} created with it`}`;
      },
      lists: [LIST],
      onDone: onClose,
    },
  );
  return (
    <ChangeDialog
      danger
      onClose={onClose}
      title={`Revoke the token of ${token.subject}?`}
      description="The token is refused within seconds, and its sessions end. This cannot be undone."
      action="Revoke"
      change={revoke}
    >
      <Checkbox
        label="Also revoke the tokens created with it, and the secrets of hooks that they know"
        checked={withCreated}
        onChange={(event) => setWithCreated(event.target.checked)}
      />
    </ChangeDialog>
  );
}

function stateOf(token: Token): string {
  if (token.revoked_at !== null) return "canceled";
  return token.expires_at !== null && Date.parse(token.expires_at) < serverNow() ? "expired" : "active";
}

function NewToken({ onClose }: { onClose: () => void }) {
  const shown = useTenant();
  const [tenant, setTenant] = useState(shown);
  const [host, setHost] = useState("");
  const isOperator = useCan(OPERATORS);
  const seesAll = useSeesAll();
  const roles = (Object.keys(ROLES) as Role[]).filter((role) => isOperator || role !== "operator");
  const { values, field } = useFields({ subject: "", expires_at: "" });
  const { subject, expires_at: days } = values;
  const [role, setRole] = useState<Role>("enqueuer");
  const [created, setCreated] = useState<Schemas["CreatedToken"] | null>(null);
  const add = useChange(
    async () => {
      const expires_at = days === "" ? null : new Date(serverNow() + Number(days) * 86_400_000).toISOString();
      const { data } = await client.POST("/api/v1/tokens", {
        params: { query: { tenant } },
        body: { subject, role, scopes: role === "host" ? { host_id: host } : {}, expires_at },
      });
      setCreated(data ?? null);
    },
    { done: () => "The token is created", lists: [LIST] },
  );
  if (created !== null) {
    return (
      <SecretDialog secret={created.token} title="Copy the token now" onClose={onClose}>
        <p>Atlas keeps only its hash.</p>
      </SecretDialog>
    );
  }
  const mayBeForAll = FOR_ALL_TENANTS.includes(role);
  const isMissing = (seesAll && tenant === undefined && !mayBeForAll) || (role === "host" && host === "");
  return (
    <ChangeDialog onClose={onClose} title="New token" action="Create the token" change={add} disabled={subject.trim() === "" || isMissing}>
      <TextField
        label="Subject"
        hint="The person or program that acts with it. The audit log shows this name."
        required
        maxLength={200}
        {...field("subject")}
      />
      <Field label="Role" hint={ROLES[role]} name="role">
        {(control) => (
          <Select {...control} value={role} onChange={(event) => setRole(event.target.value as Role)}>
            {roles.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </Select>
        )}
      </Field>
      {role !== "operator" && (
        <TenantField
          value={tenant}
          onChange={(next) => {
            setTenant(next);
            setHost("");
          }}
          none={mayBeForAll ? "All tenants" : "(choose one)"}
        />
      )}
      {role === "host" && <HostField tenant={tenant} value={host} onChange={setHost} />}
      <TextField label="Valid for days" hint="Empty: until it is revoked." type="number" min={1} max={3650} {...field("expires_at")} />
    </ChangeDialog>
  );
}

/** The host that a token is for: it fetches the jobs of no other. */
function HostField({ tenant, value, onChange }: { tenant: string | undefined; value: string; onChange: (hostId: string) => void }) {
  const hosts = api.useQuery("get", "/api/v1/hosts", { params: { query: { tenant, limit: MAX_LISTED } } }).data?.items;
  return (
    <Field label="Host" name="scopes.host_id" required>
      {(control) => (
        <Select {...control} value={value} onChange={(event) => onChange(event.target.value)}>
          <option value="">(choose one)</option>
          {hosts?.map((host) => (
            <option key={host.id} value={host.id}>
              {host.name}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}
