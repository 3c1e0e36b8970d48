import { describe, expect, it } from "vitest";
import type { Graph, GraphNode } from "./graph";
import { crossings, ranksOf } from "./layers";
import { layout, NODE_WIDTH, pathOf, type Layout } from "./layout";
import { neighbour } from "./walk";

const node = (id: string, rest: Partial<GraphNode> = {}): GraphNode => ({ id, label: id, kind: "step", ...rest });
const edges = (...pairs: string[]): Graph["edges"] => pairs.map((pair) => ({ from: pair[0] ?? "", to: pair[1] ?? "" }));
const graph = (ids: string, ...pairs: string[]): Graph => ({ nodes: Array.from(ids, (id) => node(id)), edges: edges(...pairs) });

function boxes(drawing: Layout) {
  return Object.fromEntries(drawing.nodes.map((one) => [one.node.id, one]));
}

function overlaps(drawing: Layout): string[] {
  const within = (one: string, group: string | null): boolean =>
    group !== null && (group === one || within(one, boxes(drawing)[group]?.group ?? null));
  return drawing.nodes.flatMap((one, at) =>
    drawing.nodes
      .slice(at + 1)
      .filter((other) => !within(one.node.id, other.group))
      .filter(
        (other) =>
          one.x < other.x + other.width && other.x < one.x + one.width && one.y < other.y + other.height && other.y < one.y + one.height,
      )
      .map((other) => `${one.node.id} ${other.node.id}`),
  );
}

describe("layers", () => {
  it("are as deep as the longest way, and circles have an end", () => {
    expect(
      ranksOf(4, [
        [0, 1],
        [1, 2],
        [0, 3],
        [2, 3],
      ]),
    ).toEqual([0, 1, 2, 3]);
    expect(
      ranksOf(3, [
        [0, 1],
        [1, 2],
        [2, 0],
      ]),
    ).toEqual([0, 1, 2]);
    expect(ranksOf(1, [[0, 0]])).toEqual([0]);
  });

  it("count crossings", () => {
    const vertices = [{ below: [3] }, { below: [2] }, { below: [] }, { below: [] }];
    expect(
      crossings(vertices, [
        [0, 1],
        [2, 3],
      ]),
    ).toBe(1);
    expect(
      crossings(vertices, [
        [0, 1],
        [3, 2],
      ]),
    ).toBe(0);
  });
});

describe("layout", () => {
  it("puts what follows below and what is parallel beside each other, around the middle", () => {
    const at = boxes(layout(graph("abcd", "ab", "ac", "bd", "cd")));
    expect(at["b"]?.y).toBe(at["c"]?.y);
    expect(at["b"]?.y).toBeGreaterThan((at["a"]?.y ?? 0) + (at["a"]?.height ?? 0));
    expect(at["a"]?.x).toBe(at["d"]?.x);
    expect((at["b"]?.x ?? 0) + (at["c"]?.x ?? 0)).toBeCloseTo(2 * (at["a"]?.x ?? 0));
  });

  it("crosses edges only where it must, and leads long ones around what stands between", () => {
    const drawing = layout(graph("abcdefg", "ac", "bd", "ce", "df", "ag", "eg", "fg"));
    const at = boxes(drawing);
    expect(overlaps(drawing)).toEqual([]);
    const long = drawing.edges.find(({ edge }) => edge.from === "a" && edge.to === "g");
    for (const passed of ["c", "e"]) {
      const box = at[passed];
      for (const point of long?.points.slice(1, -1) ?? []) {
        expect(
          point.x > (box?.x ?? 0) && point.x < (box?.x ?? 0) + NODE_WIDTH && point.y > (box?.y ?? 0) && point.y < (box?.y ?? 0) + 1,
        ).toBe(false);
      }
    }
  });

  it("draws an open group in place, whatever lies in it", () => {
    const inner = { nodes: [node("x"), node("y", { inner: graph("pq", "pq") }), node("z")], edges: edges("xy", "xz") };
    const drawing = layout({ nodes: [node("a"), node("g", { inner }), node("b")], edges: edges("ag", "gb") });
    const at = boxes(drawing);
    expect(overlaps(drawing)).toEqual([]);
    expect(at["p"]?.group).toBe("y");
    for (const id of "xyzpq") {
      const [box, outer] = [at[id], at[at[id]?.group ?? ""]];
      expect(box?.x).toBeGreaterThanOrEqual(outer?.x ?? Infinity);
      expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual((outer?.y ?? 0) + (outer?.height ?? 0));
    }
    const first = drawing.edges.find(({ edge }) => edge.from === "p")?.points[0];
    expect(first?.y).toBe((at["p"]?.y ?? 0) + (at["p"]?.height ?? 0));
  });

  it("puts parts that are not connected into rows", () => {
    const many = layout({ nodes: Array.from({ length: 100 }, (_, number) => node(`${number}`)), edges: [] });
    expect(many.width).toBeLessThan(20 * NODE_WIDTH);
    expect(overlaps(many)).toEqual([]);
  });

  it("draws documents that are wrong: circles, and edges from or to nothing", () => {
    const drawing = layout(graph("abc", "ab", "ba", "bb", "bc", "xa", "cx"));
    expect(overlaps(drawing)).toEqual([]);
    expect(drawing.edges.filter(({ isBack }) => isBack).map(({ edge }) => edge.from + edge.to)).toEqual(["ba", "bb"]);
    expect(layout({ nodes: [], edges: [] })).toEqual({ width: 0, height: 0, nodes: [], edges: [] });
  });

  it("takes little time for a large graph", () => {
    const ids = Array.from({ length: 1000 }, (_, number) => `${number}`);
    const ladder = {
      nodes: ids.map((id) => node(id)),
      edges: ids
        .flatMap((id, at) => [
          { from: ids[at - 3] ?? id, to: id },
          { from: ids[at - 7] ?? id, to: id },
        ])
        .filter((edge) => edge.from !== edge.to),
    };
    const began = performance.now();
    expect(layout(ladder).nodes).toHaveLength(1000);
    expect(performance.now() - began).toBeLessThan(2000);
  });
});

it("draws curves that leave and reach nodes straight down", () => {
  expect(
    pathOf([
      { x: 0, y: 0 },
      { x: 0, y: 10 },
      { x: 20, y: 30 },
    ]),
  ).toBe("M0 0V10C0 20 20 20 20 30");
});

it("walks along edges first, and to the nearest else", () => {
  const drawing = layout(graph("abcd", "ab", "ac", "bd", "cd"));
  const [left, right] = (boxes(drawing)["b"]?.x ?? 0) < (boxes(drawing)["c"]?.x ?? 0) ? ["b", "c"] : ["c", "b"];
  expect(neighbour(drawing, left, "right")).toBe(right);
  expect(neighbour(drawing, right, "left")).toBe(left);
  expect(neighbour(drawing, left, "down")).toBe("d");
  expect(neighbour(drawing, right, "up")).toBe("a");
  expect(neighbour(drawing, "d", "down")).toBeUndefined();
  expect(neighbour(drawing, "gone", "down")).toBe("a");
  const grouped = layout({ nodes: [node("g", { inner: graph("xy", "xy") }), node("h")], edges: edges("gh") });
  expect(["g", "x", "y"].map((id) => neighbour(grouped, id, "down"))).toEqual(["x", "y", "h"]);
  expect(["h", "y", "x"].map((id) => neighbour(grouped, id, "up"))).toEqual(["g", "x", "g"]);
});
