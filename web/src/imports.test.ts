import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, it } from "vitest";

const SOURCES = import.meta.dirname;
const IMPORT = /(?:^|\n)(?:import|export)\s(?:[^"';]*?\sfrom\s)?"((?:\.|@\/)[^"]+)"|\bimport\("((?:\.|@\/)[^"]+)"\)/g;

/** The files that a file imports, types and lazy imports too. */
function importsOf(file: string): string[] {
  const paths = [...readFileSync(file, "utf8").matchAll(IMPORT)].map((found) => found[1] ?? found[2] ?? "");
  const places = paths.map((path) => (path.startsWith("@/") ? join(SOURCES, path.slice(2)) : resolve(dirname(file), path)));
  return places.flatMap((place) =>
    ["", ".ts", ".tsx"].map((end) => place + end).filter((path) => /\.tsx?$/.test(path) && existsSync(path)),
  );
}

/** The first circle of imports that is found, as the files on it. */
function findCircle(imports: ReadonlyMap<string, string[]>): string[] {
  const done = new Set<string>();
  const visit = (file: string, way: string[]): string[] => {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file];
    if (done.has(file)) return [];
    for (const next of imports.get(file) ?? []) {
      const circle = visit(next, [...way, file]);
      if (circle.length > 0) return circle;
    }
    done.add(file);
    return [];
  };
  for (const file of imports.keys()) {
    const circle = visit(file, []);
    if (circle.length > 0) return circle;
  }
  return [];
}

it("finds no circle of imports, and would find one", () => {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((name) => /(?<!\.d)\.tsx?$/.test(name));
  const imports = new Map(files.map((name) => [join(SOURCES, name), importsOf(join(SOURCES, name))]));

  expect([...imports.values()].flat().length).toBeGreaterThan(500);
  expect(findCircle(imports).map((file) => relative(SOURCES, file))).toEqual([]);
  expect(
    findCircle(
      new Map([
        ["a", ["b"]],
        ["b", ["c"]],
        ["c", ["b"]],
      ]),
    ),
  ).toEqual(["b", "c", "b"]);
});
