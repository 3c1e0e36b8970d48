import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { ConfirmDialog } from "@/components/Dialog";
import { Command } from "@/components/EmptyState";
import { Checkbox, Field, Input } from "@/components/Form";
import { useChange } from "./useChange";

/** Removes a tenant with all that belongs to it, once its slug was typed. */
export function RemoveTenant({ tenant, onClose }: { tenant: Schemas["Tenant"]; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  const [cancel, setCancel] = useState(false);
  const remove = useChange(
    () =>
      client.DELETE("/api/v1/tenants/{slug_or_id}", {
        params: { path: { slug_or_id: tenant.slug }, query: { cancel, ...(reason.trim() !== "" && { reason: reason.trim() }) } },
      }),
    { done: () => `The tenant ${tenant.slug} is being removed`, lists: ["/api/v1/tenants"], onDone: onClose },
  );
  return (
    <ConfirmDialog
      open
      danger
      onClose={onClose}
      title={`Remove the tenant ${tenant.slug}?`}
      description="Its jobs, runs, schedules, hosts and tokens are deleted. This cannot be undone; the audit log keeps what happened. To move it to another installation instead, export it first:"
      action="Remove the tenant"
      busy={remove.isPending}
      error={remove.error}
      disabled={typed !== tenant.slug}
      onConfirm={() => remove.mutate(undefined)}
    >
      <Command text={`atlas tenant export ${tenant.slug} ${tenant.slug}.zip`} />
      <Field label={`Type ${tenant.slug} to confirm`} required>
        {(control) => <Input {...control} value={typed} onChange={(event) => setTyped(event.target.value)} />}
      </Field>
      <Field label="Reason" hint="The audit log keeps it.">
        {(control) => <Input {...control} value={reason} maxLength={200} onChange={(event) => setReason(event.target.value)} />}
      </Field>
      <Checkbox label="Cancel its work that has not finished" checked={cancel} onChange={(event) => setCancel(event.target.checked)} />
    </ConfirmDialog>
  );
}
