import type { Schemas } from "@/api/client";

export type Run = Schemas["WorkflowRun"];
export type Step = Schemas["RunStep"];
export type ListedStep = Schemas["ListedStep"];

/** What is known of a run. `document`: that of a declared workflow, in the version that the run keeps. */
export interface RunData {
  run: Pick<Run, "id" | "status" | "claimed_by">;
  steps: readonly ListedStep[];
  document: object | null;
}
