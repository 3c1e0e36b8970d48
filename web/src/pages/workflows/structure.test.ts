import { expect, it } from "vitest";
import { compareStructure } from "./structure";

const document = (...steps: object[]): string => JSON.stringify({ name: "Invoices", steps });
const READ = { id: "read", job: "invoice.read", input: { month: 3, by: "mail" } };
const SEND = { id: "send", job: "invoice.send", needs: ["read"] };

it("compares steps by their ids and their fields, whatever order they are written in", () => {
  const after = document({ needs: ["read"], job: "invoice.send", id: "send" }, { ...READ, input: { by: "mail", month: 4 }, retries: 2 });
  expect(compareStructure(document(READ, SEND), after)).toEqual({
    fields: [{ path: "order of the steps", before: ["read", "send"], after: ["send", "read"] }],
    steps: [
      {
        id: "read",
        kind: "changed",
        about: "job invoice.read",
        differences: [
          { path: "input.month", before: 3, after: 4 },
          { path: "retries", before: undefined, after: 2 },
        ],
      },
    ],
  });
});

it("tells a step that is new, gone or renamed from one that changed", () => {
  const kinds = (before: string, after: string) =>
    compareStructure(before, after)?.steps.map(({ kind, id, about }) => `${kind} ${id} ${about}`);
  expect(kinds(document(READ), document(READ, SEND))).toEqual(["added send job invoice.send"]);
  expect(kinds(document(READ, SEND), document(READ))).toEqual(["removed send job invoice.send"]);
  expect(kinds(document(READ), document({ ...READ, id: "load" }))).toEqual(["renamed load from read"]);
  expect(kinds(document(READ), document(READ))).toEqual([]);
});

it("leaves a text that is half written, or whose steps have no ids, to the lines", () => {
  expect(compareStructure(document(READ), "{")).toBeNull();
  expect(compareStructure(document(READ), document(READ, READ))).toBeNull();
  expect(compareStructure(document({ job: "x" }), document(READ))).toBeNull();
});
