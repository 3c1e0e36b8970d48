import { expect, test } from "vitest";
import { ranked } from "./rank";

const LABELS = ["Dead letters", "Theme: dark", "Jobs", "invoice.send", "Take Atlas offline", "sender.check"];

const found = (typed: string): string[] => ranked(LABELS, typed, (one) => one);

test("what begins as typed comes first, then words that do, then any part", () => {
  expect(found("send")).toEqual(["sender.check", "invoice.send"]);
  expect(found("da")).toEqual(["Theme: dark"]);
  expect(found("ark")).toEqual(["Theme: dark"]);
});

test("all words are found, in any order, and nothing typed finds everything as it was", () => {
  expect(found("offline atlas")).toEqual(["Take Atlas offline"]);
  expect(found("offline jobs")).toEqual([]);
  expect(found(" ")).toEqual(LABELS);
});
