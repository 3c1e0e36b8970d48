import { describe, expect, it } from "vitest";
import { isBusy, isUnreachable, readProblem, Unreachable } from "./problem";
import { delayBeforeRetry, retryTimeOf } from "./retries";

describe("a refused request", () => {
  it("becomes a problem with its remedy, its request id and the reasons of its fields", async () => {
    const errors = [{ field: "to", reason: "is required" }];
    const body = {
      type: "urn:atlas:problem:invalid-input",
      title: "x",
      status: 422,
      detail: "Bad.",
      remedy: "Do better.",
      errors,
      request_id: "abc",
    };
    const problem = await readProblem(new Response(JSON.stringify(body), { status: 422 }));
    expect([problem.message, problem.body.remedy, problem.body.request_id]).toEqual(["Bad.", "Do better.", "abc"]);
    expect(problem.reasonOf("to")).toBe("is required");
    expect(problem.reasonOf("from")).toBeUndefined();
    expect(isUnreachable(problem)).toBe(false);
  });

  it("that found no server is told apart from a fault in the page", () => {
    expect(isUnreachable(new Unreachable(new TypeError("Failed to fetch")))).toBe(true);
    expect(isUnreachable(new TypeError("x is undefined"))).toBe(false);
  });

  it("of a proxy, which answers in HTML, is described by its status", async () => {
    const problem = await readProblem(new Response("<h1>Bad gateway</h1>", { status: 502, headers: { "X-Request-Id": "abc" } }));
    expect(problem.body.request_id).toBe("abc");
    expect(problem.status).toBe(502);
    expect(problem.message).toContain("502");
    expect(isUnreachable(problem)).toBe(true);
  });

  it("of a busy server says when it is sent again", async () => {
    const body = {
      type: "urn:atlas:problem:unavailable",
      title: "x",
      status: 503,
      detail: "Busy.",
      remedy: null,
      errors: [],
      request_id: null,
    };
    const problem = await readProblem(new Response(JSON.stringify(body), { status: 503, headers: { "Retry-After": "2" } }));
    expect([isBusy(problem), isUnreachable(problem)]).toEqual([true, false]);
    expect(delayBeforeRetry(4, problem)).toBe(2000);
    expect(Math.abs((retryTimeOf(problem) ?? 0) - Date.now() - 2000)).toBeLessThan(500);
    expect(delayBeforeRetry(1, new Unreachable(null))).toBe(2000);
  });
});
