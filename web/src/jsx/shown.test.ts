import { expect, it } from "vitest";
import { shown } from "./shown";

it("makes every text of an element visible, and keeps what holds nothing hidden as it is", () => {
  const plain = { children: ["Pay ", 1, ["EUR"]], title: "Pay", value: "a\u202E" };
  expect(shown(plain)).toBe(plain);
  expect(shown({ children: "Pay\u202E", title: "\u200BPay", "aria-valuetext": "\u200BEUR", value: "a\u202E" })).toEqual({
    children: "Pay\\u202e",
    title: "\\u200bPay",
    "aria-valuetext": "\\u200bEUR",
    value: "a\u202E",
  });
  expect(shown({ children: ["Pay ", ["\u2066EUR"]] })).toEqual({ children: ["Pay ", ["\\u2066EUR"]] });
});
