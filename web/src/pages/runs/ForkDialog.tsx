import { useNavigate } from "@tanstack/react-router";
import { ChangeDialog } from "@/components/Dialog";
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
      description="A new run with the same input reuses what was recorded when this step began, and does everything from it on itself. This run stays as it is. Policy decides about the new one as about any request."
      action="Fork the run"
      change={fork}
      input={step.key}
    />
  );
}
