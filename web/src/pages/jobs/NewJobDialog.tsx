import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { Problem } from "@/api/problem";
import { ChangeDialog, ConfirmDialog } from "@/components/Dialog";
import { Field, Input, Select, TextArea } from "@/components/Form";
import { SchemaForm } from "@/components/SchemaForm";
import { initialValue, type Schema } from "@/components/schema";
import { useToast } from "@/components/Toast";
import { nameCommand } from "@/format/command";
import { type JsonObject, readObject } from "@/format/json";
import { useTenantField } from "@/session/useTenantField";
import styles from "./Jobs.module.css";

/** Runs are requested where workflows are. */
const NOT_HERE = new Set(["ENGINE_RUN"]);
const DEFAULT_TYPE = "EMAIL_SEND";

interface Options {
  priority: string;
  delay: string;
  correlation: string;
  dedupe: string;
}

/** Enqueues one job; its form is made from what its type says about its input. */
export function NewJobDialog({ onClose, onCreated }: { onClose: () => void; onCreated: (id: string) => void }) {
  const types = api.useQuery("get", "/api/v1/job-types", { params: { query: { limit: MAX_LISTED } } }, { refetchInterval: 5000 });
  const known = (types.data?.items ?? []).filter((one) => !NOT_HERE.has(one.key));
  const [chosen, setChosen] = useState<string>();
  const type = known.find((one) => one.key === chosen) ?? known.find((one) => one.key === DEFAULT_TYPE) ?? known[0];
  return type === undefined ? (
    <NoTypes onClose={onClose} loaded={types.isSuccess} />
  ) : (
    <JobForm key={type.key} type={type} types={known.map((one) => one.key)} onType={setChosen} onClose={onClose} onCreated={onCreated} />
  );
}

function NoTypes({ onClose, loaded }: { onClose: () => void; loaded: boolean }) {
  const words = loaded
    ? nameCommand("No worker has published a job type yet. Start one with `atlas worker --all`.")
    : "Loading the job types.";
  return <ConfirmDialog onClose={onClose} title="New job" description={words} action="Enqueue" disabled onConfirm={onClose} />;
}

interface JobFormProps {
  type: Schemas["PublishedJobType"];
  types: string[];
  onType: (key: string) => void;
  onClose: () => void;
  onCreated: (id: string) => void;
}

function JobForm({ type, types, onType, onClose, onCreated }: JobFormProps) {
  const { tenant, isMissing, field } = useTenantField();
  const schema = type.input_schema as Schema;
  const hasForm = schema.properties !== undefined;
  const [payload, setPayload] = useState<JsonObject>(() => (hasForm ? (initialValue(schema) as JsonObject) : {}));
  const [text, setText] = useState("{}");
  const [options, setOptions] = useState<Options>({ priority: "", delay: "", correlation: "", dedupe: "" });
  const toast = useToast();
  const make = useMutation({
    mutationFn: async () => {
      // What is left out has its default.
      const body = {
        job_type: type.key,
        payload: hasForm ? payload : (readObject(text) ?? {}),
        ...optionsOf(options),
      } as Schemas["NewJobBody"];
      const { data } = await client.POST("/api/v1/jobs", { params: { query: { tenant } }, body });
      return Array.isArray(data) ? data[0] : data;
    },
    onSuccess: (job) => {
      if (job === undefined) return;
      toast(job.deduplicated ? "An active job holds this dedupe key" : "The job is queued", {
        action: { label: "Open", run: () => onCreated(job.id) },
      });
      onClose();
    },
  });
  const reasonOf = (path: string): string | undefined => {
    const problem = make.error;
    return problem instanceof Problem ? (problem.reasonOf(path) ?? problem.reasonOf(`payload.${path}`)) : undefined;
  };
  const wrongJson = !hasForm && readObject(text) === null;
  return (
    <ChangeDialog
      onClose={onClose}
      title="New job"
      description={type.description}
      action="Enqueue"
      change={make}
      disabled={wrongJson || isMissing}
    >
      <div className={styles.two}>
        <Field label="Type">
          {(control) => (
            <Select {...control} value={type.key} onChange={(event) => onType(event.target.value)}>
              {types.map((key) => (
                <option key={key} value={key}>
                  {key}
                </option>
              ))}
            </Select>
          )}
        </Field>
        {field}
      </div>
      {hasForm ? (
        <SchemaForm schema={schema} value={payload} onChange={setPayload} reasonOf={reasonOf} />
      ) : (
        <Field label="Input" hint="A JSON object" error={wrongJson ? "Not a JSON object yet." : undefined}>
          {(control) => <TextArea {...control} value={text} onChange={(event) => setText(event.target.value)} />}
        </Field>
      )}
      <details>
        <summary>Options</summary>
        <OptionFields options={options} onChange={setOptions} retries={type.max_retries} limit={type.input_limit} />
      </details>
    </ChangeDialog>
  );
}

function OptionFields({
  options,
  onChange,
  retries,
  limit,
}: {
  options: Options;
  onChange: (options: Options) => void;
  retries: number;
  limit: number;
}) {
  const field = (name: keyof Options, label: string, hint: string, type = "text") => (
    <Field label={label} hint={hint}>
      {(control) => (
        <Input {...control} type={type} value={options[name]} onChange={(event) => onChange({ ...options, [name]: event.target.value })} />
      )}
    </Field>
  );
  return (
    <div className={styles.two}>
      {field("priority", "Priority", "Higher starts first.", "number")}
      {field("delay", "Delay in seconds", "Earliest start, from now.", "number")}
      {field("correlation", "Correlation id", "Shared by related jobs.")}
      {field("dedupe", "Dedupe key", "While a job with this key is active, no other is enqueued.")}
      <p className="quiet">
        Up to {Math.round(limit / 1024)} KiB of input; {retries} retries.
      </p>
    </div>
  );
}

function optionsOf({ priority, delay, correlation, dedupe }: Options): Partial<Schemas["NewJobBody"]> {
  return {
    ...(priority !== "" && { priority: Number(priority) }),
    ...(delay !== "" && { delay_seconds: Number(delay) }),
    ...(correlation !== "" && { correlation_id: correlation }),
    ...(dedupe !== "" && { dedupe_key: dedupe }),
  };
}
