import { useRef, useState } from "react";
import { api } from "@/api/client";
import { EditConflict } from "@/api/edits";
import { MAX_LISTED } from "@/api/pages";
import { Problem } from "@/api/problem";
import { ChangeDialog } from "@/components/Dialog";
import { DurationField } from "@/components/DurationField";
import { Field, Input, Select, TextField } from "@/components/Form";
import { plural } from "@/format/numbers";
import { capitalized } from "@/format/words";
import { useChange } from "@/components/useChange";
import { OPERATORS, useCan, useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { endPause, setPause } from "./changes";
import { KINDS, nameOf, nounOf, PAUSES, type Pause, type PauseKind, TENANT_KINDS } from "./pauses";

interface PauseDialogProps {
  kind?: PauseKind | undefined;
  /** Its key, slug, name, label or id; asked for if not given. */
  target?: string | undefined;
  /** What people call it. */
  name?: string | undefined;
  onClose: () => void;
}

/** Asks what to pause unless that is given, why and for how long, and says what follows. */
export function PauseDialog({ kind: first, target: given, name, onClose }: PauseDialogProps) {
  const operates = useCan(OPERATORS);
  const tenant = useTenant();
  const seesAll = useSeesAll();
  const kinds = operates ? KINDS : TENANT_KINDS;
  const [kind, setKind] = useState<PauseKind>(first ?? kinds[0] ?? "tenant");
  const [target, setTarget] = useState(given ?? "");
  const [reason, setReason] = useState("");
  const [seconds, setSeconds] = useState<number | null>(3600);
  const called = name ?? target;
  // The pause that someone else has made meanwhile: the next try replaces it.
  const held = useRef<Pause | null>(null);
  const pause = useChange(
    async () => {
      const body = { kind, target: target.trim(), reason: reason.trim() === "" ? null : reason.trim(), for_seconds: seconds };
      try {
        return await setPause(body, tenant, held.current);
      } catch (error) {
        if (error instanceof EditConflict) held.current = error.current as Pause;
        throw error;
      }
    },
    { done: (_, made) => doneWords(kind, called, made), lists: [PAUSES], onDone: onClose },
  );
  const refused = (field: string): string | undefined => (pause.error instanceof Problem ? pause.error.reasonOf(field) : undefined);
  const scope = kind !== "workflow" || !seesAll ? "" : tenant === undefined ? " of any tenant" : ` of ${tenant}`;
  return (
    <ChangeDialog
      onClose={onClose}
      title={given === undefined ? "Pause" : `Pause the ${nounOf(kind)} ${called}?`}
      description={`It starts no jobs${scope} until it is resumed. Running jobs finish, and jobs can still be enqueued.`}
      action="Pause"
      danger
      change={pause}
      disabled={target.trim() === ""}
    >
      {given === undefined && (
        <>
          <Field label="What" error={refused("kind")}>
            {(control) => (
              <Select {...control} value={kind} onChange={(event) => setKind(event.target.value as PauseKind)}>
                {kinds.map((one) => (
                  <option key={one} value={one}>
                    {capitalized(nounOf(one))}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <Field label="Which" hint="Key, slug, name or id." required error={refused("target")}>
            {(control) => (
              <>
                <Input {...control} list={`${control.id}-names`} value={target} onChange={(event) => setTarget(event.target.value)} />
                <datalist id={`${control.id}-names`}>
                  <Names kind={kind} />
                </datalist>
              </>
            )}
          </Field>
        </>
      )}
      <DurationField endless="Until someone resumes it" seconds={seconds} onChange={setSeconds} />
      <TextField
        label="Reason"
        hint="Shown with every job that the pause holds, and recorded in the audit log."
        value={reason}
        maxLength={2000}
        placeholder="provider outage"
        onChange={setReason}
      />
    </ChangeDialog>
  );
}

function doneWords(kind: PauseKind, name: string, made: Pause | undefined): string {
  const { workers, confirmed }: Partial<Pause> = made ?? {};
  const paused = `The ${nounOf(kind)} ${name} is paused`;
  return typeof workers === "number" ? `${paused}; ${confirmed ?? 0} of ${plural(workers, "worker")} confirmed` : paused;
}

/** What there is of a kind, to choose from. */
function Names({ kind }: { kind: PauseKind }) {
  const query = { limit: MAX_LISTED, tenant: useTenant() };
  const on = (...kinds: PauseKind[]): { enabled: boolean; staleTime: number } => ({ enabled: kinds.includes(kind), staleTime: 60_000 });
  const types = api.useQuery("get", "/api/v1/job-types", { params: { query: { limit: MAX_LISTED } } }, on("type", "definition"));
  const tenants = api.useQuery("get", "/api/v1/tenants", { params: { query: { limit: MAX_LISTED } } }, on("tenant"));
  const workflows = api.useQuery("get", "/api/v1/workflows", { params: { query } }, on("workflow"));
  const triggers = api.useQuery("get", "/api/v1/jobs/triggers", { params: { query } }, on("trigger"));
  const hosts = api.useQuery("get", "/api/v1/hosts", { params: { query } }, on("host"));
  const names: Record<PauseKind, string[] | undefined> = {
    type: types.data?.items.map((one) => one.key),
    definition: types.data?.items.map((one) => one.key),
    tenant: tenants.data?.items.map((one) => one.slug),
    workflow: workflows.data?.items.map((one) => one.key),
    trigger: triggers.data?.items.map((one) => one.label),
    host: hosts.data?.items.map((one) => one.name),
  };
  return [...new Set(names[kind])].map((name) => (
    <option key={name} value={name}>
      {name}
    </option>
  ));
}

/** Asks before a pause is ended. */
export function ResumeDialog({ pause, onClose }: { pause: Pause; onClose: () => void }) {
  const words = `${nounOf(pause.kind)} ${nameOf(pause)}`;
  const shown = useRef(pause);
  const resume = useChange(
    async () => {
      try {
        await endPause(shown.current);
      } catch (error) {
        if (error instanceof EditConflict) shown.current = error.current as Pause;
        throw error;
      }
    },
    { done: () => `The ${words} is resumed`, lists: [PAUSES], onDone: onClose },
  );
  return (
    <ChangeDialog
      onClose={onClose}
      title={`Resume the ${words}?`}
      description={`${pause.by} paused it${pause.reason === null ? "" : `: ${pause.reason}`}. Waiting jobs start again, in order.`}
      action="Resume"
      change={resume}
    />
  );
}
