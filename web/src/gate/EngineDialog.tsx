import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, client } from "@/api/client";
import { ChangeDialog } from "@/components/Dialog";
import { TextField } from "@/components/Form";
import { useToast } from "@/components/Toast";
import { useEdit } from "@/components/useEdit";
import { GATE, useGate } from "./gate";

/** Asks for a reason and says what follows, then switches the engine. */
export function EngineDialog({ enabled: asked, onClose }: { enabled: boolean; onClose: () => void }) {
  // As it was asked, also if someone else switches it meanwhile.
  const [enabled] = useState(asked);
  const edit = useEdit(useGate().data);
  const queries = useQueryClient();
  const toast = useToast();
  const [reason, setReason] = useState("");
  const change = useMutation({
    mutationFn: async () => {
      const { data: now } = await client.GET(GATE, {});
      // Someone else has switched it so: a second time changes nothing.
      if (now?.engine_enabled === enabled) return { gate: now, by: now.engine_by ?? "someone else" };
      const gate = await edit({
        body: { engine_enabled: enabled, engine_reason: reason.trim() === "" ? null : reason.trim() },
        entity: { type: "system_state", id: "engine_enabled" },
        read: () => client.GET(GATE, {}),
        write: async ({ engine_reason }, headers) =>
          (await client.PUT("/api/v1/system/engine-enabled", { body: { enabled, reason: engine_reason }, headers })).data,
      });
      return { gate, by: null };
    },
    onSuccess: ({ gate, by }) => {
      queries.setQueryData(api.queryOptions("get", GATE, {}).queryKey, gate);
      const state = enabled ? "on" : "off";
      toast(by === null ? `The engine is ${state}` : `The engine is ${state} already: ${by} switched it. Nothing was changed.`);
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
