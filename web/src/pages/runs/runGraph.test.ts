import { describe, expect, it } from "vitest";
import { allNodes, type Graph } from "@/graph/graph";
import { layout } from "@/graph/layout";
import { happeningsOf } from "./happenings";
import type { ListedStep, Run, RunData } from "./model";
import { graphOfRun } from "./runGraph";

const T0 = Date.parse("2026-11-16T02:00:00Z");
let clock = 0;

/** A step that begins a millisecond after the one before it. */
function step(key: string, rest: Partial<ListedStep> = {}): ListedStep {
  const [, branch = "", name = key] = /^(.*\/)?([^/]*)$/.exec(key) ?? [];
  clock += 1;
  const at = new Date(T0 + clock).toISOString();
  return {
    ...{
      key,
      branch,
      position: clock,
      name,
      kind: "step",
      status: "succeeded",
      attempts: 1,
      started_at: at,
      finished_at: at,
      wake_at: null,
      waits_for: null,
    },
    ...{
      child_id: null,
      child_status: null,
      child_name: null,
      approval_id: null,
      approval_status: null,
      decided_by: null,
      event_name: null,
      event_match: null,
      error: null,
    },
    ...rest,
  };
}

/** A declared step lies in a branch of its own. */
const declared = (key: string, rest: Partial<ListedStep> = {}): ListedStep => ({ ...step(key, rest), branch: `${key}/` });
const waiting: Partial<ListedStep> = { status: "waiting", finished_at: null };

const run = (steps: ListedStep[], status: Run["status"] = "succeeded", document: object | null = null): RunData => ({
  run: { id: "r", status, claimed_by: null },
  steps,
  document,
});
const draw = (data: RunData, open: string[] = [], known: [string, RunData][] = []) => graphOfRun(data, new Set(open), new Map(known));
const edges = (graph: Graph): string[] =>
  graph.edges.map(({ from, to }) => `${from}-${to}`.replaceAll("^start", "S").replaceAll("^end", "E"));
const statuses = (graph: Graph): Record<string, unknown> => Object.fromEntries([...allNodes(graph)].map((node) => [node.id, node.status]));

describe("a run of a workflow in code", () => {
  it("is its steps in order, with branches side by side where they began", () => {
    const picture = draw(run([step("a"), step("gather[0]/x"), step("gather[1]/y"), step("gather[0]/z"), step("b")]));
    expect(edges(picture)).toEqual([
      "S-a",
      "a-gather[0]/x",
      "gather[0]/x-gather[0]/z",
      "a-gather[1]/y",
      "gather[0]/z-b",
      "gather[1]/y-b",
      "b-E",
    ]);
  });

  it("knows branches within branches that have no step of their own", () => {
    const picture = draw(run([step("gather[0]/inner[0]/x"), step("gather[0]/inner[1]/y"), step("gather[1]/z")]));
    expect(edges(picture)).toEqual([
      "S-gather[0]/inner[0]/x",
      "S-gather[0]/inner[1]/y",
      "S-gather[1]/z",
      "gather[0]/inner[0]/x-E",
      "gather[0]/inner[1]/y-E",
      "gather[1]/z-E",
    ]);
  });

  it("folds loops and wide groups with a count, and opens them in place", () => {
    const rounds = [1, 2, 3, 4].flatMap((round) => [
      step(round === 1 ? "fetch" : `fetch#${round}`),
      step(round === 1 ? "store" : `store#${round}`, round === 3 ? { status: "failed" } : {}),
    ]);
    const wide = Array.from({ length: 12 }, (_, number) => step(`gather[${number}]/send`));
    const data = run([...rounds, ...wide, step("end")]);
    const folded = draw(data);
    expect(folded.nodes.map((node) => [node.id, node.label, node.status, node.detail])).toEqual([
      ["^start", "Start", undefined, undefined],
      ["^loop fetch", "fetch → store", "failed", "4 rounds · 1 failed"],
      ["^all gather", "gather", "succeeded", "12 side by side"],
      ["end", "end", "succeeded", "0 ms"],
      ["^end", "End: succeeded", "succeeded", undefined],
    ]);
    expect(folded.steps.get("store#3")?.node).toBe("^loop fetch");
    const opened = draw(data, ["^loop fetch", "^all gather"]);
    expect(opened.nodes[1]?.inner?.edges).toHaveLength(7);
    expect(opened.nodes[2]?.inner?.nodes.map((node) => node.id).slice(9)).toEqual(["gather[9]/send", "gather[10]/send", "gather[11]/send"]);
    expect(opened.steps.get("store#3")).toMatchObject({ node: "store#3", title: "fetch → store › store#3" });
    expect(layout(opened).nodes).toHaveLength(folded.nodes.length + 8 + 12);
  });

  it("shows how a step stands by what it waits for, and by its run", () => {
    const steps = [
      step("job", { ...waiting, kind: "job", child_status: "running" }),
      step("sub", { ...waiting, kind: "child", child_status: "queued" }),
      step("again", { ...waiting, status: "retrying" }),
    ];
    expect(Object.values(statuses(draw(run(steps, "waiting")))).slice(1, 4)).toEqual(["running", "waiting", "retrying"]);
    expect(Object.values(statuses(draw(run(steps, "canceled")))).slice(1, 4)).toEqual(["canceled", "canceled", "canceled"]);
    expect(statuses(draw(run([step("a")], "running")))["^work"]).toBe("running");
  });

  it("draws what was undone after what failed", () => {
    const picture = draw(
      run(
        [step("a"), step("b", { status: "failed" }), step("undo/failure", { kind: "failure" }), step("undo/refund", { kind: "undo" })],
        "failed",
      ),
    );
    expect(edges(picture)).toEqual(["S-a", "a-b", "b-undo/failure", "undo/failure-undo/refund", "undo/refund-E"]);
  });

  it("opens sub-runs in place, also those within others", () => {
    const outer = run([step("sub", { kind: "child", child_id: "c1" }), step("end")]);
    const inner = run([step("deep", { kind: "child", child_id: "c2" })]);
    expect(draw(outer, ["sub", "sub>deep"]).nodes[1]?.inner).toEqual({ nodes: [], edges: [] });
    const second = draw(
      outer,
      ["sub", "sub>deep"],
      [
        ["c1", inner],
        ["c2", run([step("x")])],
      ],
    );
    expect([...allNodes(second)].map((node) => node.id)).toEqual(["^start", "sub", "sub>deep", "sub>deep>x", "end", "^end"]);
    expect(second.steps.get("sub>deep>x")?.title).toBe("sub › deep › x");
  });
});

