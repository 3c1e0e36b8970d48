import { expect, it } from "vitest";
import { completionsAt } from "./complete";
import type { Knowledge } from "./known";

const KNOWN: Knowledge = {
  schema: {
    $defs: {
      Undo: { type: "object", properties: { job: { type: "string" }, with: { type: "object" } } },
      Step: {
        type: "object",
        required: ["id"],
        properties: {
          id: { type: "string", description: "Its name." },
          needs: { type: "array", items: { type: "string" } },
          if: { anyOf: [{ type: "string" }, { type: "boolean" }, { type: "null" }] },
          each: { anyOf: [{ type: "string" }, { type: "array" }] },
          job: { anyOf: [{ type: "string" }, { type: "null" }] },
          workflow: { type: "string" },
          approval: { type: "string" },
          event: { type: "string" },
          with: { type: "object" },
          onFailure: { anyOf: [{ enum: ["fail", "continue"], type: "string" }, { $ref: "#/$defs/Undo" }] },
        },
      },
    },
    type: "object",
    required: ["key", "steps"],
    properties: {
      key: { type: "string" },
      inputSchema: { type: "object" },
      steps: { type: "array", items: { $ref: "#/$defs/Step" } },
      output: {},
    },
  },
  filters: ["default", "length"],
  tests: ["defined"],
  jobTypes: [
    {
      key: "EMAIL_SEND",
      description: "Sends a mail.",
      input_schema: { type: "object", required: ["to"], properties: { to: { type: "string" }, subject: { type: "string" } } },
    },
  ],
  workflows: [{ key: "daily-brief", description: "", input_schema: { properties: { topic: { type: "string" } } } }],
};

/** The choices at the mark |, and the text after the first of them was taken. */
function at(marked: string) {
  const position = marked.indexOf("|");
  const text = marked.slice(0, position) + marked.slice(position + 1);
  const found = completionsAt(text, position, KNOWN);
  const first = found?.choices[0];
  const taken =
    found === null || first === undefined
      ? null
      : `${text.slice(0, found.from)}${first.insert.slice(0, first.cursor)}|${first.insert.slice(first.cursor)}${text.slice(found.to)}`;
  return { labels: found?.choices.map((one) => one.label) ?? [], taken, first };
}

it("offers the fields that an object has not yet", () => {
  expect(at('{"key": "a", |}').labels).toEqual(["inputSchema", "steps", "output"]);
  expect(at('{"key": "a", "st|"}').taken).toBe('{"key": "a", "steps": [|]}');
  expect(at('{"key": "a", "st|').taken).toBe('{"key": "a", "steps": [|]');
  const step = at('{"steps": [{"|": "x", "job": "EMAIL_SEND"}]}');
  expect(step.labels).not.toContain("job");
  expect(step.taken).toBe('{"steps": [{"id"|: "x", "job": "EMAIL_SEND"}]}');
  expect(step.first).toMatchObject({ detail: "required", info: "Its name." });
  expect(at('{"steps": [{"id": "x", "workflow": "y", |}]}').labels).toEqual(["needs", "if", "each", "with", "onFailure"]);
  expect(at('{"steps": [{"id": "x", "ne|"}]}').taken).toBe('{"steps": [{"id": "x", "needs": ["|"]}]}');
});

it("offers what exists as values", () => {
  expect(at('{"steps": [{"id": "a", "job": "em|"}]}').taken).toBe('{"steps": [{"id": "a", "job": "EMAIL_SEND"|}]}');
  expect(at('{"steps": [{"id": "a", "job": |}]}').taken).toBe('{"steps": [{"id": "a", "job": "EMAIL_SEND"|}]}');
  expect(at('{"steps": [{"workflow": "|"}]}').labels).toEqual(["daily-brief"]);
  expect(at('{"steps": [{"onFailure": "|"}]}').labels).toEqual(["fail", "continue"]);
  expect(at('{"steps": [{"onFailure": {"job": "|"}}]}').labels).toEqual(["EMAIL_SEND"]);
  expect(at('{"inputSchema": {"type": "|"}}').labels).toContain("object");
  expect(at('{"key": "|"}').labels).toEqual([]);
});

it("offers the steps that a step may need, once each and never itself", () => {
  const text = (needs: string): string => `{"steps": [{"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": [${needs}]}]}`;
  expect(at(text('"|"')).labels).toEqual(["a", "b"]);
  expect(at(text('"a", "|"')).labels).toEqual(["b"]);
  expect(at(text("|")).labels).toEqual(["a", "b"]);
});

it("offers the fields of a job type's or workflow's input within with", () => {
  expect(at('{"steps": [{"job": "EMAIL_SEND", "with": {"|"}}]}').labels).toEqual(["to", "subject"]);
  expect(at('{"steps": [{"workflow": "daily-brief", "with": {"|"}}]}').labels).toEqual(["topic"]);
  expect(at('{"steps": [{"onFailure": {"job": "EMAIL_SEND", "with": {"to": "x", "|"}}}]}').labels).toEqual(["subject"]);
});

it("offers the names that a template may read", () => {
  const text = (template: string): string =>
    `{"inputSchema": {"properties": {"topic": {"type": "string"}, "who": {"properties": {"mail": {}}}}}, "steps": [{"id": "ask", "approval": "x"}, {"id": "paid", "event": "e", "needs": ["ask"]}, {"id": "other", "job": "x"}, {"id": "mail", "needs": ["paid"], "each": [1], "with": {"to": "${template}"}}], "output": "{{ steps.| }}"}`;
  expect(at(text("{{ |")).labels).toEqual(["input", "run", "steps", "event", "item", "index"]);
  expect(at(text("Dear {{ input.| }}, hello")).labels).toEqual(["topic", "who"]);
  expect(at(text("{{ input.who.| }}")).labels).toEqual(["mail"]);
  expect(at(text("{{ steps.| }}")).labels).toEqual(["ask", "paid"]);
  expect(at(text("{{ steps.ask.| }}")).labels).toEqual(["output", "status"]);
  expect(at(text("{{ steps.ask.output.app| }}")).taken).toContain("{{ steps.ask.output.approved| }}");
  expect(at(text("{{ input.topic | de|").replace(" | de", " \u0001 de")).labels).toEqual([]);
  expect(at(text("plain |")).labels).toEqual([]);
  expect(at(text("{{ input.topic }} |")).labels).toEqual([]);
  expect(at('{"steps": [{"id": "ask", "approval": "x"}, {"needs": ["ask"], "if": "steps.ask.output.|"}]}').labels).toContain("approved");
  expect(at('{"steps": [{"id": "a"}, {"id": "b"}], "output": "{{ steps.| }}"}').labels).toEqual(["a", "b"]);
});

it("offers filters and tests", () => {
  const offered = (template: string): string[] => {
    const text = `{"steps": [{"job": "x", "with": {"to": "${template}`;
    return completionsAt(text, text.length, KNOWN)?.choices.map((one) => one.label) ?? [];
  };
  expect(offered("{{ input.a | de")).toEqual(["default"]);
  expect(offered("{{ input.a is ")).toEqual(["defined"]);
});
