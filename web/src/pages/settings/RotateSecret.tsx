import { useState } from "react";
import { ChangeDialog } from "@/components/Dialog";
import { TextField } from "@/components/Form";
import { SecretDialog } from "./SecretDialog";
import { useChange } from "@/components/useChange";

interface RotateSecretProps {
  /** What happens while both secrets hold. */
  meanwhile: string;
  /** Makes a new secret, and returns it. */
  rotate: (body: { overlap_seconds: number }) => Promise<string | undefined>;
  lists: string[];
  onClose: () => void;
}

/** Gives a webhook or an inbound hook another signing secret. The old one holds for some hours more. */
export function RotateSecret({ meanwhile, rotate, lists, onClose }: RotateSecretProps) {
  const [hours, setHours] = useState("24");
  const [secret, setSecret] = useState<string>();
  const change = useChange(async () => setSecret(await rotate({ overlap_seconds: Math.round(Number(hours) * 3600) })), {
    done: () => "The secret is rotated",
    lists,
  });
  if (secret !== undefined) return <SecretDialog secret={secret} title="Copy the new secret now" onClose={onClose} />;
  return (
    <ChangeDialog
      onClose={onClose}
      title="Rotate the secret?"
      description={`A new secret is created and shown once. ${meanwhile}`}
      action="Rotate the secret"
      change={change}
      disabled={hours === "" || Number(hours) < 0}
    >
      <TextField
        label="Keep the old secret for hours"
        hint="0: the old secret stops working immediately, for example after a leak."
        name="overlap_seconds"
        type="number"
        min={0}
        max={168}
        step="any"
        required
        value={hours}
        onChange={setHours}
      />
    </ChangeDialog>
  );
}
