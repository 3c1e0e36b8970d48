import { describe, expect, it } from "vitest";
import { shares } from "./shares";

describe("the parts of the status bar", () => {
  it("follow the counts, in the order of a job's life", () => {
    expect(shares({ succeeded: 3, queued: 1, unheard: 9 }).map((one) => [one.status, one.share])).toEqual([
      ["queued", 0.25],
      ["succeeded", 0.75],
    ]);
  });

  it("leave out what has no jobs, and show the few among many", () => {
    const [many, few] = shares({ succeeded: 1_000_000, failed: 0, dead_letter: 3 });
    expect(many?.status).toBe("succeeded");
    expect(few).toMatchObject({ status: "dead_letter", count: 3, share: 0.012 });
    expect(shares({})).toEqual([]);
  });
});
