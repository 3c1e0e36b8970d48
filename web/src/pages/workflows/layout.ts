import { isObject } from "@/format/json";

/** Longer objects and lists get a line for each of their values. */
const WIDTH = 96;

type Order = readonly string[];

/** The order of the fields of a document and of its steps, as the server's schema has it. */
export interface FieldOrder {
  document: Order;
  step: Order;
}

interface ObjectSchema {
  properties?: Record<string, unknown>;
}

/** The database keeps no order of fields; people read them in the order in which the schema lists them. */
export function orderOf(schema: { properties?: Record<string, unknown>; $defs?: Record<string, ObjectSchema> } | undefined): FieldOrder {
  return { document: Object.keys(schema?.properties ?? {}), step: Object.keys(schema?.$defs?.["Step"]?.properties ?? {}) };
}

/** A document as people write it: fields in order, and on one line what fits. */
export function layOut(document: unknown, order: FieldOrder): string {
  if (!isObject(document)) return write(document, 0);
  const whole = sorted(document, order.document);
  if (Array.isArray(whole["steps"]))
    whole["steps"] = whole["steps"].map((step: unknown) => (isObject(step) ? sortedStep(step, order.step) : step));
  return `${writeLong(whole, 0)}\n`;
}

function sortedStep(step: Record<string, unknown>, order: Order): Record<string, unknown> {
  const found = sorted(step, order);
  if (isObject(found["onFailure"])) found["onFailure"] = sorted(found["onFailure"], order);
  return found;
}

function sorted(value: Record<string, unknown>, order: Order): Record<string, unknown> {
  const rank = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length);
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => rank(a) - rank(b)));
}

function write(value: unknown, indent: number, column = indent): string {
  const short = writeShort(value);
  return column + short.length <= WIDTH || typeof value !== "object" || value === null ? short : writeLong(value, indent);
}

function writeShort(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(writeShort).join(", ")}]`;
  if (isObject(value))
    return `{${Object.entries(value)
      .map(([name, one]) => `${JSON.stringify(name)}: ${writeShort(one)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}

function writeLong(value: object, indent: number): string {
  const inner = " ".repeat(indent + 2);
  const lines = Array.isArray(value)
    ? value.map((one: unknown) => inner + write(one, indent + 2))
    : Object.entries(value as Record<string, unknown>).map(
        ([name, one]) => `${inner}${JSON.stringify(name)}: ${write(one, indent + 2, indent + 6 + name.length)}`,
      );
  const [begin, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return lines.length === 0 ? begin + end : `${begin}\n${lines.join(",\n")}\n${" ".repeat(indent)}${end}`;
}
