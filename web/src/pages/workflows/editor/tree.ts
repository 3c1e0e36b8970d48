import { parser } from "@lezer/json";
import type { SyntaxNode, Tree } from "@lezer/common";

/** JSON text as a tree that is there even while the text is not valid: what is written so far, with its positions. */
export interface JsonTree {
  text: string;
  tree: Tree;
}

export type Path = (string | number)[];

export interface Range {
  from: number;
  to: number;
}

const VALUES = new Set(["Object", "Array", "String", "Number", "True", "False", "Null"]);

export function readTree(text: string): JsonTree {
  return { text, tree: parser.parse(text) };
}

/** The value that the whole text is, if it has one. */
export function rootOf({ tree }: JsonTree): SyntaxNode | null {
  return valuesIn(tree.topNode)[0] ?? null;
}

/** The values directly in a node: the items of a list, or the one value of a property. */
export function valuesIn(node: SyntaxNode): SyntaxNode[] {
  return childrenOf(node).filter((one) => VALUES.has(one.name));
}

export function propertiesOf(node: SyntaxNode): SyntaxNode[] {
  return childrenOf(node).filter((one) => one.name === "Property");
}

function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const found: SyntaxNode[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) found.push(child);
  return found;
}

/** The name of a property. */
export function nameOf({ text }: JsonTree, property: SyntaxNode): string {
  const name = property.getChild("PropertyName");
  return name === null ? "" : stringOf(text.slice(name.from, name.to));
}

/** What a node stands for, as far as it is written. */
export function valueOf(json: JsonTree, node: SyntaxNode | null): unknown {
  if (node === null) return undefined;
  const written = json.text.slice(node.from, node.to);
  switch (node.name) {
    case "Object":
      return Object.fromEntries(propertiesOf(node).map((one) => [nameOf(json, one), valueOf(json, valuesIn(one)[0] ?? null)]));
    case "Array":
      return valuesIn(node).map((one) => valueOf(json, one));
    case "String":
      return stringOf(written);
    case "Number":
      return Number(written);
    case "True":
    case "False":
      return node.name === "True";
    default:
      return null;
  }
}

function stringOf(written: string): string {
  try {
    return String(JSON.parse(written));
  } catch {
    return written.replace(/^"|"$/g, "");
  }
}

/** The names and numbers that lead to a node. */
export function pathOf(json: JsonTree, node: SyntaxNode): Path {
  const path: Path = [];
  for (let at = node; at.parent !== null; at = at.parent) {
    if (at.parent.name === "Property" && at.name !== "PropertyName") path.unshift(nameOf(json, at.parent));
    else if (at.parent.name === "Array") path.unshift(valuesIn(at.parent).filter((one) => one.from < at.from).length);
  }
  return path;
}

/** Where an error that names a field, such as `steps[0].with.to`, is in the text: the value, or the name of a longer one. */
export function rangeOf(json: JsonTree, field: string): Range {
  let node = rootOf(json);
  if (node === null) return { from: 0, to: json.text.length };
  let shown: Range = firstLine(json, node);
  let rest = field;
  while (rest !== "") {
    const next: { node: SyntaxNode | null; shown: Range; rest: string } | null =
      node?.name === "Array" ? itemAt(json, node, rest) : node?.name === "Object" ? propertyAt(json, node, rest) : null;
    // What is missing is reported where it should be.
    if (next === null) break;
    ({ node, shown, rest } = next);
  }
  return shown;
}

function itemAt(json: JsonTree, list: SyntaxNode, field: string) {
  const found = /^\[(\d+)\]\.?/.exec(field);
  const node = valuesIn(list)[Number(found?.[1])];
  if (found === null || node === undefined) return null;
  return { node, shown: firstLine(json, node), rest: field.slice(found[0].length) };
}

function propertyAt(json: JsonTree, object: SyntaxNode, field: string) {
  // A name may hold dots: the longest that fits is meant.
  const fitting = propertiesOf(object)
    .map((property) => ({ property, name: nameOf(json, property) }))
    .filter(({ name }) => field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`))
    .sort((a, b) => b.name.length - a.name.length)[0];
  if (fitting === undefined) return null;
  const value = valuesIn(fitting.property)[0] ?? null;
  const name = fitting.property.getChild("PropertyName") ?? fitting.property;
  const isShort = value !== null && value.name !== "Object" && value.name !== "Array";
  return {
    node: value,
    shown: isShort ? { from: value.from, to: value.to } : { from: name.from, to: name.to },
    rest: field.slice(fitting.name.length).replace(/^\./, ""),
  };
}

function firstLine({ text }: JsonTree, node: SyntaxNode): Range {
  const end = text.indexOf("\n", node.from);
  return { from: node.from, to: end === -1 ? node.to : Math.min(node.to, end) };
}
