import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { ConfirmDialog } from "@/components/Dialog";
import { TextField } from "@/components/Form";
import { plural, whole } from "@/format/numbers";
import { shortId } from "@/format/words";
import {
  type BulkAction,
  type BulkVerb,
  leftOutOf,
  type Refusal,
  refusalsOf,
  type Selection,
  useBulkAction,
  useBulkPreview,
  VERBS,
} from "./bulk";
import styles from "./Jobs.module.css";

interface BulkDialogProps {
  verb: BulkVerb;
  selection: Selection;
  /** What else follows. */
  about?: string;
  onClose: () => void;
  onDone: (action: BulkAction) => void;
}

const MANY = 20;
/** Jobs of one reason that are named. */
const MAX_NAMED = 5;

/** Asks before many jobs are changed: how many, which not, what follows, how fast, and why. The jobs of a preview are changed, and no others. */
export function BulkDialog({ verb, selection: asked, about, onClose, onDone }: BulkDialogProps) {
  // As it was asked, also if rows of the list change meanwhile.
  const [selection] = useState(asked);
  const [reason, setReason] = useState("");
  const [rate, setRate] = useState("");
  const bulk = useBulkAction((action) => {
    onDone(action);
    onClose();
  });
  const { label, consequence } = VERBS[verb];
  const preview = useBulkPreview(verb, selection);
  const count = preview.data?.count;
  const what = count === undefined ? "jobs" : plural(count, "job");
  const needsReason = verb === "discard";
  const confirm = (): void =>
    bulk.mutate({
      action: verb,
      reason: reason.trim(),
      digest: preview.data?.digest ?? null,
      ...(rate !== "" && { rate_per_second: Number(rate) }),
    });
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
          {preview.data !== undefined && "ids" in selection && <Refused refusals={refusalsOf(preview.data)} of={selection.ids.length} />}
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

/** The chosen jobs that the action would leave as they are, and why. A run that is forked instead is opened as a run. */
function Refused({ refusals, of }: { refusals: readonly Refusal[]; of: number }) {
  if (refusals.length === 0) return null;
  const count = refusals.reduce((sum, { ids }) => sum + ids.length, 0);
  return (
    <>
      <p>
        {of === 1
          ? "The chosen job stays unchanged:"
          : `${whole(count)} of the ${whole(of)} chosen jobs ${count === 1 ? "stays" : "stay"} unchanged:`}
      </p>
      <ul aria-label="Unchanged jobs" className={styles.refused}>
        {refusals.map(({ verdict, words, ids }) => (
          <li key={verdict}>
            {whole(ids.length)} {words}:{" "}
            {ids.slice(0, MAX_NAMED).map((id) => (
              <span key={id} className="mono">
                {FORKED.has(verdict) ? (
                  <Link to="/runs/$runId" params={{ runId: id }} search={({ tenant }) => ({ tenant })} title={id}>
                    {shortId(id)}
                  </Link>
                ) : (
                  <Link to="/jobs/$jobId" params={{ jobId: id }} search={({ tenant }) => ({ tenant })} title={id}>
                    {shortId(id)}
                  </Link>
                )}
              </span>
            ))}
            {ids.length > MAX_NAMED && <span>and {whole(ids.length - MAX_NAMED)} more</span>}
          </li>
        ))}
      </ul>
    </>
  );
}

const FORKED: ReadonlySet<string> = new Set(["compensated", "review"]);
