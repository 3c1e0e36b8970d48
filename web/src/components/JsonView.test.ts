import { expect, it } from "vitest";
import { visible } from "./JsonView";

it("shows characters that hide or turn what follows by their numbers, and keeps all others", () => {
  expect(visible("ab\u202Egpj.exe")).toBe("ab\\u202egpj.exe");
  expect(visible("a\u0000\u200Bb")).toBe("a\\u0000\\u200bb");
  expect(visible("tab\tline\nüß 漢字 🙂 <script>")).toBe("tab\tline\nüß 漢字 🙂 <script>");
});
