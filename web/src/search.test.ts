import { expect, it } from "vitest";
import { oneOf, parseSearch, someOf, stringifySearch, text } from "./search";

it("keeps filters in the address as plain text, and drops what is empty", () => {
  const search = { status: ["failed", "running"], tenant: "123", q: undefined };
  expect(stringifySearch(search)).toBe("?status=failed&status=running&tenant=123");
  expect(parseSearch("?status=failed&status=running&tenant=123")).toEqual({ status: ["failed", "running"], tenant: "123" });
  expect(stringifySearch({ q: undefined })).toBe("");
});

it("ignores what an address may say and a page does not know", () => {
  const search = parseSearch("?status=failed&status=<script>&tab=nonsense&q=");
  expect(someOf(search, "status", ["queued", "failed"])).toEqual(["failed"]);
  expect(oneOf(search, "tab", ["input", "output"])).toBeUndefined();
  expect(text(search, "q")).toBeUndefined();
});
