/** A JSON Schema, as far as completion looks at it. */
export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
}

/** What exists under a name: a job type or a workflow. */
export interface Known {
  key: string;
  description: string;
  input_schema: Schema;
}

/** What completion knows besides the text. */
export interface Knowledge {
  schema: Schema;
  filters: readonly string[];
  tests: readonly string[];
  jobTypes: readonly Known[];
  workflows: readonly Known[];
}

/** The schema of what is at a path in a value of another schema; the variants of a union that can be meant. */
export function schemasAt(root: Schema, at: Schema, path: readonly (string | number)[]): Schema[] {
  const variants = variantsOf(root, at);
  const [step, ...rest] = path;
  if (step === undefined) return variants;
  return variants.flatMap((one) => {
    const next = typeof step === "number" ? one.items : one.properties?.[step];
    return next === undefined ? [] : schemasAt(root, next, rest);
  });
}

function variantsOf(root: Schema, schema: Schema): Schema[] {
  const found =
    schema.$ref?.startsWith("#/$defs/") === true
      ? {
          ...root.$defs?.[schema.$ref.slice("#/$defs/".length)],
          ...(schema.description !== undefined && { description: schema.description }),
        }
      : schema;
  if (found.anyOf === undefined) return [found];
  return found.anyOf.filter((one) => one.type !== "null").flatMap((one) => variantsOf(root, one));
}

/** What a schema's values are called, for a list of choices. */
export function kindOf(root: Schema, schema: Schema): string {
  const kinds = variantsOf(root, schema).map((one) =>
    one.enum !== undefined
      ? one.enum.map(String).join(", ")
      : one.const !== undefined
        ? JSON.stringify(one.const)
        : one.type === "array"
          ? "list"
          : String(one.type ?? (one.properties === undefined ? "any value" : "object")),
  );
  return [...new Set(kinds)].filter((one) => one !== "integer" || !kinds.includes("number")).join(" or ");
}

/** What a new field begins with, and where the cursor goes in it. */
export function stubOf(root: Schema, schema: Schema): { text: string; cursor: number } {
  const first = variantsOf(root, schema)[0] ?? {};
  const kind = first.properties !== undefined ? "object" : Array.isArray(first.type) ? first.type[0] : first.type;
  if (kind === "string" || first.enum !== undefined || first.const !== undefined) return { text: '""', cursor: 1 };
  if (kind === "array") return first.items?.type === "string" ? { text: '[""]', cursor: 2 } : { text: "[]", cursor: 1 };
  if (kind === "object") return { text: "{}", cursor: 1 };
  return { text: "", cursor: 0 };
}
