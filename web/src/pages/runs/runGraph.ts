import { plural } from "@/format/numbers";
import { END, graphOfDefinition, START } from "@/graph/definition";
import type { Graph, GraphEdge, GraphNode, NodeStatus } from "@/graph/graph";
import type { ListedStep, RunData } from "./model";
import { detailOf, hasEnded, statusOf, tallyOf, worstOf } from "./states";
import { stepsOf, treeOf, UNDO, type Item } from "./tree";

/** A step as the page names it: a sub-run's have the id of their node in front. */
export interface ShownStep {
  id: string;
  /** The node that shows it: itself, or the folded group that it lies in. */
  node: string;
  /** Its name, with those of the nodes that it lies in: "fraud › check". */
  title: string;
  run: RunData["run"];
  step: ListedStep;
}

export interface RunPicture extends Graph {
  steps: ReadonlyMap<string, ShownStep>;
}

/** The maximum number of branches drawn beside each other; more are folded. */
const BESIDE = 4;
/** How the ids of folded loops, and of what was done side by side, begin. */
const LOOP = "^loop ";
const ALL = "^all ";
/** The node of what a worker does now: a step of code is recorded when it has ended. */
const AT_WORK = "^work";

/**
 * A run as a graph: what it recorded and, of a declared workflow, also what it has not reached. Loops, wide groups and sub-runs are
 * folded until their node is in `open`; `known` are the sub-runs that were read.
 */
export function graphOfRun(data: RunData, open: { has: (id: string) => boolean }, known: ReadonlyMap<string, RunData>): RunPicture {
  const steps = new Map<string, ShownStep>();
  const { nodes, edges } = new Drawing(data, { open, known, steps }, "", []).whole();
  return { nodes, edges, steps };
}

interface Shared {
  open: { has: (id: string) => boolean };
  known: ReadonlyMap<string, RunData>;
  steps: Map<string, ShownStep>;
}

/** The nodes and edges of one run, or of a part of it. */
class Drawing {
  readonly nodes: GraphNode[] = [];
  readonly edges: GraphEdge[] = [];
  private readonly data: RunData;
  private readonly shared: Shared;
  private readonly prefix: string;
  private readonly within: readonly string[];

  constructor(data: RunData, shared: Shared, prefix: string, within: readonly string[]) {
    this.data = data;
    this.shared = shared;
    this.prefix = prefix;
    this.within = within;
  }

  /** The run from its start to its end. */
  whole(): Graph {
    const first = this.isInner ? [] : [this.dot(START, "start", "Start")];
    const ends = this.data.document === null ? this.code(first) : this.declared(first);
    const last = this.sequence(treeOf(this.data.steps, UNDO), ends);
    if (!this.isInner)
      this.link(last, this.dot(END, "end", `End: ${this.data.run.status}`, hasEnded(this.data.run) ? this.data.run.status : "unreached"));
    return this;
  }

  private get isInner(): boolean {
    return this.prefix !== "";
  }

  private code(first: readonly string[]): readonly string[] {
    const ends = this.sequence(treeOf(this.data.steps), first);
    if (this.data.run.status !== "running") return ends;
    const detail = this.data.run.claimed_by === null ? undefined : `on ${this.data.run.claimed_by}`;
    return [this.add({ id: `${this.prefix}${AT_WORK}`, label: "Next step", kind: "step", status: "running", detail }, ends)];
  }

  /** One after another; returns where they end. */
  private sequence(items: readonly Item[], from: readonly string[]): readonly string[] {
    return items.reduce((ends, item) => {
      if (item.type === "step") return [this.step(item.step, ends)];
      if (item.type === "loop") return [this.fold(`${LOOP}${item.id}`, item.name, item.rounds, plural(item.rounds.length, "round"), ends)];
      if (item.branches.length > BESIDE)
        return [this.fold(`${ALL}${item.id}`, item.name, item.branches, `${item.branches.length} side by side`, ends)];
      return [...new Set(item.branches.flatMap((branch) => this.sequence(branch, ends)))];
    }, from);
  }

  private step(step: ListedStep, from: readonly string[], shape: Partial<GraphNode> = {}): string {
    const id = this.note(step, undefined, shape.label);
    const { attempts } = step;
    const node: GraphNode = {
      id,
      label: step.name,
      kind: step.kind,
      status: statusOf(step, this.data.run),
      detail: detailOf(step),
      ...this.subRun(step, id),
      ...shape,
      badges: [...(shape.badges ?? []), ...(attempts > 1 ? [{ label: `${attempts}×`, title: `${attempts} attempts` }] : [])],
    };
    return this.add(node, from);
  }

  /** What a step that is a run of its own has within it. */
  private subRun(step: ListedStep, id: string): Pick<GraphNode, "folds" | "inner"> {
    if (step.kind !== "child" || step.child_id === null) return {};
    if (!this.shared.open.has(id)) return { folds: true };
    const data = this.shared.known.get(step.child_id);
    const inner =
      data === undefined ? { nodes: [], edges: [] } : new Drawing(data, this.shared, `${id}>`, [...this.within, step.name]).whole();
    return { folds: true, inner };
  }

