/** Checks in the browser that a row is in the signed tree: row bytes → leaf → path → root → signed checkpoint.
 *
 * Nothing of the server's is believed but the bytes that were signed: every hash is computed here, by WebCrypto. */

export interface Proof {
  format: string;
  row: { id: number; epoch: number; xid: number; at: string; tenant: string | null; number: number };
  body?: string;
  base64?: string;
  leaf: string;
  index: number;
  path: string[];
  checkpoint: string;
}

/** The row as the page shows it; the bytes must say the same. */
export interface ShownRow {
  id: number;
  tenant_id: string | null;
  created_at: string;
  actor_type: string;
  actor_id: string;
  level: string;
  action: string;
  entity_type: string;
  entity_id: string;
  message: string;
  meta: Record<string, unknown>;
}

export type StepKey = "bytes" | "leaf" | "path" | "root" | "checkpoint";

export interface Step {
  key: StepKey;
  passed: boolean;
  /** What was computed: a hash, a number of hashes, a key's name. */
  value: string;
  /** Why it failed, or what it shows. */
  reason: string;
}

interface Checkpoint {
  text: string;
  origin: string;
  size: number;
  root: Uint8Array;
  signatures: { name: string; keyId: Uint8Array; signature: Uint8Array }[];
}

const FORMAT = "atlas-audit-proof/1";
const COMPARED = ["tenant_id", "actor_type", "actor_id", "level", "action", "entity_type", "entity_id", "message", "meta"] as const;
const EPOCH_OF_TIME = Date.UTC(2000, 0, 1);
const MARK_OF_ROW = Uint8Array.of(0, 1, 1);
const MARK_OF_NODE = Uint8Array.of(1);
const ED25519 = 1;

/** Whether this browser can check a proof: pages without TLS have no WebCrypto, except on this machine. */
export function canCheck(): boolean {
  return window.isSecureContext && "subtle" in crypto;
}

/** The steps of a check, each as it is done; the steps after a failed one are left out. */
export async function* checkProof(proof: Proof, row: ShownRow, keys: string): AsyncGenerator<Step> {
  const body = bodyOf(proof);
  const digest = await sha256(body);
  const differing = proof.format === FORMAT ? differences(body, proof, row) : ["format"];
  yield step(
    "bytes",
    differing.length === 0,
    toHex(digest),
    "The bytes say what is shown here.",
    `The bytes differ from what is shown: ${differing.join(", ")}.`,
  );
  if (differing.length > 0) return;

  const leaf = await sha256(join(MARK_OF_ROW, headOf(proof.row), number64(proof.row.number), digest));
  const isNamed = toHex(leaf) === proof.leaf;
  yield step(
    "leaf",
    isNamed,
    toHex(leaf),
    "The row, its time and its number give this leaf.",
    "The row gives another leaf than the proof names.",
  );
  if (!isNamed) return;

  const note = readCheckpoint(proof.checkpoint);
  const root = await rootOf(leaf, proof.index, note.size, proof.path.map(fromHex));
  yield step(
    "path",
    root !== null,
    root === null ? "" : toHex(root),
    `${proof.path.length} hashes lead from leaf ${proof.index + 1} of ${note.size} to this root.`,
    "The path does not fit a tree of this size.",
  );
  if (root === null) return;

  const isRoot = toHex(root) === toHex(note.root);
  yield step(
    "root",
    isRoot,
    toHex(note.root),
    "It is the root in the checkpoint.",
    "The checkpoint has another root: the row was changed, or is not in the log.",
  );
  if (!isRoot) return;

  const signer = await signerOf(note, keys);
  yield step("checkpoint", signer !== null, signer ?? "", "This key has signed the checkpoint.", "No known key has signed the checkpoint.");
}

function step(key: StepKey, passed: boolean, value: string, shows: string, fails: string): Step {
  return { key, passed, value, reason: passed ? shows : fails };
}

function bodyOf(proof: Proof): Uint8Array {
  return proof.body !== undefined ? new TextEncoder().encode(proof.body) : fromBase64(proof.base64 ?? "");
}

/** What the bytes say otherwise than the page. */
function differences(body: Uint8Array, proof: Proof, row: ShownRow): string[] {
  let said: unknown;
  try {
    said = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    return ["they are no event"];
  }
  if (typeof said !== "object" || said === null) return ["they are no event"];
  const event = said as Record<string, unknown>;
  const found: string[] = COMPARED.filter((name) => !same(event[name] ?? null, row[name]));
  if (proof.row.id !== row.id) found.push("id");
  if (proof.row.tenant !== row.tenant_id) found.push("tenant");
  if (microseconds(proof.row.at) !== microseconds(row.created_at)) found.push("time");
  return found;
}

