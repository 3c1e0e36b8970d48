import { Plus, X } from "lucide-react";
import { useState } from "react";
import { isObject, type JsonObject } from "@/format/json";
import { capitalized, spaced } from "@/format/words";
import { Button, IconButton } from "./Button";
import { Checkbox, Field, Input, Select, TextArea } from "./Form";
import styles from "./SchemaForm.module.css";
import { initialValue, kindOf, resolve, withoutField, type Schema } from "./schema";

interface SchemaFormProps {
  /** A JSON Schema of an object. */
  schema: Schema;
  value: JsonObject;
  onChange: (value: JsonObject) => void;
  /** Why a field was refused, by its path: "to", "items.0.name". */
  reasonOf?: (path: string) => string | undefined;
}

/** A form made from a JSON Schema. What no control fits is written as JSON. */
export function SchemaForm({ schema, value, onChange, reasonOf = () => undefined }: SchemaFormProps) {
  if (schema.properties === undefined) {
    return (
      <JsonField
        field={{ label: "Input", error: reasonOf(""), required: false }}
        value={value}
        onChange={(next) => onChange(isObject(next) ? next : {})}
      />
    );
  }
  return <ObjectFields schema={schema} root={schema} value={value} onChange={onChange} path="" reasonOf={reasonOf} />;
}

interface PartProps {
  schema: Schema;
  /** Where references lead. */
  root: Schema;
  path: string;
  reasonOf: (path: string) => string | undefined;
}

function ObjectFields({
  schema,
  root,
  value,
  onChange,
  path,
  reasonOf,
}: PartProps & { value: JsonObject; onChange: (value: JsonObject) => void }) {
  const required = new Set(schema.required ?? []);
  return (
    <div className={styles.fields}>
      {byNeed(schema).map(([name, given]) => (
        <Part
          key={name}
          name={name}
          schema={resolve(given, root)}
          root={root}
          path={path === "" ? name : `${path}.${name}`}
          required={required.has(name)}
          value={value[name]}
          onChange={(next) => onChange(next === undefined ? withoutField(value, name) : { ...value, [name]: next })}
          reasonOf={reasonOf}
        />
      ))}
    </div>
  );
}

/** The fields of an object, what is required first. */
function byNeed(schema: Schema): [string, Schema][] {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {});
  return [...fields.filter(([name]) => required.has(name)), ...fields.filter(([name]) => !required.has(name))];
}

function Part({
  name,
  schema,
  root,
  path,
  required,
  value,
  onChange,
  reasonOf,
}: PartProps & { name: string; required: boolean; value: unknown; onChange: (value: unknown) => void }) {
  const label = schema.title ?? capitalized(spaced(name));
  const field = { label, hint: schema.description, error: reasonOf(path), required };
  switch (kindOf(schema)) {
    case "choice":
      return (
        <Field {...field}>
          {(control) => (
            <Select
              {...control}
              value={typeof value === "string" || typeof value === "number" ? value : ""}
              onChange={(event) => onChange(schema.enum?.find((one) => String(one) === event.target.value))}
            >
              {!required && <option value="">(not set)</option>}
              {schema.enum?.map((one) => (
                <option key={String(one)} value={String(one)}>
                  {String(one)}
                </option>
              ))}
            </Select>
          )}
        </Field>
      );
    case "boolean":
      return <Checkbox label={label} checked={value === true} onChange={(event) => onChange(event.target.checked)} />;
    case "number":
      return (
        <Field {...field}>
          {(control) => (
            <Input
              {...control}
              type="number"
              step={schema.type === "integer" ? 1 : "any"}
              min={schema.minimum}
              max={schema.maximum}
              value={typeof value === "number" ? value : ""}
              onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.valueAsNumber)}
            />
          )}
        </Field>
      );
    case "text":
      return (
        <Field {...field}>
          {(control) =>
            schema.maxLength === undefined || schema.maxLength > 500 ? (
              <LongText control={control} schema={schema} value={value} onChange={onChange} />
            ) : (
              <Input
                {...control}
                type={inputType(schema)}
                maxLength={schema.maxLength}
                value={typeof value === "string" ? value : ""}
                onChange={(event) => onChange(emptyIsUnset(event.target.value, required))}
              />
            )
          }
        </Field>
      );
    case "object":
      return (
        <fieldset className={styles.group}>
          <legend>{label}</legend>
          <ObjectFields
            schema={schema}
            root={root}
            path={path}
            reasonOf={reasonOf}
            value={isObject(value) ? value : {}}
            onChange={onChange}
          />
        </fieldset>
      );
    case "list":
      return (
        <ListField
          label={label}
          schema={schema}
          root={root}
          path={path}
          reasonOf={reasonOf}
          value={Array.isArray(value) ? (value as unknown[]) : []}
          onChange={onChange}
        />
      );
    default:
      return <JsonField field={field} value={value} onChange={onChange} />;
  }
}

