import { describe, expect, it } from "vitest";
import { nameCommand } from "./command";

describe("a command", () => {
  it("is named as a person types it, wherever a text has it", () => {
    const clone = ".venv/bin/atlas";
    expect(nameCommand("atlas audit export --out a && atlas audit verify --export a", clone)).toBe(
      ".venv/bin/atlas audit export --out a && .venv/bin/atlas audit verify --export a",
    );
    expect(nameCommand("Run `atlas worker --all`; see docs/atlas worker.", clone)).toBe(
      "Run `.venv/bin/atlas worker --all`; see docs/atlas worker.",
    );
    expect(nameCommand("`ATLAS_TOKEN=x atlas workflow approve 1`", clone)).toBe("`ATLAS_TOKEN=x .venv/bin/atlas workflow approve 1`");
    expect(nameCommand("Bring atlas online.", clone)).toBe("Bring atlas online.");
    expect(nameCommand("atlas online")).toBe("atlas online");
  });
});
