/*
 * A layered drawing of a directed graph (Sugiyama): layers by the longest way from a source, edges over several layers cut at points
 * between, the order within a layer by barycentres, and x by least squares under that order.
 */

export interface Sized {
  id: string;
  width: number;
  height: number;
}

export interface Link {
  from: string;
  to: string;
}

export interface Point {
  x: number;
  y: number;
}

export interface Layered {
  width: number;
  height: number;
  /** The left upper corner of each node, in their order. */
  corners: Point[];
  /** The way of each edge, in their order, from its source down to its target; one that closes a circle goes up. */
  ways: { points: Point[]; isBack: boolean }[];
}

export const GAP_X = 28;
export const GAP_Y = 48;
/** Beside an edge that passes. */
const GAP_POINT = 16;

/** A node, or a point at which an edge passes a layer. */
interface Vertex {
  width: number;
  height: number;
  layer: number;
  /** Its centre. */
  x: number;
  isPoint: boolean;
  above: number[];
  below: number[];
}

const SWEEPS = 12;

export function layered(nodes: readonly Sized[], edges: readonly Link[]): Layered {
  const index = new Map(nodes.map((node, number) => [node.id, number]));
  const links = edges.map((edge) => [index.get(edge.from) ?? 0, index.get(edge.to) ?? 0] as const);
  const ranks = ranksOf(nodes.length, links);
  const vertices: Vertex[] = nodes.map(({ width, height }, number) => ({
    width,
    height,
    layer: ranks[number] ?? 0,
    x: 0,
    isPoint: false,
    above: [],
    below: [],
  }));
  const chains = links.map(([from, to]) => chainOf(vertices, from, to));
  const layers = orderedLayers(vertices);
  placeAcross(vertices, layers);
  straighten(vertices, layers, chains);
  const tops = placeDown(vertices, layers);
  return drawn(vertices, nodes.length, chains, links, tops);
}

/** The layer of each node: one below the lowest that leads to it. Circles are opened at the first node of theirs. */
export function ranksOf(count: number, links: readonly (readonly [number, number])[]): number[] {
  const ranks = new Array<number>(count).fill(0);
  const open = new Array<number>(count).fill(0);
  const next: number[][] = Array.from({ length: count }, () => []);
  for (const [from, to] of links) {
    if (from === to) continue;
    next[from]?.push(to);
    open[to] = (open[to] ?? 0) + 1;
  }
  const done = new Array<boolean>(count).fill(false);
  const ready = open.flatMap((left, node) => (left === 0 ? [node] : []));
  let first = 0;
  for (let taken = 0; taken < count; taken++) {
    let node = ready.shift();
    if (node === undefined) {
      while (done[first] === true) first++;
      node = first;
    }
    done[node] = true;
    for (const to of next[node] ?? []) {
      if (done[to] === true) continue;
      ranks[to] = Math.max(ranks[to] ?? 0, (ranks[node] ?? 0) + 1);
      open[to] = (open[to] ?? 0) - 1;
      if (open[to] === 0) ready.push(to);
    }
  }
  return ranks;
}

/** The vertices of an edge from its upper end to its lower one; points for the layers that it passes are added. */
function chainOf(vertices: Vertex[], from: number, to: number): number[] {
  const [upper, lower] = (vertices[from]?.layer ?? 0) <= (vertices[to]?.layer ?? 0) ? [from, to] : [to, from];
  const chain = [upper];
  const last = vertices[lower]?.layer ?? 0;
  for (let layer = (vertices[upper]?.layer ?? 0) + 1; layer < last; layer++) {
    chain.push(vertices.length);
    vertices.push({ width: 2, height: 0, layer, x: 0, isPoint: true, above: [], below: [] });
  }
  if (lower !== upper) chain.push(lower);
  for (let at = 1; at < chain.length; at++) {
    const [above, below] = [chain[at - 1] ?? 0, chain[at] ?? 0];
    // Two nodes of one layer that form a circle have no layer between them.
    if (vertices[above]?.layer === vertices[below]?.layer) continue;
    vertices[above]?.below.push(below);
    vertices[below]?.above.push(above);
  }
  return chain;
}

