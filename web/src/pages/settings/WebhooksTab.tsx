import { Link } from "@tanstack/react-router";
import { Webhook as WebhookIcon } from "lucide-react";
import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { saveEdit } from "@/api/edits";
import { useList } from "@/api/pages";
import { Action, Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { useEdit } from "@/components/useEdit";
import { useFields } from "@/components/useFields";
import { MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { useTenantField } from "@/session/useTenantField";
import { useWithTenant } from "@/session/tenantColumn";
import { InboundHooks } from "./InboundHooks";
import { listOf } from "./lists";
import { RotateSecret } from "./RotateSecret";
import { SecretDialog } from "./SecretDialog";
import { useChange } from "@/components/useChange";

type Webhook = Schemas["Webhook"];

const LIST = "/api/v1/webhooks";
const ONE = "/api/v1/webhooks/{webhook_id}";

/** Messages to the servers of others and from them. */
export function WebhooksTab() {
  return (
    <>
      <Webhooks />
      <InboundHooks />
    </>
  );
}

/** Whether its deliveries arrive. */
function stateOf(webhook: Webhook): { status: string; label: string } {
  if (!webhook.is_enabled) return { status: "disabled", label: "disabled" };
  return webhook.failing_since === null ? { status: "active", label: "active" } : { status: "failed", label: "failing" };
}

function Webhooks() {
  const tenant = useTenant();
  const manages = useCan(MANAGERS);
  const [editing, setEditing] = useState<Webhook | "new" | null>(null);
  const [removing, setRemoving] = useState<Webhook | null>(null);
  const [rotating, setRotating] = useState<Webhook | null>(null);
  const { rows, ...query } = useList(LIST, { tenant }, { live: ["webhook"], refetchInterval: 30_000 });
  const toggle = useChange((one: Webhook) => saveEdit({ base: one, body: { is_enabled: !one.is_enabled }, ...editOf(one) }), {
    done: (one) => `The webhook is ${one.is_enabled ? "disabled" : "enabled: it receives events from now on"}`,
    lists: [LIST],
    unasked: true,
  });
  const remove = useChange((one: Webhook) => client.DELETE(ONE, { params: { path: { webhook_id: one.id } } }), {
    done: () => "The webhook is removed",
    lists: [LIST],
    onDone: () => setRemoving(null),
  });
  const test = useChange(
    (one: Webhook) => client.POST("/api/v1/webhooks/{webhook_id}/test", { params: { path: { webhook_id: one.id } } }),
    { done: () => "Test sent; Deliveries shows the result", lists: [], unasked: true },
  );
  const own: Column<Webhook>[] = [
    {
      key: "state",
      header: "State",
      width: "100px",
      cell: (one) => (
        <span title={one.disabled_reason ?? one.last_error ?? ""}>
          <StatusChip {...stateOf(one)} />
        </span>
      ),
    },
    { key: "url", header: "Address", width: "minmax(160px, 2fr)", text: (one) => one.url, look: "mono" },
    { key: "events", header: "Events", width: "minmax(120px, 1fr)", wideOnly: true, text: (one) => one.events.join(", "), look: "quiet" },
    { key: "deliveries", header: "", width: "84px", cell: (one) => <Deliveries webhook={one} /> },
    {
      key: "actions",
      header: "",
      width: "368px",
      align: "end",
      wideOnly: true,
      cell: (one) =>
        manages && (
          <>
            <Action onClick={() => test.mutate(one)}>Test</Action>
            <Action onClick={() => toggle.mutate(one)}>{one.is_enabled ? "Disable" : "Enable"}</Action>
            <Action onClick={() => setRotating(one)}>Rotate</Action>
            <Action onClick={() => setEditing(one)}>Edit</Action>
            <Action onClick={() => setRemoving(one)}>Remove</Action>
          </>
        ),
    },
  ];
  const columns = useWithTenant(own, rows);
  return (
    <Section
      title="Webhooks"
      actions={
        manages && (
          <Button kind="primary" icon={<WebhookIcon size={14} aria-hidden />} onClick={() => setEditing("new")}>
            New webhook
          </Button>
        )
      }
    >
      <DataTable
        label="webhooks"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={query}
        empty={
          <EmptyState title="No webhooks yet" command="atlas webhooks add https://shop.example/atlas --tenant demo --event job.failed">
            A webhook gets a signed message when something happens to jobs, runs or approvals.
          </EmptyState>
        }
      />
      {editing !== null && <EditWebhook webhook={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
      {rotating !== null && (
        <RotateSecret
          meanwhile="Until the old secret expires, each message carries a signature of both."
          lists={[LIST]}
          rotate={async (body) =>
            (await client.POST("/api/v1/webhooks/{webhook_id}/rotate-secret", { params: { path: { webhook_id: rotating.id } }, body })).data
              ?.secret
          }
          onClose={() => setRotating(null)}
        />
      )}
      {removing !== null && (
        <ChangeDialog
          danger
          onClose={() => setRemoving(null)}
          title="Remove the webhook?"
          description={`${removing.url} receives no more events, and pending deliveries fail. Earlier delivery jobs stay.`}
          action="Remove the webhook"
          change={remove}
          input={removing}
        />
      )}
    </Section>
  );
}

/** How a webhook is edited: as it was shown, or not at all. */
function editOf({ id }: Webhook) {
  const params = { path: { webhook_id: id } };
  return {
    entity: { type: "webhook", id },
    read: () => client.GET(ONE, { params }),
    write: (body: Schemas["WebhookChange"], headers: { "If-Match": string }) => client.PATCH(ONE, { params, body, headers }),
  };
}

/** Its deliveries are jobs, which the list of jobs shows and retries. */
function Deliveries({ webhook }: { webhook: Webhook }) {
  return (
    <Link to="/jobs" search={({ tenant }) => ({ tenant, correlation_id: `webhook:${webhook.id}` })}>
      Deliveries
    </Link>
  );
}

function EditWebhook({ webhook, onClose }: { webhook: Webhook | null; onClose: () => void }) {
  const { tenant, isMissing, field: tenantField } = useTenantField();
  const { values, field } = useFields({
    url: webhook?.url ?? "https://",
    events: webhook?.events.join(", ") ?? "job.failed, run.*",
    description: webhook?.description ?? "",
  });
  const [secret, setSecret] = useState<string | null>(null);
  const edit = useEdit(webhook);
  const save = useChange(
    async () => {
      const body = { ...values, events: listOf(values.events) as Schemas["NewWebhook"]["events"] };
      if (webhook !== null) {
        await edit({ body, ...editOf(webhook) });
        onClose();
        return;
      }
      const { data } = await client.POST(LIST, { params: { query: { tenant } }, body });
      setSecret(data?.secret ?? null);
    },
    { done: () => "The webhook is saved", lists: [LIST] },
  );
  if (secret !== null) return <SecretDialog secret={secret} title="Copy the secret now" onClose={onClose} />;
  return (
    <ChangeDialog
      onClose={onClose}
      title={webhook === null ? "New webhook" : "Edit the webhook"}
      description="Receives events from now on, signed with its secret."
      action="Save"
      change={save}
      disabled={values.url === "" || values.events.trim() === "" || (webhook === null && isMissing)}
    >
      {webhook === null && tenantField}
      <TextField label="Address" required {...field("url")} />
      <TextField label="Events" hint="Separated by commas, such as job.failed, run.*, approval.requested." required {...field("events")} />
      <TextField label="Description" maxLength={200} {...field("description")} />
    </ChangeDialog>
  );
}
