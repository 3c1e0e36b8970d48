import type { SyntaxNode } from "@lezer/common";
import type { Choice, Choices, Draft, DraftStep } from "./choices";
import { templateChoices } from "./expressions";
import { kindOf, schemasAt, stubOf, type Knowledge, type Schema } from "./known";
import { nameOf, pathOf, propertiesOf, readTree, rootOf, valueOf, type JsonTree, type Path, type Range } from "./tree";

const SCHEMA_WORDS = [
  "type",
  "properties",
  "required",
  "items",
  "enum",
  "description",
  "default",
  "format",
  "minimum",
  "maximum",
  "minLength",
  "maxLength",
  "pattern",
  "additionalProperties",
];
const SCHEMA_TYPES = ["string", "number", "integer", "boolean", "object", "array", "null"];
/** A step has exactly one of these. */
const KINDS = ["job", "workflow", "sleep", "event", "approval"];
/** The fields of a step that templates are filled into. */
const FILLED = new Set(["with", "each", "sleep", "approval", "if"]);

/** The nodes in which something can be completed. */
const PLACES = new Set(["PropertyName", "String", "Object", "Property", "Array"]);

/** What can stand at a position of the text: a field, a value, a name in a template. */
export function completionsAt(text: string, position: number, known: Knowledge): Choices | null {
  const { json, closed } = readAround(text, position);
  const found = choicesAt(json, position, known);
  // The quote that was added to read the text is not in the text.
  return found !== null && closed && found.to > position ? { ...found, to: found.to - 1 } : found;
}

/** The text as it would be if the string that is being typed were closed. */
function readAround(text: string, position: number): { json: JsonTree; closed: boolean } {
  const start = text.lastIndexOf("\n", position - 1) + 1;
  const end = text.indexOf("\n", position);
  const quotes = text.slice(start, position).replace(/\\./g, "").split('"').length - 1;
  const closed = quotes % 2 === 1 && !text.slice(position, end === -1 ? text.length : end).includes('"');
  return { json: readTree(closed ? `${text.slice(0, position)}"${text.slice(position)}` : text), closed };
}

function choicesAt(json: JsonTree, position: number, known: Knowledge): Choices | null {
  let node = json.tree.resolveInner(position, -1);
  while (!PLACES.has(node.name) && node.parent !== null) node = node.parent;
  const draft = draftOf(json);
  if (node.name === "PropertyName" && position > node.from) return fields(json, node.parent?.parent ?? node, node, position, known, draft);
  if (node.name === "String" && position > node.from) return strings(json, node, position, known, draft);
  if (node.name === "Object") return fields(json, node, null, position, known, draft);
  if (node.name === "Property") return values(pathInto(json, node), { from: position, to: position }, "", known, draft);
  if (node.name === "Array") return values([...pathOf(json, node), 0], { from: position, to: position }, "", known, draft);
  return null;
}

function pathInto(json: JsonTree, property: SyntaxNode): Path {
  return [...pathOf(json, property.parent ?? property), nameOf(json, property)];
}

/** The document as far as it can be read. */
export function draftOf(json: JsonTree): Draft {
  const value = valueOf(json, rootOf(json));
  const whole = (typeof value === "object" && value !== null ? value : {}) as { inputSchema?: unknown; steps?: unknown };
  const steps = Array.isArray(whole.steps)
    ? whole.steps.map((one: unknown) => (typeof one === "object" && one !== null ? (one as DraftStep) : {}))
    : [];
  return { steps, ...(typeof whole.inputSchema === "object" && whole.inputSchema !== null && { inputSchema: whole.inputSchema }) };
}

/** The fields that an object may have and has not yet. */
function fields(
  json: JsonTree,
  object: SyntaxNode,
  name: SyntaxNode | null,
  position: number,
  known: Knowledge,
  draft: Draft,
): Choices | null {
  const path = pathOf(json, object);
  const taken = new Set(
    propertiesOf(object)
      .filter((one) => one.getChild("PropertyName")?.from !== name?.from)
      .map((one) => nameOf(json, one)),
  );
  if (path.length === 2 && path[0] === "steps" && KINDS.some((kind) => taken.has(kind))) for (const kind of KINDS) taken.add(kind);
  const typed = name === null ? "" : json.text.slice(name.from + 1, position);
  const range = name === null ? { from: position, to: position } : { from: name.from, to: name.to };
  const hasColon = /^\s*:/.test(json.text.slice(range.to));
  const { root, variants } = schemasOf(path, known, draft);
  const choices = variants.flatMap((schema) =>
    Object.entries(schema.properties ?? {}).map(([label, one]): Choice => {
      const stub = hasColon ? { text: "", cursor: 0 } : stubOf(root, one);
      const head = hasColon ? JSON.stringify(label) : `${JSON.stringify(label)}: `;
      const required = schema.required?.includes(label) === true ? "required" : kindOf(root, one);
      return {
        label,
        insert: head + stub.text,
        cursor: head.length + stub.cursor,
        detail: required,
        kind: "property",
        ...(one.description !== undefined && { info: one.description }),
      };
    }),
  );
  return matching(
    choices.filter((one) => !taken.has(one.label)),
    typed,
    range,
  );
}

