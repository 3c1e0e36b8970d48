import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { ChangeDialog } from "@/components/Dialog";
import { Checkbox, TextField } from "@/components/Form";
import { useChange } from "@/components/useChange";

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
    <ChangeDialog
      danger
      onClose={onClose}
      title={`Remove the tenant ${tenant.slug}?`}
      description="Its jobs, runs, schedules, hosts and tokens are deleted. This cannot be undone; the audit log keeps what happened."
      action="Remove the tenant"
      change={remove}
      disabled={typed !== tenant.slug}
    >
      <TextField label={`Type ${tenant.slug} to confirm`} required value={typed} onChange={setTyped} />
      <TextField label="Reason" hint="Recorded in the audit log." value={reason} maxLength={200} onChange={setReason} />
      <Checkbox label="Cancel its work that has not finished" checked={cancel} onChange={(event) => setCancel(event.target.checked)} />
    </ChangeDialog>
  );
}
