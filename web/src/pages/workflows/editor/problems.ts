import { isObject } from "@/format/json";
import { nameOf, propertiesOf, rangeOf, readTree, type Range } from "./tree";

/** Something that is wrong, and where it is in the text. */
export interface Mistake extends Range {
  /** From 1 on. */
  line: number;
  field: string;
  reason: string;
}

export interface FieldReason {
  field: string;
  reason: string;
}

export type Read = { document: Record<string, unknown>; mistakes: Mistake[] } | { document: null; mistakes: Mistake[] };

/** The document that a text holds, or why it holds none. */
export function readDocument(text: string): Read {
  try {
    const document: unknown = JSON.parse(text);
    if (isObject(document)) return { document, mistakes: repeatedNames(text) };
    return { document: null, mistakes: [mistakeAt(text, { from: 0, to: text.length }, "", "Not a JSON object.")] };
  } catch (error) {
    return { document: null, mistakes: [mistakeAt(text, syntaxError(text), "", `is not JSON: ${cause(error)}`)] };
  }
}

/** Where what the server says is in the text. */
export function placed(text: string, errors: readonly FieldReason[]): Mistake[] {
  const json = readTree(text);
  return errors.map(({ field, reason }) => mistakeAt(text, rangeOf(json, field), field, reason)).sort((a, b) => a.from - b.from);
}

/** A name that an object has twice: JSON allows it, and drops the first. */
function repeatedNames(text: string): Mistake[] {
  const json = readTree(text);
  const found: Mistake[] = [];
  json.tree.iterate({
    enter({ node }) {
      if (node.name !== "Object") return;
      const seen = new Set<string>();
      for (const property of propertiesOf(node)) {
        const name = nameOf(json, property);
        const at = property.getChild("PropertyName") ?? property;
        if (seen.has(name)) found.push(mistakeAt(text, { from: at.from, to: at.to }, name, "is a duplicate key; only the last one counts"));
        seen.add(name);
      }
    },
  });
  return found;
}

function syntaxError(text: string): Range {
  const found: Range[] = [];
  readTree(text).tree.iterate({
    enter({ type, from, to }) {
      if (type.isError) found.push({ from, to });
    },
  });
  const { from, to } = found[0] ?? { from: text.length, to: text.length };
  // An error of no width is one of what is missing: the character before it is shown.
  return from < to ? { from, to } : { from: Math.max(0, from - 1), to: Math.max(1, from) };
}

function cause(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  // Browsers add the text itself and its position, which is shown by the line.
  return message
    .replace(/^JSON\.parse: /, "")
    .replace(/(, "[\s\S]*|,? ?\.\.\.[\s\S]*| (in JSON )?at (position|line) [\s\S]*| in JSON$)/, "")
    .replace(/\.$/, "");
}

function mistakeAt(text: string, { from, to }: Range, field: string, reason: string): Mistake {
  return { from, to, line: text.slice(0, from).split("\n").length, field, reason };
}
