import type { JsonObject } from "@/format/json";

/** What the forms know of JSON Schema. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  format?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  definitions?: Record<string, Schema>;
  "x-secret"?: boolean;
}

export type Kind = "choice" | "boolean" | "number" | "text" | "object" | "list" | "json";

const MAX_STEPS = 10;
const FORMS = new Set(["string", "object", "array"]);

/** The schema that a reference leads to; of a value that may also be null, the other alternative. */
export function resolve(schema: Schema, root: Schema, steps = 0): Schema {
  if (steps > MAX_STEPS) return {};
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split("/").at(-1) ?? "";
    const found = root.$defs?.[name] ?? root.definitions?.[name] ?? {};
    return resolve({ ...found, ...describing(schema) }, root, steps + 1);
  }
  const choices = schema.anyOf ?? schema.oneOf ?? (schema.allOf?.length === 1 ? schema.allOf : undefined);
  const others = choices?.filter((one) => one.type !== "null");
  const [only] = others ?? [];
  if (others?.length === 1 && only !== undefined) return resolve({ ...only, ...describing(schema) }, root, steps + 1);
  // A text, or the same in another form, as the recipients of a mail: the text is the shortest form, or a list of texts.
  const plain = others?.find((one) => one.type === "string");
  if (plain !== undefined && others?.every((one) => FORMS.has(String(one.type))) === true) {
    const list = Array.isArray(schema.default) ? others.find((one) => one.type === "array") : undefined;
    return resolve({ ...(list ?? plain), ...describing(schema) }, root, steps + 1);
  }
  return schema;
}

function describing({ title, description, default: given }: Schema): Schema {
  return {
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(given !== undefined && { default: given }),
  };
}

/** Which control fits a resolved schema. */
export function kindOf(schema: Schema): Kind {
  if (schema.enum?.every((one) => typeof one === "string" || typeof one === "number") === true) return "choice";
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((one) => one !== "null");
  if (types.length !== 1) return "json";
  switch (types[0]) {
    case "boolean":
      return "boolean";
    case "integer":
    case "number":
      return "number";
    case "string":
      return "text";
    case "object":
      return schema.properties === undefined ? "json" : "object";
    case "array":
      return schema.items === undefined ? "json" : "list";
    default:
      return "json";
  }
}

/** What a form begins with: the defaults, and the parts that must be there. */
export function initialValue(given: Schema, root: Schema = given, steps = 0): unknown {
  const schema = resolve(given, root);
  if (schema.default !== undefined) return structuredClone(schema.default);
  if (schema.const !== undefined) return schema.const;
  switch (kindOf(schema)) {
    case "choice":
      return schema.enum?.[0];
    case "boolean":
      return false;
    case "text":
      return "";
    case "list":
      return [];
    case "object": {
      if (steps > MAX_STEPS) return {};
      const required = new Set(schema.required ?? []);
      const entries = Object.entries(schema.properties ?? {})
        .filter(([name, inner]) => required.has(name) || resolve(inner, root).default !== undefined)
        .map(([name, inner]) => [name, initialValue(inner, root, steps + 1)] as const)
        .filter(([, value]) => value !== undefined && value !== null);
      return Object.fromEntries(entries);
    }
    default:
      return undefined;
  }
}

export function withoutField(value: JsonObject, name: string): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== name));
}
