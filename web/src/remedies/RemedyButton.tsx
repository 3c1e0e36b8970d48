import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { client, type Schemas } from "@/api/client";
import { saveEdit } from "@/api/edits";
import { Button } from "@/components/Button";
import { ChangeDialog } from "@/components/Dialog";
import { useToast } from "@/components/Toast";
import { EngineDialog } from "@/gate/EngineDialog";
import { GateDialog } from "@/gate/gate";
import { DecisionOf } from "@/pages/approvals/DecisionDialog";
import { SettleOf } from "@/pages/effects/SettleDialog";
import { editOf } from "@/pages/schedules/triggers";
import { ResumeDialog } from "@/pauses/PauseDialog";
import { useMayResume, usePauses } from "@/pauses/pauses";
import { MANAGERS, OPERATORS, type Role, useSession } from "@/session/session";

type Action = Schemas["Remedy"];

const LABELS: Record<string, string> = {
  resume: "Resume",
  retry: "Retry",
  bring_online: "Bring online",
  enable_engine: "Switch on",
  edit_tenant: "Raise the limit",
  edit_definition: "Edit the command",
  enable_trigger: "Enable",
  fire_trigger: "Fire now",
  open_job: "Open the job",
  open_run: "Open the run",
};
const FOR_OPERATORS = ["bring_online", "enable_engine", "edit_tenant", "edit_definition"];
const FOR_ALL = ["open_job", "open_run"];

/** The remedy of an explanation as a button, for the roles that may do it. It asks before it changes anything. */
export function RemedyButton({ about, action }: { about: string; action: Action }) {
  const [open, setOpen] = useState(false);
  const navigate = useNavigate();
  const { role } = useSession();
  const mayResume = useMayResume();
  const pause = usePauses()?.find((one) => one.id === action.target);
  const label = LABELS[action.verb];
  if (action.verb === "decide" && action.target != null) return <DecisionOf approvalId={action.target} />;
  if (action.verb === "settle_effect" && action.target != null) return <SettleOf effectId={action.target} />;
  if (label === undefined || !rolesFor(action.verb, role)) return null;
  if (action.verb === "resume" && (pause === undefined || !mayResume(pause))) return null;
  const target = action.target ?? "";
  const keep = ({ tenant }: { tenant?: string | undefined }): { tenant: string | undefined } => ({ tenant });
  const leads: Record<string, () => unknown> = {
    edit_tenant: () => navigate({ to: "/settings", search: (before) => ({ ...keep(before), tab: "tenants", edit: target }) }),
    edit_definition: () => navigate({ to: "/settings", search: (before) => ({ ...keep(before), tab: "definitions", edit: target }) }),
    open_job: () => navigate({ to: "/jobs/$jobId", params: { jobId: target }, search: keep }),
    open_run: () => navigate({ to: "/runs/$runId", params: { runId: target }, search: keep }),
  };
  const close = (): void => setOpen(false);
  const dialogs: Record<string, () => ReactNode> = {
    resume: () => pause && <ResumeDialog pause={pause} onClose={close} />,
    bring_online: () => <GateDialog online onClose={close} />,
    enable_engine: () => <EngineDialog enabled onClose={close} />,
  };
  return (
    <>
      <Button kind="primary" onClick={() => (leads[action.verb] ?? (() => setOpen(true)))()}>
        {label}
      </Button>
      {open && (dialogs[action.verb]?.() ?? <Confirmed about={about} verb={action.verb} target={target} onClose={close} />)}
    </>
  );
}

function rolesFor(verb: string, role: Role): boolean {
  return FOR_ALL.includes(verb) || (FOR_OPERATORS.includes(verb) ? OPERATORS : MANAGERS).includes(role);
}

const QUESTIONS: Record<string, [title: string, description: string, done: string]> = {
  retry: ["Retry?", "It is queued again with all of its retries.", "It is queued again"],
  enable_trigger: ["Enable the trigger?", "From now on, it fires at its scheduled times or on its events.", "The trigger is enabled"],
  fire_trigger: ["Fire the trigger now?", "It fires immediately, independent of its schedule.", "The trigger has fired"],
};

/** Asks, does it, and says what became of it. */
function Confirmed({ about, verb, target, onClose }: { about: string; verb: string; target: string; onClose: () => void }) {
  const queries = useQueryClient();
  const toast = useToast();
  const [title, description, done] = QUESTIONS[verb] ?? ["", "", ""];
  const change = useMutation({
    mutationFn: (): Promise<unknown> => {
      if (verb === "enable_trigger") return saveEdit({ base: { is_enabled: false }, body: { is_enabled: true }, ...editOf(target) });
      if (verb === "fire_trigger")
        return client.POST("/api/v1/jobs/triggers/{trigger_id}/fire", { params: { path: { trigger_id: target } }, body: {} });
      if (about === "run") return client.POST("/api/v1/runs/{run_id}/retry", { params: { path: { run_id: target } } });
      return client.POST("/api/v1/jobs/{job_id}/retry", { params: { path: { job_id: target } } });
    },
    onSuccess: async () => {
      toast(done);
      await queries.invalidateQueries();
      onClose();
    },
  });
  return (
    <ChangeDialog
      onClose={onClose}
      title={verb === "retry" ? `Retry the ${about}?` : title}
      description={
        verb === "retry" && about === "run" ? "Completed steps keep their results; the run continues at the failed step." : description
      }
      action={LABELS[verb] ?? "OK"}
      change={change}
    />
  );
}
