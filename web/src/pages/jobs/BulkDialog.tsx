import { useState } from "react";
import { ConfirmDialog } from "@/components/Dialog";
import { TextField } from "@/components/Form";
import { plural } from "@/format/numbers";
import { type BulkAction, type BulkVerb, leftOutOf, type Selection, useBulkAction, useBulkPreview, VERBS } from "./bulk";

interface BulkDialogProps {
  verb: BulkVerb;
  selection: Selection;
  /** What else follows. */
  about?: string;
  onClose: () => void;
  onDone: (action: BulkAction) => void;
}

const MANY = 20;

/** Asks before many jobs are changed: how many, what follows, how fast, and why. A filter is previewed, and the jobs of the preview are changed. */
export function BulkDialog({ verb, selection, about, onClose, onDone }: BulkDialogProps) {
  const [reason, setReason] = useState("");
  const [rate, setRate] = useState("");
  const bulk = useBulkAction((action) => {
    onDone(action);
    onClose();
  });
  const { label, consequence } = VERBS[verb];
  const preview = useBulkPreview(verb, selection);
  const count = "ids" in selection ? selection.ids.length : preview.data?.count;
  const chosen = "ids" in selection ? { ids: selection.ids } : { digest: preview.data?.digest ?? null };
  const what = count === undefined ? "jobs" : plural(count, "job");
  const needsReason = verb === "discard";
  const confirm = (): void =>
    bulk.mutate({ action: verb, reason: reason.trim(), ...chosen, ...(rate !== "" && { rate_per_second: Number(rate) }) });
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`${label} ${what}?`}
      description={
        <>
          {preview.isLoading && <p role="status">Counting the jobs that match…</p>}
          <p>{consequence}</p>
          {about !== undefined && <p>{about}</p>}
          {preview.data !== undefined && leftOutOf(preview.data).map((sentence) => <p key={sentence}>{sentence}</p>)}
        </>
      }
      action={`${label} ${what}`}
      danger={verb === "delete" || verb === "discard"}
      busy={bulk.isPending}
      error={bulk.error ?? preview.error}
      disabled={count === undefined || count === 0 || (needsReason && reason.trim() === "")}
      onConfirm={confirm}
    >
      <TextField
        label="Reason"
        hint="Recorded in the audit log with every job."
        required={needsReason}
        maxLength={500}
        value={reason}
        onChange={setReason}
      />
      {count !== undefined && count >= MANY && verb !== "delete" && (
        <TextField
          label="Maximum per second"
          hint="Empty: as fast as possible. The action continues when this page is closed."
          type="number"
          min={0.01}
          max={1000}
          step="any"
          value={rate}
          onChange={setRate}
        />
      )}
    </ConfirmDialog>
  );
}
