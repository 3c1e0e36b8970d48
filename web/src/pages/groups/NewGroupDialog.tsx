import { useState } from "react";
import { client, type Schemas } from "@/api/client";
import { ChangeDialog } from "@/components/Dialog";
import { Field, TextArea, TextField } from "@/components/Form";
import { isObject, parsed } from "@/format/json";
import { plural } from "@/format/numbers";
import { useChange } from "@/components/useChange";
import { useTenantField } from "@/session/useTenantField";

const GROUPS = "/api/v1/groups";

/** Enqueues jobs of one type as a group, one for each input, and the job that follows them. */
export function NewGroupDialog({ onClose, onCreated }: { onClose: () => void; onCreated: (id: string) => void }) {
  const { tenant, isMissing, field } = useTenantField();
  const [name, setName] = useState("");
  const [type, setType] = useState("");
  const [text, setText] = useState('[\n  {"n": 1},\n  {"n": 2}\n]');
  const [then, setThen] = useState("");
  const inputs = inputsOf(text);
  const add = useChange(
    async () => {
      const job = (job_type: string, payload: object) => ({ job_type: job_type.trim(), payload }) as Schemas["NewJobBody"];
      const body = { name, jobs: (inputs ?? []).map((input) => job(type, input)), then: then.trim() === "" ? null : job(then, {}) };
      const { data } = await client.POST(GROUPS, { params: { query: { tenant } }, body });
      onClose();
      if (data !== undefined) onCreated(data.id);
    },
    { done: () => `${plural(inputs?.length ?? 0, "job")} enqueued as a group`, lists: [GROUPS] },
  );
  return (
    <ChangeDialog
      onClose={onClose}
      title="New group"
      description="All of its jobs are enqueued, or none."
      action={inputs === null ? "Enqueue" : `Enqueue ${plural(inputs.length, "job")}`}
      change={add}
      disabled={inputs === null || type.trim() === "" || isMissing}
    >
      {field}
      <TextField label="Name" name="name" maxLength={200} value={name} onChange={setName} />
      <TextField label="Job type" name="jobs.0.job_type" required value={type} onChange={setType} />
      <Field
        label="Inputs"
        hint="A JSON list; each of its objects is the input of one job."
        error={inputs === null ? "is not a list of objects" : undefined}
      >
        {(control) => <TextArea {...control} value={text} onChange={(event) => setText(event.target.value)} />}
      </Field>
      <TextField
        label="Followed by"
        hint="The type of the job that is enqueued when all have finished, with their counts. Empty: none."
        name="then.job_type"
        value={then}
        onChange={setThen}
      />
    </ChangeDialog>
  );
}

function inputsOf(text: string): object[] | null {
  const value = parsed(text);
  return Array.isArray(value) && value.length > 0 && value.every(isObject) ? value : null;
}
