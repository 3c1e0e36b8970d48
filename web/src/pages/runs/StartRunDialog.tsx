import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { Problem } from "@/api/problem";
import { ChangeDialog, ConfirmDialog } from "@/components/Dialog";
import { Field, Select } from "@/components/Form";
import { SchemaForm } from "@/components/SchemaForm";
import { initialValue, type Schema } from "@/components/schema";
import type { JsonObject } from "@/format/json";
import { useSeesAll } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { TenantField } from "@/session/TenantField";

type Workflow = Schemas["Workflow"];

/** A worker that starts meanwhile publishes its workflows. */
const EMPTY_MS = 2000;

interface StartRunDialogProps {
  /** The workflow that is chosen at first. */
  first?: string;
  onClose: () => void;
  onStarted: (runId: string) => void;
}

/** Asks for a run of a workflow; the form is made from what the workflow says about its input. */
export function StartRunDialog({ first, onClose, onStarted }: StartRunDialogProps) {
  const chosenTenant = useTenant();
  const [tenant, setTenant] = useState(chosenTenant);
  const { data, isSuccess } = api.useQuery(
    "get",
    "/api/v1/workflows",
    { params: { query: { tenant, limit: MAX_LISTED } } },
    { refetchInterval: (query) => (query.state.data?.items.length === 0 ? EMPTY_MS : false) },
  );
  const known = newest(data?.items ?? []);
  const [key, setKey] = useState(first);
  const workflow = known.find((one) => one.key === key) ?? known[0];
  if (workflow === undefined) {
    const words = isSuccess
      ? "No workflow is published yet: a worker with --app publishes those in code, POST /workflows declared ones."
      : "Loading the workflows.";
    return <ConfirmDialog onClose={onClose} title="Start a workflow" description={words} action="Start" disabled onConfirm={onClose} />;
  }
  return (
    <RunForm
      key={workflow.id}
      workflow={workflow}
      keys={known.map((one) => one.key)}
      onKey={setKey}
      tenant={tenant}
      onTenant={setTenant}
      onClose={onClose}
      onStarted={onStarted}
    />
  );
}

/** The newest version of each workflow that may be started. */
function newest(workflows: readonly Workflow[]): Workflow[] {
  const byKey = new Map<string, Workflow>();
  for (const one of workflows) {
    const before = byKey.get(one.key);
    if (one.is_enabled && (before === undefined || before.version < one.version)) byKey.set(one.key, one);
  }
  return [...byKey.values()].sort((a, b) => a.key.localeCompare(b.key));
}

interface RunFormProps extends StartRunDialogProps {
  workflow: Workflow;
  keys: readonly string[];
  onKey: (key: string) => void;
  tenant: string | undefined;
  onTenant: (tenant: string | undefined) => void;
}

function RunForm({ workflow, keys, onKey, tenant, onTenant, onClose, onStarted }: RunFormProps) {
  const schema = workflow.input_schema as Schema;
  const needsTenant = useSeesAll();
  const [input, setInput] = useState<JsonObject>(() => (initialValue(schema) ?? {}) as JsonObject);
  const start = useMutation({
    mutationFn: async () => {
      const body = { workflow: workflow.key, input } as Schemas["NewIntentBody"];
      return (await client.POST("/api/v1/intents", { params: { query: { tenant } }, body })).data;
    },
    onSuccess: (made) => {
      onClose();
      if (made !== undefined) onStarted(made.id);
    },
  });
  const reasonOf = (path: string): string | undefined =>
    start.error instanceof Problem ? (start.error.reasonOf(path) ?? start.error.reasonOf(`input.${path}`)) : undefined;
  return (
    <ChangeDialog
      onClose={onClose}
      title="Start a workflow"
      description={workflow.description}
      action={`Start ${workflow.key}`}
      change={start}
      disabled={needsTenant && tenant === undefined}
    >
      <Field label="Workflow">
        {(control) => (
          <Select {...control} value={workflow.key} onChange={(event) => onKey(event.target.value)}>
            {keys.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <TenantField value={tenant} onChange={onTenant} none="(choose one)" />
      <SchemaForm schema={schema} value={input} onChange={setInput} reasonOf={reasonOf} />
    </ChangeDialog>
  );
}
