import { useNavigate } from "@tanstack/react-router";
import { api } from "@/api/client";
import { ChangeDialog } from "@/components/Dialog";
import { useTenant } from "@/session/tenant";
import type { ListedStep } from "./model";
import { useFork } from "./runs";

/** Asks before a new run is made from a step on. */
export function ForkDialog({ runId, step, onClose }: { runId: string; step: ListedStep; onClose: () => void }) {
  const navigate = useNavigate();
  const fork = useFork(runId, (id) => void navigate({ to: "/runs/$runId", params: { runId: id }, search: ({ tenant }) => ({ tenant }) }));
  return (
    <ChangeDialog
      onClose={onClose}
      title={`Fork from ${step.name}?`}
      description="A new run with the same input reuses the results recorded before this step, and runs this step and all after it again. This run stays unchanged. Policy applies to the new run."
      action="Fork the run"
      change={fork}
      input={step.key}
    />
  );
}

/** Asks before a run that has undone its steps is made anew, from its first step on: a retry is refused. */
export function ForkAnewDialog({ runId, onClose }: { runId: string; onClose: () => void }) {
  const params = { path: { run_id: runId }, query: { tenant: useTenant(), limit: 1 } };
  const [first] = api.useQuery("get", "/api/v1/runs/{run_id}/steps/brief", { params }).data?.items ?? [];
  return first === undefined ? null : <ForkDialog runId={runId} step={first} onClose={onClose} />;
}
