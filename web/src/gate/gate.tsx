import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { ChangeDialog } from "@/components/Dialog";
import { DurationField } from "@/components/DurationField";
import { Switch, TextField } from "@/components/Form";
import { useToast } from "@/components/Toast";
import { useEdit } from "@/components/useEdit";
import { plural } from "@/format/numbers";
import { OPERATORS, useCan } from "@/session/session";

export type Gate = Schemas["Gate"];

export const GATE = "/api/v1/system/atlas-online";

/** Whether Atlas starts work; kept up to date by its events. */
export function useGate() {
  return api.useQuery("get", "/api/v1/system/atlas-online", {}, { meta: { live: ["atlas"] }, refetchInterval: 30_000 });
}

/** The switch that stops every start, for operators; others see its state. It asks before it acts. */
export function GateSwitch({ large = false }: { large?: boolean }) {
  const { data: gate } = useGate();
  const may = useCan(OPERATORS);
  const [open, setOpen] = useState(false);
  if (gate === undefined) return null;
  return (
    <>
      <Switch on={gate.online} large={large} disabled={!may} label="Atlas starts work" onChange={() => setOpen(true)} />
      {open && <GateDialog online={!gate.online} onClose={() => setOpen(false)} />}
    </>
  );
}

/** Asks for a reason and says what follows, then switches Atlas. */
export function GateDialog({ online: asked, onClose }: { online: boolean; onClose: () => void }) {
  // As it was asked, also if someone else switches it meanwhile.
  const [online] = useState(asked);
  const queries = useQueryClient();
  const toast = useToast();
  const { data: gate } = useGate();
  const edit = useEdit(gate);
  const [reason, setReason] = useState("");
  const [seconds, setSeconds] = useState<number | null>(null);
  const running = api.useQuery("get", "/api/v1/jobs/summary", {}).data?.counts["running"];
  const change = useMutation({
    mutationFn: async () => {
      const body = { online, reason: reason.trim() === "" ? null : reason.trim(), for_seconds: online ? null : seconds };
      return edit({
        body,
        entity: { type: "system_state", id: "atlas_online" },
        read: () => client.GET(GATE, {}),
        write: async (change, headers) => (await client.PUT(GATE, { body: change, headers })).data,
      });
    },
    onSuccess: (changed) => {
      queries.setQueryData(api.queryOptions("get", GATE, {}).queryKey, changed);
      toast(
        online ? "Atlas is online" : `Atlas is offline; ${changed?.confirmed ?? 0} of ${plural(changed?.workers ?? 0, "worker")} confirmed`,
      );
      onClose();
    },
  });
  const finishing =
    running === undefined
      ? "Running jobs will finish."
      : running === 1
        ? "1 running job will finish."
        : `${plural(running, "running job")} will finish.`;
  return (
    <ChangeDialog
      onClose={onClose}
      title={online ? "Bring Atlas online?" : "Take Atlas offline?"}
      description={
        online
          ? "Queued jobs start again immediately, in order."
          : `Nothing new will start. ${finishing} Jobs can still be enqueued, and wait.`
      }
      action={online ? "Bring online" : "Take offline"}
      danger={!online}
      change={change}
    >
      <TextField
        label="Reason"
        hint="Shown in the banner and recorded in the audit log."
        value={reason}
        maxLength={2000}
        placeholder="provider outage"
        onChange={setReason}
      />
      {!online && <DurationField endless="Until someone brings it online" seconds={seconds} onChange={setSeconds} />}
    </ChangeDialog>
  );
}
