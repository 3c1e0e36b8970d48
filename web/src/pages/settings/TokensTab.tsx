import { KeyRound } from "lucide-react";
import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Action, Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Field, Select, TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { Time } from "@/components/Time";
import { useFields } from "@/components/useFields";
import { serverNow } from "@/format/clock";
import { OPERATORS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
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

/** The credentials of people and programs. */
export function TokensTab() {
  const tenant = useTenant();
  const [adding, setAdding] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const { rows, ...query } = useList(LIST, { tenant });
  const revoke = useChange(
    (token: Token) => client.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: token.id }, query: { tenant } } }),
    {
      done: (token) => `The token ${token.prefix} is revoked`,
      lists: [LIST],
      onDone: () => setRevoking(null),
    },
  );
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
      {revoking !== null && (
        <ChangeDialog
          danger
          onClose={() => setRevoking(null)}
          title={`Revoke the token of ${revoking.subject}?`}
          description="The token is refused within seconds, and its sessions end. This cannot be undone."
          action="Revoke"
          change={revoke}
          input={revoking}
        />
      )}
    </Section>
  );
}

function stateOf(token: Token): string {
  if (token.revoked_at !== null) return "canceled";
  return token.expires_at !== null && Date.parse(token.expires_at) < serverNow() ? "expired" : "active";
}

function NewToken({ onClose }: { onClose: () => void }) {
  const tenant = useTenant();
  const isOperator = useCan(OPERATORS);
  const roles = (Object.keys(ROLES) as Role[]).filter((role) => role !== "host" && (isOperator || role !== "operator"));
  const { values, field } = useFields({ subject: "", expires_at: "" });
  const { subject, expires_at: days } = values;
  const [role, setRole] = useState<Role>("enqueuer");
  const [created, setCreated] = useState<Schemas["CreatedToken"] | null>(null);
  const add = useChange(
    async () => {
      const expires_at = days === "" ? null : new Date(serverNow() + Number(days) * 86_400_000).toISOString();
      const { data } = await client.POST("/api/v1/tokens", {
        params: { query: { tenant } },
        body: { subject, role, scopes: {}, expires_at },
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
  return (
    <ChangeDialog onClose={onClose} title="New token" action="Create the token" change={add} disabled={subject.trim() === ""}>
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
      <TextField label="Valid for days" hint="Empty: until it is revoked." type="number" min={1} max={3650} {...field("expires_at")} />
    </ChangeDialog>
  );
}
