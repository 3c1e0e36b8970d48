import { isObject, type JsonObject } from "@/format/json";
import type { Badge, Graph, GraphEdge, GraphNode, NodeKind } from "./graph";

export const START = "^start";
export const END = "^end";

/** The field of a declared step that says what it does, and the kind of node that shows it. */
const KINDS: readonly (readonly [field: string, kind: NodeKind])[] = [
  ["job", "job"],
  ["workflow", "child"],
  ["sleep", "sleep"],
  ["event", "event"],
  ["approval", "approval"],
];

export interface DefinitionNode extends GraphNode {
  /** Where its step stands in the document, as the server's checker names it: `steps[3]`. */
  path?: string;
}

export interface DefinitionGraph extends Graph {
  nodes: readonly DefinitionNode[];
}

/**
 * The graph of a declared workflow's document. It draws what is there: a document that is being written may have steps without an id,
 * ids that stand twice (`id~2`), needs that name nothing (left out) and circles.
 */
export function graphOfDefinition(document: unknown): DefinitionGraph {
  const steps = listOf(recordOf(document)["steps"]).map(recordOf);
  const ids = uniqueIds(steps);
  const known = new Set(ids);
  const edges: GraphEdge[] = [];
  const nodes = steps.map((step, number): DefinitionNode => {
    const id = ids[number] ?? "";
    const needs = new Set(listOf(step["needs"]).filter((need): need is string => typeof need === "string" && known.has(need)));
    for (const need of needs) edges.push({ from: need, to: id });
    if (needs.size === 0) edges.push({ from: START, to: id });
    return { id, ...whatItDoes(step), label: textOf(step["id"]) ?? `step ${number + 1}`, badges: badgesOf(step), path: `steps[${number}]` };
  });
  const needed = new Set(edges.map((edge) => edge.from));
  for (const id of ids) if (!needed.has(id)) edges.push({ from: id, to: END });
  if (nodes.length === 0) return { nodes: [], edges: [] };
  return { nodes: [{ id: START, kind: "start", label: "Start" }, ...nodes, { id: END, kind: "end", label: "End" }], edges };
}

function uniqueIds(steps: readonly Record<string, unknown>[]): string[] {
  const used = new Map<string, number>();
  return steps.map((step, number) => {
    const id = textOf(step["id"]) ?? `^${number}`;
    const count = (used.get(id) ?? 0) + 1;
    used.set(id, count);
    return count === 1 ? id : `${id}~${count}`;
  });
}

function whatItDoes(step: Record<string, unknown>): Pick<GraphNode, "kind" | "detail"> {
  const found = KINDS.find(([field]) => step[field] !== undefined && step[field] !== null);
  if (found === undefined) return { kind: "step", detail: "does nothing yet" };
  const [field, kind] = found;
  return { kind, detail: shown(step[field]) };
}

function badgesOf(step: Record<string, unknown>): Badge[] {
  const badges: Badge[] = [];
  const { if: condition, each, onFailure } = step;
  if (condition !== undefined && condition !== null) badges.push({ label: "if", title: `Only if ${shown(condition)}` });
  if (each !== undefined && each !== null) badges.push({ label: "each", title: `Once for each of ${shown(each)}` });
  if (onFailure === "continue") badges.push({ label: "may fail", title: "The run continues if this step fails" });
  if (typeof onFailure === "object" && onFailure !== null) {
    const undo = recordOf(onFailure);
    badges.push({ label: "undo", title: `Undone by ${shown(undo["job"] ?? undo["workflow"] ?? "nothing yet")} if the run fails later` });
  }
  return badges;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function recordOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}