function LongText({
  control,
  schema,
  value,
  onChange,
}: {
  control: object;
  schema: Schema;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const text = typeof value === "string" ? value : "";
  const set = (next: string): void => onChange(next === "" ? undefined : next);
  // A name or an address is one line; a text without a bound gets several once it has a line break.
  const oneLine =
    schema.format !== undefined ||
    (schema["x-secret"] ?? false) ||
    !/text|body|html|message|script|sql|query|content/i.test(schema.title ?? "");
  if (oneLine && !text.includes("\n"))
    return <Input {...control} type={inputType(schema)} value={text} onChange={(event) => set(event.target.value)} />;
  return <TextArea {...control} value={text} onChange={(event) => set(event.target.value)} />;
}

function ListField({
  label,
  schema,
  root,
  path,
  reasonOf,
  value,
  onChange,
}: PartProps & { label: string; value: unknown[]; onChange: (value: unknown) => void }) {
  const items = resolve(schema.items ?? {}, root);
  return (
    <fieldset className={styles.group}>
      <legend>{label}</legend>
      {schema.description !== undefined && <p className="quiet">{schema.description}</p>}
      {value.map((one, index) => (
        <div key={index} className={styles.item}>
          <Part
            name={`${label} ${index + 1}`}
            schema={{ ...items, title: `${label} ${index + 1}` }}
            root={root}
            path={`${path}.${index}`}
            required
            value={one}
            onChange={(next) => onChange(value.map((before, at) => (at === index ? next : before)))}
            reasonOf={reasonOf}
          />
          <IconButton label={`Remove ${label} ${index + 1}`} onClick={() => onChange(value.filter((_, at) => at !== index))}>
            <X size={14} aria-hidden />
          </IconButton>
        </div>
      ))}
      <div>
        <Button icon={<Plus size={14} aria-hidden />} onClick={() => onChange([...value, initialValue(items, root)])}>
          Add
        </Button>
      </div>
    </fieldset>
  );
}

function JsonField({
  field,
  value,
  onChange,
}: {
  field: { label: string; hint?: string | undefined; error: string | undefined; required: boolean };
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [wrong, setWrong] = useState<string>();
  const change = (next: string): void => {
    setText(next);
    try {
      onChange(next.trim() === "" ? undefined : JSON.parse(next));
      setWrong(undefined);
    } catch {
      setWrong("Not valid JSON yet.");
    }
  };
  return (
    <Field {...field} hint={field.hint ?? "JSON"} error={wrong ?? field.error}>
      {(control) => <TextArea {...control} value={text} onChange={(event) => change(event.target.value)} />}
    </Field>
  );
}

function inputType(schema: Schema): string {
  if (schema["x-secret"] === true) return "password";
  return { email: "email", uri: "url", date: "date" }[schema.format ?? ""] ?? "text";
}

function emptyIsUnset(text: string, required: boolean): string | undefined {
  return text === "" && !required ? undefined : text;
}
