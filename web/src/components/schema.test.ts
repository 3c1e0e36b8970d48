import { expect, it } from "vitest";
import { initialValue, kindOf, resolve, type Schema } from "./schema";

const MAIL: Schema = {
  type: "object",
  required: ["to", "subject", "priority", "sender"],
  properties: {
    to: { type: "string", format: "email" },
    subject: { type: "string" },
    text: { anyOf: [{ type: "string" }, { type: "null" }], default: null, title: "Text" },
    priority: { enum: ["low", "high"] },
    retries: { type: "integer", default: 3 },
    sender: { $ref: "#/$defs/Sender" },
    tags: { type: "array", items: { type: "string" } },
  },
  $defs: { Sender: { type: "object", required: ["name"], properties: { name: { type: "string" } } } },
};

it("begins with the defaults and what is required", () => {
  expect(initialValue(MAIL)).toEqual({ to: "", subject: "", priority: "low", retries: 3, sender: { name: "" } });
});

it("finds a control for each field, through references and nulls", () => {
  const kinds = Object.entries(MAIL.properties ?? {}).map(([name, one]) => [name, kindOf(resolve(one, MAIL))]);
  expect(Object.fromEntries(kinds)).toEqual({
    to: "text",
    subject: "text",
    text: "text",
    priority: "choice",
    retries: "number",
    sender: "object",
    tags: "list",
  });
  expect(resolve(MAIL.properties?.["text"] ?? {}, MAIL).title).toBe("Text");
});

it("takes a text for what may be a text or something longer, and a list where that is the default", () => {
  const one: Schema = { anyOf: [{ type: "string" }, { type: "object", properties: {} }, { type: "array", items: { type: "string" } }] };
  expect(kindOf(resolve(one, one))).toBe("text");
  expect(kindOf(resolve({ ...one, default: [] }, one))).toBe("list");
  expect(kindOf(resolve({ anyOf: [{ type: "string" }, { type: "integer" }] }, one))).toBe("json");
});

it("writes what no control fits as JSON, and survives a schema that refers to itself", () => {
  expect(kindOf({})).toBe("json");
  expect(kindOf({ type: ["string", "number"] })).toBe("json");
  const loop: Schema = { $ref: "#/$defs/A", $defs: { A: { $ref: "#/$defs/A" } } };
  expect(initialValue(loop)).toBeUndefined();
  const tree: Schema = { type: "object", required: ["child"], properties: { child: { $ref: "#/$defs/T" } }, $defs: {} };
  tree.$defs = { T: tree };
  expect(() => initialValue(tree)).not.toThrow();
});
