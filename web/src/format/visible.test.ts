import { expect, it } from "vitest";
import { visible } from "./visible";

it("shows characters that hide or turn what follows by their numbers, and keeps all others", () => {
  expect(visible("ab\u202Egpj.exe")).toBe("ab\\u202egpj.exe");
  expect(visible("a\u0000\u200Bb\u00AD")).toBe("a\\u0000\\u200bb\\u00ad");
  expect(visible("a\u2800b")).toBe("a\\u2800b");
  expect(visible("a\u{E0041}\u{E0042}")).toBe("a\\u{e0041}\\u{e0042}");
  expect(visible("tab\tline\nüß 漢字 שלום 🙂 ❤️ <script>")).toBe("tab\tline\nüß 漢字 שלום 🙂 ❤️ <script>");
});
