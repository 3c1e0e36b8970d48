import { expect, it } from "vitest";
import { placed, readDocument } from "./problems";

const TEXT = `{
  "key": "order",
  "steps": [
    {"id": "a", "job": "x", "with": {"to.all": {"mail": "{{ nothing }}"}}},
    {"id": "b"}
  ]
}`;

const shown = (text: string, field: string) => {
  const [one] = placed(text, [{ field, reason: "is wrong" }]);
  return [one?.line, text.slice(one?.from, one?.to)];
};

it("finds where the server's errors are", () => {
  expect(shown(TEXT, "key")).toEqual([2, '"order"']);
  expect(shown(TEXT, "steps")).toEqual([3, '"steps"']);
  expect(shown(TEXT, "steps[1]")).toEqual([5, '{"id": "b"}']);
  expect(shown(TEXT, "steps[0].with.to.all.mail")).toEqual([4, '"{{ nothing }}"']);
  expect(shown(TEXT, "steps[1].job")).toEqual([5, '{"id": "b"}']);
  expect(shown(TEXT, "steps[7].id")).toEqual([3, '"steps"']);
  expect(shown(TEXT, "")).toEqual([1, "{"]);
});

it("says on which line a text stops being JSON", () => {
  const { document, mistakes } = readDocument('{\n  "key": "a"\n  "steps": []\n}');
  expect(document).toBeNull();
  expect(mistakes[0]).toMatchObject({ line: 3 });
  expect(mistakes[0]?.reason).toMatch(/^is not JSON: /);
  expect(readDocument("[1]").mistakes[0]?.reason).toBe("Not a JSON object.");
  expect(readDocument("").document).toBeNull();
});

it("notices a name that stands twice", () => {
  const { document, mistakes } = readDocument('{"key": "a",\n"steps": [], "key": "b"}');
  expect(document).toEqual({ key: "b", steps: [] });
  expect(mistakes).toMatchObject([{ line: 2, field: "key" }]);
});
