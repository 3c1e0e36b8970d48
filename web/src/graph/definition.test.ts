import { expect, it } from "vitest";
import { END, graphOfDefinition, START } from "./definition";

const pairs = (document: unknown): string[] => graphOfDefinition(document).edges.map(({ from, to }) => `${from} ${to}`);

it("draws the steps of a document by what they need", () => {
  const order = {
    key: "order",
    steps: [
      { id: "reserve", job: "stock.reserve", onFailure: { job: "stock.release" } },
      { id: "paid", needs: ["reserve"], event: "order.paid", timeout: "2d" },
      { id: "note", needs: ["reserve"], if: "input.note", workflow: "notify" },
      { id: "ship", needs: ["paid", "note"], each: "{{ input.parcels }}", job: "order.ship", onFailure: "continue" },
    ],
  };
  const { nodes } = graphOfDefinition(order);
  expect(nodes.map((node) => [node.id, node.kind, node.detail])).toEqual([
    [START, "start", undefined],
    ["reserve", "job", "stock.reserve"],
    ["paid", "event", "order.paid"],
    ["note", "child", "notify"],
    ["ship", "job", "order.ship"],
    [END, "end", undefined],
  ]);
  expect(nodes.flatMap((node) => (node.badges ?? []).map((badge) => `${node.id} ${badge.label}`))).toEqual([
    "reserve undo",
    "note if",
    "ship each",
    "ship may fail",
  ]);
  expect(nodes[4]?.path).toBe("steps[3]");
  expect(pairs(order)).toEqual([`${START} reserve`, "reserve paid", "reserve note", "paid ship", "note ship", `ship ${END}`]);
});

it("draws what is there of a document that is being written", () => {
  for (const nothing of [undefined, null, "{", [], {}, { steps: "a" }, { steps: [] }])
    expect(graphOfDefinition(nothing)).toEqual({ nodes: [], edges: [] });
  const half = {
    steps: [null, { id: "a", needs: ["b", "b", 3] }, { id: "a", sleep: 60, needs: "a" }, { id: 7, approval: "Go?", needs: ["a"] }],
  };
  expect(graphOfDefinition(half).nodes.map((node) => [node.id, node.label, node.detail])).toEqual([
    [START, "Start", undefined],
    ["^0", "step 1", "does nothing yet"],
    ["a", "a", "does nothing yet"],
    ["a~2", "a", "60"],
    ["^3", "step 4", "Go?"],
    [END, "End", undefined],
  ]);
  expect(pairs(half)).toEqual([`${START} ^0`, `${START} a`, `${START} a~2`, "a ^3", `^0 ${END}`, `a~2 ${END}`, `^3 ${END}`]);
});
