import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { Action, Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { Command, EmptyState } from "@/components/EmptyState";
import { TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { useFields } from "@/components/useFields";
import { MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useTenantField } from "@/session/useTenantField";
import { useWithTenant } from "@/session/tenantColumn";
import { RotateSecret } from "./RotateSecret";
import { SecretDialog } from "./SecretDialog";
import { useChange } from "@/components/useChange";

type InboundHook = Schemas["InboundHook"];

const LIST = "/api/v1/inbound-hooks";

/** Addresses where the servers of others post messages, which become events. */
export function InboundHooks() {
  const tenant = useTenant();
  const manages = useCan(MANAGERS);
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<InboundHook | null>(null);
  const [rotating, setRotating] = useState<InboundHook | null>(null);
  const { rows, ...query } = useList(LIST, { tenant });
  const remove = useChange(
    (one: InboundHook) => client.DELETE("/api/v1/inbound-hooks/{hook_id}", { params: { path: { hook_id: one.id } } }),
    { done: () => "The inbound hook is removed", lists: [LIST], onDone: () => setRemoving(null) },
  );
  const own: Column<InboundHook>[] = [
    { key: "path", header: "Path", width: "minmax(160px, 2fr)", text: (one) => one.path, look: "mono" },
    {
      key: "event",
      header: "Event",
      width: "minmax(120px, 1fr)",
      cell: (one) => (
        <Link to="/schedules" search={(before) => ({ tenant: before.tenant, tab: "events", name: one.event_name })} className="truncate">
          {one.event_name}
        </Link>
      ),
    },
    {
      key: "description",
      header: "Description",
      width: "minmax(120px, 1fr)",
      wideOnly: true,
      text: (one) => one.description,
      look: "quiet",
    },
    { key: "since", header: "Since", width: "100px", wideOnly: true, cell: (one) => <Time at={one.created_at} /> },
    {
      key: "actions",
      header: "",
      width: "152px",
      align: "end",
      cell: (one) =>
        manages && (
          <>
            <Action onClick={() => setRotating(one)}>Rotate</Action>
            <Action onClick={() => setRemoving(one)}>Remove</Action>
          </>
        ),
    },
  ];
  const columns = useWithTenant(own, rows);
  return (
    <Section title="Inbound hooks" actions={manages && <Button onClick={() => setAdding(true)}>New inbound hook</Button>}>
      <DataTable
        label="inbound hooks"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={query}
        empty={
          <EmptyState title="No inbound hooks yet" command="atlas hook add payment.received">
            Another application posts signed messages to a hook; each becomes an event.
          </EmptyState>
        }
      />
      {adding && <NewHook onClose={() => setAdding(false)} />}
      {rotating !== null && (
        <RotateSecret
          meanwhile="Until the old secret expires, messages that are signed with either are accepted."
          lists={[LIST]}
          rotate={async (body) =>
            (await client.POST("/api/v1/inbound-hooks/{hook_id}/rotate-secret", { params: { path: { hook_id: rotating.id } }, body })).data
              ?.secret
          }
          onClose={() => setRotating(null)}
        />
      )}
      {removing !== null && (
        <ChangeDialog
          danger
          onClose={() => setRemoving(null)}
          title="Remove the inbound hook?"
          description={`Messages to ${removing.path} are refused from now on. Events from earlier messages stay.`}
          action="Remove the hook"
          change={remove}
          input={removing}
        />
      )}
    </Section>
  );
}

function NewHook({ onClose }: { onClose: () => void }) {
  const { tenant, isMissing, field: tenantField } = useTenantField();
  const { values, field } = useFields({ event_name: "", description: "" });
  const [created, setCreated] = useState<Schemas["CreatedInboundHook"] | null>(null);
  const add = useChange(
    async () => {
      const { data } = await client.POST(LIST, { params: { query: { tenant } }, body: values });
      setCreated(data ?? null);
    },
    { done: () => "The inbound hook is added", lists: [LIST] },
  );
  if (created !== null) {
    return (
      <SecretDialog secret={created.secret} title="Copy the secret now" onClose={onClose}>
        <Command text={`${window.location.origin}${created.path}`} />
      </SecretDialog>
    );
  }
  return (
    <ChangeDialog
      onClose={onClose}
      title="New inbound hook"
      description="Each message that is posted to it, and signed with its secret, becomes an event of this name."
      action="Add the hook"
      change={add}
      disabled={values.event_name.trim() === "" || isMissing}
    >
      {tenantField}
      <TextField label="Event" required placeholder="payment.received" {...field("event_name")} />
      <TextField label="Description" maxLength={200} {...field("description")} />
    </ChangeDialog>
  );
}
