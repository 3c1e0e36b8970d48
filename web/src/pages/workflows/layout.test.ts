import { expect, it } from "vitest";
import { layOut, orderOf } from "./layout";

const ORDER = orderOf({
  properties: { key: {}, steps: {}, output: {} },
  $defs: { Step: { properties: { id: {}, needs: {}, job: {}, with: {}, onFailure: {} } } },
});

it("puts the fields in order and on one line what fits", () => {
  const text = layOut(
    {
      steps: [
        { job: "a", id: "one" },
        { with: { text: "x".repeat(90) }, job: "b", id: "two", needs: ["one"] },
      ],
      key: "k",
    },
    ORDER,
  );
  expect(text).toBe(`{
  "key": "k",
  "steps": [
    {"id": "one", "job": "a"},
    {
      "id": "two",
      "needs": ["one"],
      "job": "b",
      "with": {
        "text": "${"x".repeat(90)}"
      }
    }
  ]
}
`);
});

it("keeps every value, and fields that the schema does not know", () => {
  const document = { output: null, key: 'a\n"b"', steps: [5, { id: "x", other: [[], {}], onFailure: { with: {}, job: "j" } }], more: true };
  expect(JSON.parse(layOut(document, ORDER))).toEqual(document);
  expect(JSON.parse(layOut([1, 2], ORDER))).toEqual([1, 2]);
});
