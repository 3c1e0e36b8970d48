import { describe, expect, it } from "vitest";
import { checkProof, fromHex, microseconds, type Proof, readCheckpoint, rootOf, same, type ShownRow, toHex } from "./proof";

/** A real proof and its key, made by `atlas audit proof`, see proof.fixture.json. */
import fixture from "./proof.fixture.json";

const proof = fixture.proof as Proof;
const row = fixture.row as ShownRow;

async function steps(changed: Proof, shown: ShownRow = row, keys: string = fixture.keys): Promise<string[]> {
  const found: string[] = [];
  for await (const step of checkProof(changed, shown, keys)) found.push(`${step.key} ${step.passed ? "passed" : "failed"}`);
  return found;
}

describe("a proof", () => {
  it("passes every step as it is", async () => {
    expect(await steps(proof)).toEqual(["bytes passed", "leaf passed", "path passed", "root passed", "checkpoint passed"]);
  });

  it("fails where something was changed", async () => {
    const body = (proof.body ?? "").replace("JOB_CREATED", "JOB_DELETED");
    expect(await steps({ ...proof, body })).toEqual(["bytes failed"]);
    expect(await steps({ ...proof, body }, { ...row, action: "JOB_DELETED" })).toEqual(["bytes passed", "leaf failed"]);
    expect((await steps({ ...proof, row: { ...proof.row, number: proof.row.number + 1 } })).at(-1)).toBe("leaf failed");
    expect((await steps({ ...proof, index: proof.index + 1 })).at(-1)).toMatch(/^(path|root) failed$/);
    expect((await steps({ ...proof, path: proof.path.slice(1) })).at(-1)).toBe("path failed");
    const flipped = [...proof.path.slice(0, -1), "00".repeat(32)];
    expect((await steps({ ...proof, path: flipped })).at(-1)).toBe("root failed");
  });

  it("fails without the key that signed", async () => {
    expect((await steps(proof, row, "")).at(-1)).toBe("checkpoint failed");
    const [head = "", rest = ""] = proof.checkpoint.split("\ntime ");
    expect((await steps({ ...proof, checkpoint: `${head}\ntime 1${rest}` })).at(-1)).toBe("checkpoint failed");
  });
});

describe("its parts", () => {
  it("counts microseconds since 2000", () => {
    expect(microseconds("2000-01-01T00:00:00Z")).toBe(0n);
    expect(microseconds("2000-01-01T00:00:01.000002+00:00")).toBe(1_000_002n);
    expect(microseconds("1999-12-31T23:59:59.5Z")).toBe(-500_000n);
  });

  it("accepts a tree of one leaf, and no leaf beyond the end", async () => {
    const leaf = fromHex("ab".repeat(32));
    expect(toHex((await rootOf(leaf, 0, 1, [])) ?? new Uint8Array())).toBe("ab".repeat(32));
    expect(await rootOf(leaf, 1, 1, [])).toBeNull();
    expect(await rootOf(leaf, 0, 1, [leaf])).toBeNull();
  });

  it("reads a note", () => {
    const note = readCheckpoint("log\n7\nqg==\ntime x\n\n— log AQIDBAU=\n");
    expect([note.origin, note.size, toHex(note.root), note.text]).toEqual(["log", 7, "aa", "log\n7\nqg==\ntime x\n"]);
    expect(note.signatures.map((one) => [one.name, toHex(one.keyId), toHex(one.signature)])).toEqual([["log", "01020304", "05"]]);
  });

  it("compares JSON by value", () => {
    expect(same({ a: [1, { b: null }], c: "x" }, { c: "x", a: [1, { b: null }] })).toBe(true);
    expect(same({ a: 1 }, { a: 1, b: 2 })).toBe(false);
    expect(same([], {})).toBe(false);
    expect(same(0, false)).toBe(false);
  });
});
