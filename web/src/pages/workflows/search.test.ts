import { expect, it } from "vitest";
import { editSearch, workflowSearch } from "./search";

it("reads versions from an address and from a step within the pages, and nothing else", () => {
  expect(workflowSearch({ tab: "versions", from: "1", to: 3 })).toEqual({ tab: "versions", from: 1, to: 3 });
  expect(workflowSearch({ tab: "x", from: "-1", to: ["2"] })).toEqual({ tab: undefined, from: undefined, to: undefined });
  expect(editSearch({ tab: "dry-run" })).toEqual({ tab: "dry-run" });
});
