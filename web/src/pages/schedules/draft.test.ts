import { describe, expect, it } from "vitest";
import { draftOf, readDraft } from "./draft";

describe("a trigger that is typed", () => {
  it("leaves out what belongs to the other kind of trigger", () => {
    const draft = {
      ...draftOf(undefined),
      label: " Report ",
      type: "event" as const,
      cron: "0 7 * * *",
      event: "invoice.paid",
      target: "report.build",
    };
    const body = readDraft(draft);
    expect(body).toMatchObject({
      label: "Report",
      event_name: "invoice.paid",
      cron_expr: null,
      timezone: null,
      job_type: "report.build",
      workflow: null,
    });
  });

  it("is nothing while its input is not a JSON object", () => {
    expect(readDraft({ ...draftOf(undefined), template: "{" })).toBeNull();
    expect(readDraft({ ...draftOf(undefined), template: "[1]" })).toBeNull();
    expect(readDraft({ ...draftOf(undefined), template: "" })?.payload_template).toEqual({});
  });
});