describe("a run of a declared workflow", () => {
  const document = {
    steps: [
      { id: "ask", approval: "Go?" },
      { id: "mail", needs: ["ask"], if: "x", job: "EMAIL_SEND" },
      { id: "log", needs: ["mail"], job: "log.add" },
      { id: "each", needs: ["ask"], each: "{{ input.of }}", job: "part.make" },
      { id: "last", needs: ["each", "log"], sleep: 1 },
      { id: "undo", workflow: "tidy" },
    ],
  };
  const items = [0, 1].map((number) =>
    step(`each/each[${number}]/each`, { kind: "job", ...(number === 1 ? { ...waiting, child_status: "running" } : {}) }),
  );

  it("draws what was not reached, and what was skipped", () => {
    const begun = statuses(draw(run([declared("ask", { ...waiting, kind: "approval" })], "waiting", document)));
    expect([begun["ask"], begun["mail"], begun["log"], begun["last"]]).toEqual(["waiting", "unreached", "unreached", "unreached"]);
    const further = draw(
      run([declared("ask"), ...items, { ...step("undo", { kind: "child", child_id: "c" }), branch: "undo-/" }], "waiting", document),
    );
    expect(statuses(further)).toMatchObject({
      ask: "succeeded",
      mail: "skipped",
      log: "skipped",
      "^all each": "running",
      last: "skipped",
      undo: "succeeded",
      "^end": "unreached",
    });
    expect(statuses(draw(run([declared("ask")], "succeeded", document)))["last"]).toBe("skipped");
    expect(statuses(draw(run([declared("ask")], "failed", document)))["mail"]).toBe("unreached");
    expect(edges(further)).toContain("^all each-last");
  });

  it("folds the items of a step, and opens them", () => {
    const data = run([declared("ask"), ...items], "waiting", document);
    expect(draw(data).nodes.find((node) => node.id === "^all each")?.detail).toBe("2 items · 1 running");
    expect(draw(data).steps.get("each/each[1]/each")).toMatchObject({ node: "^all each", title: "each 1" });
    const opened = draw(data, ["^all each"]).nodes.find((node) => node.id === "^all each");
    expect(opened?.inner?.nodes.map((node) => node.label)).toEqual(["each 0", "each 1"]);
  });
});

it("lists what happened in the order of time, with what is waited for", () => {
  const wake = new Date(T0 + 3_600_000).toISOString();
  const data = run(
    [
      step("check"),
      step("ask", { ...waiting, kind: "approval", wake_at: wake }),
      step("mail", { kind: "job", child_name: "EMAIL_SEND", finished_at: wake }),
    ],
    "waiting",
  );
  const facts = {
    workflow: "payout",
    requested_by: "dana",
    created_at: new Date(T0).toISOString(),
    cancel_requested_at: null,
    finished_at: null,
    status: "waiting",
  } as Run;
  expect(happeningsOf(facts, draw(data)).map((one) => `${one.title}: ${one.words.replace(/ until .*\d\d:\d\d$/, " until …")}`)).toEqual([
    "payout: requested by dana",
    "check: succeeded after 0 ms",
    "ask: waits for an approval until …",
    "mail: started EMAIL_SEND",
    expect.stringMatching(/^mail: succeeded after 59 m/),
  ]);
});