/** The vertices of each layer from left to right, with as few crossings as a few sweeps find. */
function orderedLayers(vertices: readonly Vertex[]): number[][] {
  let layers: number[][] = [];
  vertices.forEach((vertex, number) => (layers[vertex.layer] ??= []).push(number));
  let fewest = crossings(vertices, layers);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    const tried = swept(vertices, layers, sweep % 2 === 0);
    const found = crossings(vertices, tried);
    // The same number is taken too: another order may lead to a better one.
    if (found > fewest) continue;
    [layers, fewest] = [tried, found];
  }
  return layers;
}

function swept(vertices: readonly Vertex[], layers: readonly number[][], isDown: boolean): number[][] {
  const order = layers.map((layer) => [...layer]);
  const place = new Array<number>(vertices.length).fill(0);
  for (const layer of order) layer.forEach((vertex, at) => (place[vertex] = at));
  for (let step = 1; step < order.length; step++) {
    const layer = order[isDown ? step : order.length - 1 - step] ?? [];
    const means = new Map(
      layer.map((number) => {
        const near = (isDown ? vertices[number]?.above : vertices[number]?.below) ?? [];
        return [number, near.length === 0 ? (place[number] ?? 0) : mean(near.map((one) => place[one] ?? 0))];
      }),
    );
    layer.sort((one, other) => (means.get(one) ?? 0) - (means.get(other) ?? 0));
    layer.forEach((vertex, at) => (place[vertex] = at));
  }
  return order;
}

/** How many pairs of edges cross: the inversions of their ends between each layer and the next, by a Fenwick tree. */
export function crossings(vertices: readonly Pick<Vertex, "below">[], layers: readonly number[][]): number {
  const place = new Array<number>(vertices.length).fill(0);
  for (const layer of layers) layer.forEach((vertex, at) => (place[vertex] = at));
  let count = 0;
  layers.forEach((layer, depth) => {
    const size = layers[depth + 1]?.length ?? 0;
    const tree = new Array<number>(size + 1).fill(0);
    let seen = 0;
    for (const vertex of layer) {
      const ends = (vertices[vertex]?.below ?? []).map((one) => place[one] ?? 0);
      for (const end of ends) {
        count += seen;
        for (let at = end + 1; at > 0; at -= at & -at) count -= tree[at] ?? 0;
      }
      for (const end of ends) {
        seen++;
        for (let at = end + 1; at <= size; at += at & -at) tree[at] = (tree[at] ?? 0) + 1;
      }
    }
  });
  return count;
}

/** Each vertex as near to its neighbours as the order of its layer lets it be. */
function placeAcross(vertices: readonly Vertex[], layers: readonly number[][]): void {
  for (const layer of layers) settle(vertices, layer, () => []);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0;
    const isLast = sweep >= SWEEPS - 2;
    for (const layer of isDown ? layers : [...layers].reverse()) {
      settle(vertices, layer, (vertex) => (isLast ? [...vertex.above, ...vertex.below] : isDown ? vertex.above : vertex.below));
    }
  }
}

/** Long edges are straight rather than short ones. */
function weightOf(one: Vertex, other: Vertex): number {
  return one.isPoint && other.isPoint ? 8 : one.isPoint || other.isPoint ? 2 : 1;
}

interface Block {
  from: number;
  weight: number;
  sum: number;
}

/** The positions of one layer that are nearest to the preferred ones by least squares: pool adjacent violators. */
function settle(vertices: readonly Vertex[], layer: readonly number[], near: (vertex: Vertex) => readonly number[]): void {
  const offsets: number[] = [];
  const blocks: Block[] = [];
  layer.forEach((number, at) => {
    const vertex = vertices[number] as Vertex;
    const before = vertices[layer[at - 1] ?? -1];
    offsets.push(before === undefined ? 0 : (offsets[at - 1] ?? 0) + apart(before, vertex));
    let [weight, sum] = [0, 0];
    for (const other of near(vertex).map((one) => vertices[one] as Vertex)) {
      const pull = weightOf(vertex, other);
      weight += pull;
      sum += pull * other.x;
    }
    if (weight === 0) [weight, sum] = [0.01, 0.01 * vertex.x];
    let block: Block = { from: at, weight, sum: sum - weight * (offsets[at] ?? 0) };
    for (let last = blocks.at(-1); last !== undefined && last.sum / last.weight >= block.sum / block.weight; last = blocks.at(-1)) {
      blocks.pop();
      block = { from: last.from, weight: last.weight + block.weight, sum: last.sum + block.sum };
    }
    blocks.push(block);
  });
  blocks.forEach((block, number) => {
    for (let at = block.from; at < (blocks[number + 1]?.from ?? layer.length); at++) {
      (vertices[layer[at] ?? 0] as Vertex).x = block.sum / block.weight + (offsets[at] ?? 0);
    }
  });
}

