import { describe, expect, it } from "vitest";
import { isUnreachable, readProblem } from "./problem";

describe("a refused request", () => {
  it("becomes a problem with its request id and the reasons of its fields", async () => {
    const body = { type: "urn:atlas:problem:invalid-input", title: "x", status: 422, detail: "Bad.", errors: [{ field: "to", reason: "is required" }] };
    const problem = await readProblem(new Response(JSON.stringify(body), { status: 422, headers: { "X-Request-Id": "abc" } }));
    expect(problem.requestId).toBe("abc");
    expect(problem.reasonOf("to")).toBe("is required");
    expect(problem.reasonOf("from")).toBeUndefined();
    expect(isUnreachable(problem)).toBe(false);
  });

  it("of a proxy, which answers in HTML, is described by its status", async () => {
    const problem = await readProblem(new Response("<h1>Bad gateway</h1>", { status: 502 }));
    expect(problem.status).toBe(502);
    expect(problem.message).toContain("502");
    expect(isUnreachable(problem)).toBe(true);
  });
});