/** The schemas that hold at a path: the document's own, JSON Schema's within inputSchema, a job type's within `with`. */
function schemasOf(path: Path, known: Knowledge, draft: Draft): { root: Schema; variants: Schema[] } {
  if (path[0] === "inputSchema")
    return {
      root: {},
      variants: path.at(-1) === "properties" ? [] : [{ properties: Object.fromEntries(SCHEMA_WORDS.map((word) => [word, {}])) }],
    };
  const at = path.indexOf("with");
  const step = typeof path[1] === "number" ? draft.steps[path[1]] : undefined;
  if (path[0] === "steps" && step !== undefined && at !== -1) {
    const undo = path[2] === "onFailure" ? ((step as { onFailure?: DraftStep }).onFailure ?? {}) : step;
    const target = known.jobTypes.find((one) => one.key === undo.job) ?? known.workflows.find((one) => one.key === undo.workflow);
    const root = target?.input_schema ?? {};
    return { root, variants: schemasAt(root, root, path.slice(at + 1)) };
  }
  return { root: known.schema, variants: schemasAt(known.schema, known.schema, path) };
}

function strings(json: JsonTree, node: SyntaxNode, position: number, known: Knowledge, draft: Draft): Choices | null {
  const path = pathOf(json, node);
  const written = json.text.slice(node.from + 1, position);
  const number = typeof path[1] === "number" ? path[1] : null;
  if (path[0] === "output" || (number !== null && path.some((one) => typeof one === "string" && FILLED.has(one)))) {
    const found = templateChoices(written, draft, path[0] === "output" ? null : number, known, path.at(-1) === "if");
    if (found !== null) return matching(found.choices, found.typed, { from: position - found.typed.length, to: position });
  }
  const isClosed = node.to - node.from > 1 && json.text[node.to - 1] === '"';
  return values(path, { from: node.from, to: isClosed ? node.to : position }, written, known, draft);
}

/** The values that exist: job types, workflows, steps, and what the schema lists. */
function values(path: Path, range: Range, typed: string, known: Knowledge, draft: Draft): Choices | null {
  const field = path.findLast((one) => typeof one === "string");
  const own = typeof path[1] === "number" ? draft.steps[path[1]] : undefined;
  const quoted = (label: string, more: Partial<Choice>): Choice => ({
    label,
    insert: JSON.stringify(label),
    cursor: label.length + 2,
    kind: "text",
    ...more,
  });
  const things = (list: Knowledge["jobTypes"], kind: Choice["kind"]): Choice[] =>
    list.map((one) => quoted(one.key, { kind, ...(one.description !== "" && { info: one.description }) }));
  const choices = ((): Choice[] => {
    if (path[0] === "inputSchema") return field === "type" ? SCHEMA_TYPES.map((one) => quoted(one, { kind: "constant" })) : [];
    if (path[0] !== "steps" || path.includes("with")) return [];
    if (field === "job") return things(known.jobTypes, "function");
    if (field === "workflow") return things(known.workflows, "class");
    if (field === "needs") {
      const taken = Array.isArray(own?.needs) ? own.needs : [];
      return draft.steps
        .filter((one) => one !== own && typeof one.id === "string" && (one.id === typed || !taken.includes(one.id)))
        .map((one) => quoted(String(one.id), { kind: "variable", detail: "step" }));
    }
    return schemasAt(known.schema, known.schema, path).flatMap((schema) => {
      const listed = schema.enum ?? (schema.const === undefined ? [] : [schema.const]);
      if (schema.type === "boolean")
        return ["true", "false"].map((label): Choice => ({ label, insert: label, cursor: label.length, kind: "constant" }));
      return listed.map((one) => quoted(String(one), { kind: "constant" }));
    });
  })();
  return matching(choices, typed, range);
}

/** Those that fit what was typed, first those that begin with it. */
function matching(choices: Choice[], typed: string, range: Range): Choices | null {
  const text = typed.toLowerCase();
  const fitting = choices.filter((choice) => choice.label.toLowerCase().includes(text));
  const begins = (choice: Choice): boolean => choice.label.toLowerCase().startsWith(text);
  const sorted = [...fitting.filter(begins), ...fitting.filter((choice) => !begins(choice))];
  return sorted.length === 0 ? null : { ...range, choices: sorted };
}
