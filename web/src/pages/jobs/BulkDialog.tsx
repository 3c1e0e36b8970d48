import { useState } from "react";
import type { Schemas } from "@/api/client";
import { ConfirmDialog } from "@/components/Dialog";
import { Field, Input } from "@/components/Form";
import { plural } from "@/format/numbers";
import { type BulkAction, type BulkVerb, useBulkAction, VERBS } from "./bulk";

interface BulkDialogProps {
  verb: BulkVerb;
  /** The jobs: by their ids, or all that pass a filter. */
  selection: { ids: string[] } | { filter: Schemas["JobFilterBody"] };
  /** How many, where it is known. */
  count: number | null;
  onClose: () => void;
  onDone: (action: BulkAction) => void;
}

const MANY = 20;

/** Asks before many jobs are changed: what follows, how fast, and why. */
export function BulkDialog({ verb, selection, count, onClose, onDone }: BulkDialogProps) {
  const [reason, setReason] = useState("");
  const [rate, setRate] = useState("");
  const bulk = useBulkAction((action) => {
    onDone(action);
    onClose();
  });
  const { label, consequence } = VERBS[verb];
  const what = count === null ? "all that match" : plural(count, "job");
  const needsReason = verb === "discard";
  const confirm = (): void =>
    bulk.mutate({ action: verb, reason: reason.trim(), ...selection, ...(rate !== "" && { rate_per_second: Number(rate) }) });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`${label} ${what}?`}
      description={consequence}
      action={`${label} ${what}`}
      danger={verb === "delete" || verb === "discard"}
      busy={bulk.isPending}
      error={bulk.error}
      disabled={needsReason && reason.trim() === ""}
      onConfirm={confirm}
    >
      <Field label="Reason" hint="It is in the audit log, beside every job." required={needsReason}>
        {(control) => <Input {...control} maxLength={500} value={reason} onChange={(event) => setReason(event.target.value)} />}
      </Field>
      {(count === null || count >= MANY) && verb !== "delete" && (
        <Field label="At most so many a second" hint="Empty: as fast as possible. The action goes on when this page is closed.">
          {(control) => (
            <Input
              {...control}
              type="number"
              min={0.01}
              max={1000}
              step="any"
              value={rate}
              onChange={(event) => setRate(event.target.value)}
            />
          )}
        </Field>
      )}
    </ConfirmDialog>
  );
}
