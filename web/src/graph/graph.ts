/** What a node is about; it decides the icon. `start` and `end` are dots, `fold` stands for several nodes of any kind. */
export type NodeKind = "start" | "end" | "step" | "job" | "child" | "sleep" | "event" | "approval" | "value" | "failure" | "undo" | "fold";

/** How a node stands. A node of a definition has none. `unreached`: not begun yet; `skipped`: it will not be. */
export type NodeStatus = "queued" | "running" | "waiting" | "retrying" | "succeeded" | "failed" | "canceled" | "skipped" | "unreached";

export interface Badge {
  label: string;
  /** The whole of it, on hover. */
  title: string;
}

export interface GraphNode {
  /** Its own in the whole graph, groups included. */
  id: string;
  label: string;
  kind: NodeKind;
  status?: NodeStatus | undefined;
  /** The second line: a job type, how long it took, what it waits for. */
  detail?: string | undefined;
  badges?: readonly Badge[] | undefined;
  /** Why it cannot be as it is: drawn with a red border and said in its name. */
  problem?: string | undefined;
  /** It can be opened in place: `inner` is drawn when it is. */
  folds?: boolean | undefined;
  inner?: Graph | undefined;
}

export interface GraphEdge {
  from: string;
  to: string;
}

export interface Graph {
  nodes: readonly GraphNode[];
  edges: readonly GraphEdge[];
}

/** Every node of a graph, those within groups after their group. */
export function* allNodes(graph: Graph): Generator<GraphNode> {
  for (const node of graph.nodes) {
    yield node;
    if (node.inner !== undefined) yield* allNodes(node.inner);
  }
}