/** Whether two JSON values are equal, in whatever order their names come. */
export function same(one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return Object.is(one, other);
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  if (names.length !== Object.keys(other).length) return false;
  return names.every((name) => name in other && same((one as Record<string, unknown>)[name], (other as Record<string, unknown>)[name]));
}

/** Epoch, transaction, id, time and tenant of a row, as the leaf holds them: big-endian numbers. */
function headOf(row: Proof["row"]): Uint8Array {
  const head = new Uint8Array(44);
  const view = new DataView(head.buffer);
  view.setUint32(0, row.epoch);
  view.setBigUint64(4, BigInt(row.xid));
  view.setBigUint64(12, BigInt(row.id));
  view.setBigInt64(20, microseconds(row.at));
  if (row.tenant !== null) head.set(fromHex(row.tenant.replaceAll("-", "")), 28);
  return head;
}

/** Microseconds since 2000, of a time in ISO 8601 with up to six digits of a second. */
export function microseconds(text: string): bigint {
  const found = /^(.*?)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)$/.exec(text);
  if (found === null) return BigInt(text);
  const [, seconds = "", fraction = "", zone = "Z"] = found;
  const ms = Date.parse(`${seconds}${zone}`) - EPOCH_OF_TIME;
  return BigInt(ms) * 1000n + BigInt(fraction.padEnd(6, "0"));
}

/** RFC 9162, 2.1.3.2: the root that a leaf and its path give in a tree of that size; null if the path does not fit. */
export async function rootOf(leaf: Uint8Array, index: number, size: number, path: readonly Uint8Array[]): Promise<Uint8Array | null> {
  if (!Number.isSafeInteger(size) || index < 0 || index >= size) return null;
  let at = BigInt(index);
  let last = BigInt(size - 1);
  let found = leaf;
  for (const sibling of path) {
    if (last === 0n) return null;
    if (at % 2n === 1n || at === last) {
      found = await parent(sibling, found);
      while (at % 2n === 0n && at !== 0n) {
        at >>= 1n;
        last >>= 1n;
      }
    } else {
      found = await parent(found, sibling);
    }
    at >>= 1n;
    last >>= 1n;
  }
  return last === 0n ? found : null;
}

function parent(left: Uint8Array, right: Uint8Array): Promise<Uint8Array> {
  return sha256(join(MARK_OF_NODE, left, right));
}

/** A signed note: its text, an empty line, and a line for each signature. */
export function readCheckpoint(note: string): Checkpoint {
  const end = note.lastIndexOf("\n\n");
  const text = `${note.slice(0, Math.max(end, 0))}\n`;
  const [origin = "", size = "", root = ""] = text.split("\n");
  const signatures = note
    .slice(end + 2)
    .split("\n")
    .map((line) => line.split(" "))
    .filter(([dash]) => dash === "—")
    .map(([, name = "", encoded = ""]) => {
      const raw = fromBase64(encoded);
      return { name, keyId: raw.slice(0, 4), signature: raw.slice(4) };
    });
  return { text, origin, size: Number(size), root: fromBase64(root), signatures };
}

/** The name of the key, of those given a line each, that has signed a checkpoint of its own log; null if none has. */
async function signerOf(note: Checkpoint, keys: string): Promise<string | null> {
  for (const line of keys.trim().split("\n")) {
    const [name = "", id = "", ...rest] = line.split("+");
    const raw = fromBase64(rest.join("+"));
    if (raw[0] !== ED25519 || name !== note.origin) continue;
    const keyId = (await sha256(join(new TextEncoder().encode(`${name}\n`), raw))).slice(0, 4);
    if (toHex(keyId) !== id) continue;
    const signed = note.signatures.find((one) => one.name === name && toHex(one.keyId) === id);
    if (signed === undefined) continue;
    const key = await crypto.subtle.importKey("raw", buffer(raw.slice(1)), "Ed25519", false, ["verify"]);
    if (await crypto.subtle.verify("Ed25519", key, buffer(signed.signature), buffer(new TextEncoder().encode(note.text))))
      return `${name}+${id}`;
  }
  return null;
}

async function sha256(bytes: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", buffer(bytes)));
}

/** The same bytes in a buffer of their own, as WebCrypto takes them. */
function buffer(bytes: Uint8Array): ArrayBuffer {
  const own = new ArrayBuffer(bytes.length);
  new Uint8Array(own).set(bytes);
  return own;
}

function join(...parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function number64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value));
  return bytes;
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(text: string): Uint8Array {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

function fromBase64(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
