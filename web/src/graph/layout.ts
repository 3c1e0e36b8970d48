import type { Graph, GraphEdge, GraphNode } from "./graph";
import { GAP_X, GAP_Y, layered, type Point, type Sized } from "./layers";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface PlacedNode extends Box {
  node: GraphNode;
  /** The group that it lies in. */
  group: string | null;
}

export interface PlacedEdge extends Box {
  edge: GraphEdge;
  /** The curve goes through these; see `pathOf`. */
  points: readonly Point[];
  /** It closes a circle of needs, which no run could follow. */
  isBack: boolean;
}

export interface Layout {
  width: number;
  height: number;
  /** A group comes before what lies in it. */
  nodes: readonly PlacedNode[];
  edges: readonly PlacedEdge[];
}

export const NODE_WIDTH = 224;
export const NODE_HEIGHT = 54;
const DOT = 20;
/** The title line of a group. */
export const GROUP_HEAD = 52;
const GROUP_SPACE = 16;
/** Parts that are not connected stand in rows about so much wider than high. */
const ROWS_RATIO = 1.3;

/** Where each node and edge of a graph lies, top to bottom; open groups are drawn in place. */
export function layout(graph: Graph): Layout {
  const inner = new Map<string, Layout>();
  const sized = graph.nodes.map((node): Sized => {
    if (node.kind === "start" || node.kind === "end") return { id: node.id, width: DOT, height: DOT };
    if (node.inner === undefined) return { id: node.id, width: NODE_WIDTH, height: NODE_HEIGHT };
    const within = layout(node.inner);
    inner.set(node.id, within);
    return { id: node.id, width: Math.max(NODE_WIDTH, within.width + 2 * GROUP_SPACE), height: GROUP_HEAD + within.height + GROUP_SPACE };
  });
  const parts = partsOf(sized, graph.edges).map((part) => ({ part, drawing: layered(part.nodes, part.edges) }));
  const corners = inRows(parts.map(({ drawing }) => drawing));
  const byId = new Map(graph.nodes.map((node) => [node.id, node]));
  const nodes: PlacedNode[] = [];
  const edges: PlacedEdge[] = [];
  parts.forEach(({ part, drawing }, number) => {
    const corner = corners.at[number] ?? { x: 0, y: 0 };
    part.edges.forEach((edge, at) => {
      const way = drawing.ways[at];
      if (way !== undefined)
        edges.push(
          edgeAlong(
            edge,
            way.points.map((point) => moved(point, corner)),
            way.isBack,
          ),
        );
    });
    part.nodes.forEach(({ id, width, height }, at) => {
      const place = moved(drawing.corners[at] ?? corner, corner);
      nodes.push({ node: byId.get(id) as GraphNode, group: null, ...place, width, height });
      const within = inner.get(id);
      if (within === undefined) return;
      const origin = { x: place.x + (width - within.width) / 2, y: place.y + GROUP_HEAD };
      for (const one of within.nodes) nodes.push({ ...one, ...moved(one, origin), group: one.group ?? id });
      for (const one of within.edges) edges.push(movedEdge(one, origin));
    });
  });
  return { width: corners.width, height: corners.height, nodes, edges };
}

interface Part {
  nodes: Sized[];
  edges: GraphEdge[];
}

/** The parts of a graph that are not connected with each other, in the order of their first nodes. */
function partsOf(nodes: readonly Sized[], edges: readonly GraphEdge[]): Part[] {
  const leads = new Map(nodes.map(({ id }) => [id, id]));
  const root = (id: string): string => {
    let at = id;
    for (let up = leads.get(at); up !== undefined && up !== at; up = leads.get(at)) {
      leads.set(at, leads.get(up) ?? up);
      at = up;
    }
    return at;
  };
  const drawn = edges.filter((edge) => leads.has(edge.from) && leads.has(edge.to));
  for (const edge of drawn) leads.set(root(edge.to), root(edge.from));
  const parts = new Map<string, Part>();
  const partOf = (id: string): Part => {
    const part = parts.get(root(id)) ?? { nodes: [], edges: [] };
    parts.set(root(id), part);
    return part;
  };
  for (const node of nodes) partOf(node.id).nodes.push(node);
  for (const edge of drawn) partOf(edge.from).edges.push(edge);
  return [...parts.values()];
}

/** Boxes in rows, like words in a paragraph. */
function inRows(boxes: readonly { width: number; height: number }[]): { at: Point[]; width: number; height: number } {
  const area = boxes.reduce((sum, one) => sum + (one.width + GAP_X) * (one.height + GAP_Y), 0);
  const limit = Math.max(Math.sqrt(area * ROWS_RATIO), 2 * NODE_WIDTH + GAP_X, ...boxes.map((one) => one.width));
  const at: Point[] = [];
  let [x, y, row, width] = [0, 0, 0, 0];
  for (const box of boxes) {
    if (x > 0 && x + box.width > limit) [x, y, row] = [0, y + row + GAP_Y / 2, 0];
    at.push({ x, y });
    width = Math.max(width, x + box.width);
    x += box.width + GAP_X;
    row = Math.max(row, box.height);
  }
  return { at, width, height: y + row };
}

function edgeAlong(edge: GraphEdge, points: readonly Point[], isBack: boolean): PlacedEdge {
  const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return { edge, isBack, points, x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
}

/** A curve through points that leaves and reaches each of them straight down. */
export function pathOf(points: readonly Point[]): string {
  return points
    .map((point, at) => {
      const before = points[at - 1];
      if (before === undefined) return `M${round(point.x)} ${round(point.y)}`;
      if (Math.abs(before.x - point.x) < 0.5) return `V${round(point.y)}`;
      const middle = round((before.y + point.y) / 2);
      return `C${round(before.x)} ${middle} ${round(point.x)} ${middle} ${round(point.x)} ${round(point.y)}`;
    })
    .join("");
}

function moved(point: Point, by: Point): Point {
  return { x: point.x + by.x, y: point.y + by.y };
}

function movedEdge(edge: PlacedEdge, by: Point): PlacedEdge {
  return { ...edge, ...moved(edge, by), points: edge.points.map((point) => moved(point, by)) };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