/** How far the centres of two neighbours are from each other at least. */
function apart(one: Vertex, other: Vertex): number {
  return (one.width + other.width) / 2 + (one.isPoint || other.isPoint ? GAP_POINT : GAP_X);
}

/** Edges over several layers pass them straight down, below their source or above their target, where there is room. */
function straighten(vertices: readonly Vertex[], layers: readonly number[][], chains: readonly number[][]): void {
  const place = new Map(layers.flatMap((layer) => layer.map((vertex, at) => [vertex, at] as const)));
  for (const chain of chains) {
    const points = chain.slice(1, -1).map((number) => vertices[number] as Vertex);
    if (points.length === 0) continue;
    let [least, most] = [-Infinity, Infinity];
    chain.slice(1, -1).forEach((number, at) => {
      const [point, layer] = [points[at] as Vertex, layers[points[at]?.layer ?? 0] ?? []];
      const [left, right] = [vertices[layer[(place.get(number) ?? 0) - 1] ?? -1], vertices[layer[(place.get(number) ?? 0) + 1] ?? -1]];
      if (left !== undefined) least = Math.max(least, left.x + apart(left, point));
      if (right !== undefined) most = Math.min(most, right.x - apart(right, point));
    });
    if (least > most) continue;
    const preferred = [vertices[chain[0] ?? 0]?.x ?? 0, vertices[chain.at(-1) ?? 0]?.x ?? 0].find((x) => x >= least && x <= most);
    const x = preferred ?? Math.min(most, Math.max(least, mean(points.map((point) => point.x))));
    for (const point of points) point.x = x;
  }
}

/** The top of each layer, and the bottom of the last. */
function placeDown(vertices: readonly Vertex[], layers: readonly number[][]): number[] {
  const tops = [0];
  layers.forEach((layer, depth) => {
    const height = Math.max(0, ...layer.map((number) => vertices[number]?.height ?? 0));
    tops.push((tops[depth] ?? 0) + height + (depth === layers.length - 1 ? 0 : GAP_Y));
  });
  return tops;
}

function drawn(
  vertices: readonly Vertex[],
  count: number,
  chains: readonly number[][],
  links: readonly (readonly [number, number])[],
  tops: readonly number[],
): Layered {
  const left = vertices.reduce((least, one) => Math.min(least, one.x - one.width / 2), Infinity);
  const right = vertices.reduce((most, one) => Math.max(most, one.x + one.width / 2), -Infinity);
  const top = (one: Vertex): number => tops[one.layer] ?? 0;
  const corners = vertices.slice(0, count).map((one) => ({ x: one.x - one.width / 2 - left, y: top(one) }));
  const ways = chains.map((chain, edge) => {
    const points = chain.flatMap((number, at): Point[] => {
      const one = vertices[number] as Vertex;
      const x = one.x - left;
      const bottom = { x, y: (tops[one.layer + 1] ?? 0) - (at === chain.length - 1 ? 0 : GAP_Y) };
      // Straight through the layer, so that it passes between what stands there; also beside what is higher than its source.
      if (at === 0) return [{ x, y: top(one) + one.height }, ...(bottom.y > top(one) + one.height + 1 ? [bottom] : [])];
      return one.isPoint ? [{ x, y: top(one) }, bottom] : [{ x, y: top(one) }];
    });
    const isBack = chain[0] !== links[edge]?.[0] || chain.length === 1;
    return { points: isBack ? points.reverse() : points, isBack };
  });
  return { width: count === 0 ? 0 : right - left, height: tops.at(-1) ?? 0, corners, ways };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
