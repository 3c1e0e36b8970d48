import { useNavigate, useSearch } from "@tanstack/react-router";
import { SquareTerminal } from "lucide-react";
import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { useList } from "@/api/pages";
import { saveEdit } from "@/api/edits";
import { Action, Button } from "@/components/Button";
import { type Column, DataTable } from "@/components/DataTable";
import { ChangeDialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { Field, TextArea, TextField } from "@/components/Form";
import { Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { useEdit } from "@/components/useEdit";
import { useFields } from "@/components/useFields";
import { parsed, readObject } from "@/format/json";
import { OPERATORS, useCan } from "@/session/session";
import { useChange } from "@/components/useChange";

type Definition = Schemas["CommandDefinition"];

const LIST = "/api/v1/admin/jobs/definitions";
const ONE = "/api/v1/admin/jobs/definitions/{key}";

/** The commands that jobs may run: exact arguments, never a shell. */
export function DefinitionsTab() {
  const isOperator = useCan(OPERATORS);
  const { edit } = useSearch({ from: "/settings" });
  const navigate = useNavigate({ from: "/settings" });
  const setEditing = (key: string | undefined): void => void navigate({ search: (before) => ({ ...before, edit: key }), replace: true });
  const [adding, setAdding] = useState(false);
  const { rows, ...query } = useList(LIST, {});
  const toggle = useChange((one: Definition) => saveEdit({ base: one, body: { is_active: !one.is_active }, ...editOf(one) }), {
    done: (one) => `${one.key} is ${one.is_active ? "disabled: its jobs wait" : "active again"}`,
    lists: [LIST],
    unasked: true,
  });
  const columns: Column<Definition>[] = [
    { key: "key", header: "Key", width: "minmax(120px, 1fr)", text: (one) => one.key, look: "mono" },
    { key: "state", header: "State", width: "100px", cell: (one) => <StatusChip status={one.is_active ? "active" : "disabled"} /> },
    {
      key: "argv",
      header: "Command",
      width: "minmax(180px, 2fr)",
      wideOnly: true,
      cell: (one) => (
        <span className="mono truncate quiet">
          {one.argv.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join(" ")}
        </span>
      ),
    },
    { key: "timeout", header: "Timeout", width: "90px", align: "end", wideOnly: true, cell: (one) => `${one.timeout_seconds} s` },
    { key: "retries", header: "Retries", width: "76px", align: "end", wideOnly: true, cell: (one) => one.max_retries },
    {
      key: "edit",
      header: "",
      width: "150px",
      align: "end",
      cell: (one) =>
        isOperator && (
          <>
            <Action onClick={() => toggle.mutate(one)}>{one.is_active ? "Disable" : "Enable"}</Action>
            <Action onClick={() => setEditing(one.key)}>Edit</Action>
          </>
        ),
    },
  ];
  return (
    <Section
      title="Commands"
      actions={
        isOperator && (
          <Button kind="primary" icon={<SquareTerminal size={14} aria-hidden />} onClick={() => setAdding(true)}>
            New command
          </Button>
        )
      }
    >
      <DataTable
        label="commands"
        inline
        rows={rows}
        rowKey={(one) => one.id}
        columns={columns}
        query={query}
        empty={
          <EmptyState title="No commands yet" command="atlas definition add backup.json">
            Jobs run only the programs in this list, with exactly these arguments.
          </EmptyState>
        }
      />
      {adding && <EditDefinition definition={null} onClose={() => setAdding(false)} />}
      {edit !== undefined && isOperator && <EditByKey definitionKey={edit} onClose={() => setEditing(undefined)} />}
    </Section>
  );
}

/** How a command is edited: as it was shown, or not at all. */
function editOf({ id, key }: Definition) {
  const params = { path: { key } };
  return {
    entity: { type: "definition", id },
    read: () => client.GET(ONE, { params }),
    write: (body: Schemas["DefinitionChange"], headers: { "If-Match": string }) => client.PATCH(ONE, { params, body, headers }),
  };
}

/** It may be one that the list has not come to. */
function EditByKey({ definitionKey, onClose }: { definitionKey: string; onClose: () => void }) {
  const { data } = api.useQuery("get", ONE, { params: { path: { key: definitionKey } } }, { staleTime: 0, gcTime: 0 });
  return data === undefined ? null : <EditDefinition key={data.key} definition={data} onClose={onClose} />;
}

function EditDefinition({ definition, onClose }: { definition: Definition | null; onClose: () => void }) {
  const { values, field } = useFields({
    key: definition?.key ?? "",
    description: definition?.description ?? "",
    timeout_seconds: String(definition?.timeout_seconds ?? 3600),
    max_retries: String(definition?.max_retries ?? 2),
    concurrency: String(definition?.concurrency ?? ""),
    rate: definition?.rate ?? "",
  });
  const [argv, setArgv] = useState(JSON.stringify(definition?.argv ?? ["/usr/bin/true"], null, 2));
  const [schema, setSchema] = useState(JSON.stringify(definition?.arg_schema ?? {}, null, 2));
  const { key, description, concurrency, rate } = values;
  const parts = parseList(argv);
  const parsedSchema = readObject(schema);
  const edit = useEdit(definition);
  const save = useChange(
    () => {
      const body = {
        description,
        argv: parts ?? [],
        arg_schema: parsedSchema ?? {},
        timeout_seconds: Number(values.timeout_seconds),
        max_retries: Number(values.max_retries),
        concurrency: concurrency === "" ? null : Number(concurrency),
        rate: rate.trim() === "" ? null : rate.trim(),
      };
      return definition === null ? client.POST(LIST, { body: { key, ...body } }) : edit({ body, ...editOf(definition) });
    },
    { done: () => `The command ${key} is saved`, lists: [LIST], onDone: onClose },
  );
  return (
    <ChangeDialog
      onClose={onClose}
      title={definition === null ? "New command" : `Edit ${definition.key}`}
      description="Running jobs keep the old definition."
      action="Save"
      change={save}
      disabled={key === "" || parts === null || parsedSchema === null}
    >
      {definition === null && (
        <TextField label="Key" hint="The name that jobs use, such as backup.run." required maxLength={100} {...field("key")} />
      )}
      <TextField label="Description" {...field("description")} />
      <Field
        label="Program and arguments"
        hint="A JSON list; {{ name }} is filled from the payload. Never a shell."
        name="argv"
        error={parts === null ? "is not a list of strings" : undefined}
      >
        {(control) => <TextArea {...control} value={argv} onChange={(event) => setArgv(event.target.value)} />}
      </Field>
      <Field label="Schema of the payload" name="arg_schema" error={parsedSchema === null ? "Not a JSON object." : undefined}>
        {(control) => <TextArea {...control} value={schema} onChange={(event) => setSchema(event.target.value)} />}
      </Field>
      <TextField label="Timeout in seconds" type="number" min={1} {...field("timeout_seconds")} />
      <TextField label="Retries" type="number" min={0} {...field("max_retries")} />
      <TextField label="Maximum running jobs" hint="Empty: no limit." type="number" min={1} {...field("concurrency")} />
      <TextField label="Maximum start rate" hint="Such as 10/s, 100/m or 1000/h. Empty: no limit." {...field("rate")} />
    </ChangeDialog>
  );
}

type Argument = string | Schemas["WhenGiven"];

function parseList(text: string): Argument[] | null {
  const value = parsed(text);
  return Array.isArray(value) && value.length > 0 ? (value as Argument[]) : null;
}
