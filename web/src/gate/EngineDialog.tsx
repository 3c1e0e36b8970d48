import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, client } from "@/api/client";
import { ChangeDialog } from "@/components/Dialog";
import { TextField } from "@/components/Form";
import { useToast } from "@/components/Toast";

/** Asks for a reason and says what follows, then switches the engine. */
export function EngineDialog({ enabled, onClose }: { enabled: boolean; onClose: () => void }) {
  const queries = useQueryClient();
  const toast = useToast();
  const [reason, setReason] = useState("");
  const change = useMutation({
    mutationFn: async () => {
      const body = { enabled, reason: reason.trim() === "" ? null : reason.trim() };
      return (await client.PUT("/api/v1/system/engine-enabled", { body })).data;
    },
    onSuccess: (gate) => {
      queries.setQueryData(api.queryOptions("get", "/api/v1/system/atlas-online", {}).queryKey, gate);
      toast(enabled ? "The engine is on" : "The engine is off");
      onClose();
    },
  });
  return (
    <ChangeDialog
      onClose={onClose}
      title={enabled ? "Switch the engine on?" : "Switch the engine off?"}
      description={
        enabled
          ? "Workflow requests become runs again, in order."
          : "Workflow requests wait. Runs that have started and all other jobs continue."
      }
      action={enabled ? "Switch on" : "Switch off"}
      danger={!enabled}
      change={change}
    >
      <TextField
        label="Reason"
        hint="Recorded in the audit log."
        value={reason}
        maxLength={2000}
        placeholder="new policies"
        onChange={setReason}
      />
    </ChangeDialog>
  );
}
