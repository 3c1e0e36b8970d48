import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { Problem } from "@/api/problem";
import { Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ConfirmDialog } from "@/components/Dialog";
import { Command, EmptyState } from "@/components/EmptyState";
import { Field, Input } from "@/components/Form";
import { Section } from "@/components/Page";
import { Time } from "@/components/Time";
import { MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useWithTenant } from "@/session/tenantColumn";
import { SecretDialog } from "./SecretDialog";
import { useChange } from "./useChange";

type InboundHook = Schemas["InboundHook"];

const LIST = "/api/v1/inbound-hooks";

/** Addresses where the servers of others post messages, which become events. */
export function InboundHooks() {
  const tenant = useTenant();
  const manages = useCan(MANAGERS);
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<InboundHook | null>(null);
  const filters = { tenant, limit: 100 };
  const { rows, ...query } = usePages(
    ["get", LIST, filters],
    async (at) => (await client.GET(LIST, { params: { query: { ...filters, ...at } } })).data,
  );
  const remove = useChange(
    (one: InboundHook) => client.DELETE("/api/v1/inbound-hooks/{hook_id}", { params: { path: { hook_id: one.id } } }),
    { done: () => "The inbound hook is removed", lists: [LIST], onDone: () => setRemoving(null) },
  );
  const own: Column<InboundHook>[] = [
    { key: "path", header: "Path", width: "minmax(160px, 2fr)", cell: (one) => <span className="mono truncate">{one.path}</span> },
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
      header: "What for",
      width: "minmax(120px, 1fr)",
      wideOnly: true,
      cell: (one) => <span className="truncate quiet">{one.description}</span>,
    },
    { key: "since", header: "Since", width: "100px", wideOnly: true, cell: (one) => <Time at={one.created_at} /> },
    {
      key: "remove",
      header: "",
      width: "84px",
      align: "end",
      cell: (one) =>
        manages && (
          <Button kind="ghost" onClick={() => setRemoving(one)}>
            Remove
          </Button>
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
        hasMore={query.hasNextPage}
        isLoadingMore={query.isFetchingNextPage}
        onMore={() => void query.fetchNextPage()}
        empty={
          <EmptyState title="No inbound hooks yet" command="atlas hook add payment.received">
            The server of another application posts a signed message to a hook, which becomes an event.
          </EmptyState>
        }
      />
      {adding && <NewHook onClose={() => setAdding(false)} />}
      {removing !== null && (
        <ConfirmDialog
          open
          danger
          onClose={() => setRemoving(null)}
          title="Remove the inbound hook?"
          description={`Messages to ${removing.path} are refused from now on. Events that came of earlier ones stay.`}
          action="Remove the hook"
          busy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate(removing)}
        />
      )}
    </Section>
  );
}

function NewHook({ onClose }: { onClose: () => void }) {
  const tenant = useTenant();
  const [event_name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [made, setMade] = useState<Schemas["CreatedInboundHook"] | null>(null);
  const add = useChange(
    async () => {
      const { data } = await client.POST(LIST, { params: { query: { tenant } }, body: { event_name, description } });
      setMade(data ?? null);
    },
    { done: () => "The inbound hook is added", lists: [LIST] },
  );
  const reason = (field: string): string | undefined => (add.error instanceof Problem ? add.error.reasonOf(field) : undefined);
  if (made !== null) {
    return (
      <SecretDialog secret={made.secret} title="Copy the secret now" onClose={onClose}>
        <Command text={`${window.location.origin}${made.path}`} />
      </SecretDialog>
    );
  }
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="New inbound hook"
      description="Each message that is posted to it, and signed with its secret, becomes an event of this name."
      action="Add the hook"
      busy={add.isPending}
      error={add.error}
      onConfirm={() => add.mutate(undefined)}
      disabled={event_name.trim() === ""}
    >
      <Field label="Event" required error={reason("event_name")}>
        {(control) => (
          <Input {...control} value={event_name} placeholder="payment.received" onChange={(event) => setName(event.target.value)} />
        )}
      </Field>
      <Field label="Description" error={reason("description")}>
        {(control) => <Input {...control} value={description} maxLength={200} onChange={(event) => setDescription(event.target.value)} />}
      </Field>
    </ConfirmDialog>
  );
}
