import { useState } from "react";
import { useNavigate } from "@tanstack/react-router";
import { ConfirmDialog } from "@/components/Dialog";
import { Field, TextArea } from "@/components/Form";
import { useToast } from "@/components/Toast";
import { readObject } from "@/format/json";
import { targetOf, useFireTrigger, type Trigger } from "./triggers";

/** Fires a trigger beside its schedule, after asking. */
export function FireDialog({ trigger, onClose }: { trigger: Trigger; onClose: () => void }) {
  const [text, setText] = useState("{}");
  const fire = useFireTrigger();
  const toast = useToast();
  const navigate = useNavigate();
  const context = readObject(text);
  const { kind, name } = targetOf(trigger);
  const send = (): void => {
    if (context === null) return;
    fire.mutate(
      { id: trigger.id, context },
      {
        onSuccess: (fired) => {
          const jobId = fired?.job_id;
          const open =
            jobId === undefined || kind === "workflow"
              ? undefined
              : { label: "Open the job", run: () => void navigate({ to: "/jobs/$jobId", params: { jobId } }) };
          toast(`${trigger.label} has fired`, open && { action: open });
          onClose();
        },
      },
    );
  };
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Fire ${trigger.label} now?`}
      description={`The ${kind} ${name} starts immediately. ${trigger.trigger_type === "schedule" ? "The schedule stays as it is." : "No event is stored."}`}
      action="Fire now"
      busy={fire.isPending}
      error={fire.error}
      disabled={context === null}
      onConfirm={send}
    >
      {trigger.trigger_type === "event" && (
        <Field
          label="Context"
          hint="What the event would hold, as a JSON object."
          error={context === null ? "Not a JSON object." : undefined}
        >
          {(control) => <TextArea {...control} className="mono" value={text} onChange={(event) => setText(event.target.value)} />}
        </Field>
      )}
    </ConfirmDialog>
  );
}
