import { expect, test } from "vitest";
import { linkOf, nameIn, readViews, searchOfView, type View, withView, without } from "./views";

const FAILED: View = { page: "/jobs", name: "Failed mails", search: "?job_type=EMAIL_SEND&status=failed" };

test("a view holds filters, columns and order, not what is open beside the list", () => {
  expect(
    searchOfView({ status: ["failed", "dead_letter"], order: "ended", hide: ["worker"], job: "0192f0c1", tab: "audit", source: undefined }),
  ).toBe("?hide=worker&order=ended&status=failed&status=dead_letter");
  expect(searchOfView({ order: "ended", status: "failed" })).toBe(searchOfView({ status: "failed", order: "ended" }));
});

test("a link carries the whole view and its name", () => {
  const link = linkOf({ ...FAILED, name: "50% & more" });
  expect(link).toBe("/jobs?job_type=EMAIL_SEND&status=failed#view=50%25%20%26%20more");
  expect(nameIn(link.split("#")[1] ?? "")).toBe("50% & more");
  expect(nameIn("sign-in=abc")).toBeUndefined();
  expect(nameIn("view=%E0%A4%A")).toBeUndefined();
});

test("a name is kept once on a page, and removed", () => {
  const once = withView([], { ...FAILED, name: "  Failed   mails " });
  expect(once).toEqual([FAILED]);
  const again = withView(once, { ...FAILED, search: "?status=failed" });
  expect(again).toEqual([{ ...FAILED, search: "?status=failed" }]);
  expect(withView(once, { ...FAILED, page: "/runs" })).toHaveLength(2);
  expect(withView(once, { ...FAILED, name: " " })).toEqual(once);
  expect(without(again, FAILED)).toEqual([]);
});

test("what a browser kept is not trusted", () => {
  expect(readViews("{")).toEqual([]);
  expect(readViews(null)).toEqual([]);
  expect(
    readViews(
      JSON.stringify([FAILED, { ...FAILED, page: "//evil.example" }, { ...FAILED, page: "javascript:alert(1)" }, 7, { page: "/jobs" }]),
    ),
  ).toEqual([FAILED]);
});