  /** Many as one node; open, they are drawn in place, rounds one after another and branches on their own. */
  private fold(name: string, label: string, parts: readonly Item[][], counted: string, from: readonly string[]): string {
    const id = `${this.prefix}${name}`;
    const steps = parts.flatMap(stepsOf);
    const statuses = steps.map((step) => statusOf(step, this.data.run));
    const node: GraphNode = { id, label, kind: "fold", status: worstOf(statuses), detail: tallyOf(statuses, counted), folds: true };
    if (!this.shared.open.has(id)) {
      for (const step of steps) this.note(step, node.id, step.name, [...this.within, label]);
      return this.add(node, from);
    }
    const inner = new Drawing(this.data, this.shared, this.prefix, [...this.within, label]);
    if (name.startsWith(LOOP)) inner.sequence(parts.flat(), []);
    else for (const part of parts) inner.sequence(part, []);
    return this.add({ ...node, inner }, from);
  }

  /** Keep a step for the page, with the node that shows it: its own, unless another node hides it. */
  private note(step: ListedStep, node: string | undefined, label = step.name, within = this.within): string {
    const id = `${this.prefix}${step.key}`;
    // A round or an item has the name of its group and a number.
    const above = label.startsWith(within.at(-1) ?? " ") ? within.slice(0, -1) : within;
    this.shared.steps.set(id, { id, node: node ?? id, title: [...above, label].join(" › "), run: this.data.run, step });
    return id;
  }

  /** The steps of a document, with what is recorded of each. */
  private declared(first: readonly string[]): readonly string[] {
    const definition = graphOfDefinition(this.data.document);
    const recorded = grouped(
      this.data.steps.filter((step) => !step.branch.startsWith(UNDO)),
      declaredId,
    );
    const needs = grouped(definition.edges, (edge) => edge.to);
    // A step that was done for several items, or more than once, is a group of steps.
    const isOne = (id: string): boolean => recorded.get(id)?.length === 1 && recorded.get(id)?.[0]?.key === id;
    const idOf = (id: string): string => `${this.prefix}${isOne(id) || !recorded.has(id) ? "" : ALL}${id}`;
    const left = new Map<string, NodeStatus>();
    const statusOfLeft = (id: string): NodeStatus => {
      const known = left.get(id);
      if (known !== undefined) return known;
      // A circle has no end; a document that runs has none.
      left.set(id, "unreached");
      const found = this.leftOut(
        (needs.get(id) ?? []).map((edge) => edge.from).filter((need) => need !== START),
        recorded,
        statusOfLeft,
      );
      left.set(id, found);
      return found;
    };
    for (const node of definition.nodes) {
      if (node.kind === "start" || node.kind === "end") continue;
      const rows = recorded.get(node.id) ?? [];
      const from = (needs.get(node.id) ?? []).flatMap((edge) => (edge.from === START ? first : [idOf(edge.from)]));
      if (rows[0] === undefined) this.add({ ...node, id: idOf(node.id), status: statusOfLeft(node.id) }, from);
      else if (isOne(node.id)) this.step(rows[0], from, { badges: node.badges });
      else this.several({ ...node, id: idOf(node.id) }, rows, from);
    }
    return (needs.get(END) ?? []).map((edge) => idOf(edge.from));
  }

  /** A declared step that was done for several items, or more than once. */
  private several(node: GraphNode, rows: readonly ListedStep[], from: readonly string[]): void {
    const statuses = rows.map((step) => statusOf(step, this.data.run));
    const shown: GraphNode = { ...node, status: worstOf(statuses), detail: tallyOf(statuses, plural(rows.length, "item")), folds: true };
    if (!this.shared.open.has(node.id)) {
      for (const step of rows) this.note(step, node.id, itemName(step), [...this.within, node.label]);
      this.add(shown, from);
      return;
    }
    const inner = new Drawing(this.data, this.shared, this.prefix, [...this.within, node.label]);
    for (const step of rows) inner.step(step, [], { label: itemName(step) });
    this.add({ ...shown, inner }, from);
  }

  /** How a declared step stands of which nothing is recorded: its turn has not come, or it is skipped. */
  private leftOut(
    needs: readonly string[],
    recorded: ReadonlyMap<string, readonly ListedStep[]>,
    statusOfLeft: (id: string) => NodeStatus,
  ): NodeStatus {
    const { status } = this.data.run;
    if (status === "succeeded" || needs.some((need) => !recorded.has(need) && statusOfLeft(need) === "skipped")) return "skipped";
    // A run that waits has begun all that it can begin: the condition of what is left was false.
    const isDone = needs.every((need) => recorded.get(need)?.every((step) => step.finished_at !== null) === true);
    return status === "waiting" && isDone ? "skipped" : "unreached";
  }

  private dot(id: string, kind: "start" | "end", label: string, status?: NodeStatus): string {
    this.nodes.push({ id, kind, label, status });
    return id;
  }

  private add(node: GraphNode, from: readonly string[]): string {
    this.nodes.push(node);
    this.link(from, node.id);
    return node.id;
  }

  private link(from: readonly string[], to: string): void {
    for (const one of from) this.edges.push({ from: one, to });
  }
}

/** The declared step that a recorded one belongs to: its branch has that name, but for one that a failed run is undone in. */
function declaredId(step: ListedStep): string {
  return (step.branch.split("/")[0] ?? "").replace(/^undo-$/, "undo");
}

/** "wrap 2": which of the items a step was done for. */
function itemName(step: ListedStep): string {
  const item = /\[(\d+)\]\/$/.exec(step.branch)?.[1];
  return item === undefined ? step.name : `${step.name} ${item}`;
}

function grouped<One>(list: readonly One[], key: (one: One) => string): Map<string, One[]> {
  const groups = new Map<string, One[]>();
  for (const one of list) {
    const group = groups.get(key(one));
    if (group === undefined) groups.set(key(one), [one]);
    else group.push(one);
  }
  return groups;
}
