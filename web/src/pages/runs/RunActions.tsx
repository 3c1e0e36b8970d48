import { GitFork, RotateCw, Send, Square } from "lucide-react";
import { useState } from "react";
import { client } from "@/api/client";
import { Button } from "@/components/Button";
import { ChangeDialog, ConfirmDialog } from "@/components/Dialog";
import { Field, TextArea, TextField } from "@/components/Form";
import { readObject } from "@/format/json";
import { plural } from "@/format/numbers";
import { usePaletteActions } from "@/frame/paletteState";
import { useShortcut } from "@/frame/shortcuts";
import { useChange } from "@/components/useChange";
import { JOB_MAKERS, MANAGERS, useCan } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { ForkAnewDialog } from "./ForkDialog";
import type { Run } from "./model";
import { type RunVerb, useRunVerb } from "./runs";
import { hasUndone, mayRetry } from "./states";

const ENDED = new Set(["succeeded", "failed", "canceled"]);

interface RunActionsProps {
  run: Run;
  /** The event that it waits for. */
  awaited: string | undefined;
}

/** What a person can do with a run in its present state. One that has undone its work is forked: a retry is refused. */
export function RunActions({ run, awaited }: RunActionsProps) {
  const manages = useCan(MANAGERS);
  const makes = useCan(JOB_MAKERS);
  const [asked, setAsked] = useState<RunVerb | "signal" | "fork" | null>(null);
  const ended = ENDED.has(run.status);
  const retries = manages && mayRetry(run);
  const cancels = manages && !ended && run.cancel_requested_at === null;
  useShortcut("r", "Retry this run", () => setAsked("retry"), retries);
  usePaletteActions([
    ...(makes && !ended ? [{ id: "signal run", label: "Signal this run", hint: "Action", icon: Send, run: () => setAsked("signal") }] : []),
    ...(cancels ? [{ id: "cancel run", label: "Cancel this run", hint: "Action", icon: Square, run: () => setAsked("cancel") }] : []),
  ]);
  const close = (): void => setAsked(null);
  return (
    <>
      {makes && !ended && (
        <Button icon={<Send size={14} aria-hidden />} onClick={() => setAsked("signal")}>
          Signal
        </Button>
      )}
      {retries && (
        <Button icon={<RotateCw size={14} aria-hidden />} onClick={() => setAsked("retry")}>
          Retry
        </Button>
      )}
      {manages && hasUndone(run) && (
        <Button icon={<GitFork size={14} aria-hidden />} onClick={() => setAsked("fork")}>
          Fork
        </Button>
      )}
      {cancels && (
        <Button icon={<Square size={14} aria-hidden />} onClick={() => setAsked("cancel")}>
          Cancel
        </Button>
      )}
      {asked === "signal" && <SignalDialog runId={run.id} awaited={awaited} onClose={close} />}
      {asked === "fork" && <ForkAnewDialog runId={run.id} onClose={close} />}
      {(asked === "cancel" || asked === "retry") && <RunVerbDialog runId={run.id} verb={asked} onClose={close} />}
    </>
  );
}

/** Asks before a run is canceled or retried. */
export function RunVerbDialog({ runId, verb, onClose }: { runId: string; verb: RunVerb; onClose: () => void }) {
  const change = useRunVerb(runId);
  const cancels = verb === "cancel";
  return (
    <ConfirmDialog
      onClose={onClose}
      title={cancels ? "Cancel this run?" : "Retry this run?"}
      description={
        cancels
          ? "The run stops at its next step, and its jobs and child runs are canceled. Completed steps are not undone."
          : "Completed steps keep their results; the run continues at the failed step."
      }
      action={cancels ? "Cancel the run" : "Retry the run"}
      danger={cancels}
      busy={change.isPending}
      error={change.error}
      onConfirm={() => change.mutate(verb, { onSuccess: onClose })}
    />
  );
}

/** Sends an event to this run alone. */
function SignalDialog({ runId, awaited, onClose }: { runId: string; awaited: string | undefined; onClose: () => void }) {
  const tenant = useTenant();
  const [name, setName] = useState(awaited ?? "");
  const [context, setContext] = useState("{}");
  const value = readObject(context);
  const send = useChange(
    async () => {
      const params = { path: { run_id: runId }, query: { tenant } };
      return (await client.POST("/api/v1/runs/{run_id}/signal", { params, body: { name: name.trim(), context: value ?? {} } })).data;
    },
    {
      done: (_, sent) => (sent?.woken === 0 ? "Sent; no step waits for it yet" : `Sent; ${plural(sent?.woken ?? 0, "step")} woken`),
      lists: [],
      onDone: onClose,
    },
  );
  return (
    <ChangeDialog
      onClose={onClose}
      title="Signal this run"
      description="Delivered to this run only: to the step that waits for this event now, or to one that waits for it later."
      action="Send"
      change={send}
      disabled={name.trim() === "" || value === null}
    >
      <TextField label="Event" required value={name} placeholder="order.paid" onChange={setName} />
      <Field label="Context" hint="A JSON object that the step receives" error={value === null ? "Not a JSON object yet." : undefined}>
        {(control) => <TextArea {...control} value={context} onChange={(event) => setContext(event.target.value)} />}
      </Field>
    </ChangeDialog>
  );
}
