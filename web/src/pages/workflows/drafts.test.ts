import { expect, it } from "vitest";
import { draftName, keepDraft, readDraft } from "./drafts";

function storage(full = false): Storage {
  const kept = new Map<string, string>();
  return {
    get length() {
      return kept.size;
    },
    clear: () => kept.clear(),
    key: () => null,
    getItem: (name) => kept.get(name) ?? null,
    removeItem: (name) => void kept.delete(name),
    setItem: (name, value) => {
      if (full) throw new DOMException("full", "QuotaExceededError");
      kept.set(name, value);
    },
  };
}

it("keeps a draft until it is published", () => {
  const kept = storage();
  const name = draftName("acme", "order");
  keepDraft(name, { text: "{", version: 3 }, kept);
  expect(readDraft(name, kept)).toEqual({ text: "{", version: 3 });
  keepDraft(name, null, kept);
  expect(readDraft(name, kept)).toBeNull();
});

it("keeps drafts of other workflows and tenants apart", () => {
  const names = [
    draftName(undefined, undefined),
    draftName("acme", undefined),
    draftName("acme", "order"),
    draftName(undefined, "order"),
    draftName("acme:=order", undefined),
    draftName("acme", ":"),
  ];
  expect(new Set(names).size).toBe(names.length);
});

it("takes what it cannot read or keep as none", () => {
  const kept = storage();
  kept.setItem("a", "{no json");
  kept.setItem("b", '{"text": 5, "version": 1}');
  expect([readDraft("a", kept), readDraft("b", kept)]).toEqual([null, null]);
  expect(() => keepDraft("a", { text: "", version: 0 }, storage(true))).not.toThrow();
});
