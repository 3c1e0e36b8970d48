import type { Schema } from "./known";
import type { Range } from "./tree";

/** One choice: what it inserts, and where the cursor is then. */
export interface Choice {
  label: string;
  insert: string;
  cursor: number;
  detail?: string;
  info?: string;
  kind: "property" | "text" | "variable" | "function" | "class" | "constant";
}

export interface Choices extends Range {
  choices: Choice[];
}

/** A step as it is written so far. */
export interface DraftStep {
  id?: unknown;
  needs?: unknown;
  each?: unknown;
  job?: unknown;
  workflow?: unknown;
  event?: unknown;
  approval?: unknown;
}

export interface Draft {
  inputSchema?: Schema;
  steps: DraftStep[];
}
