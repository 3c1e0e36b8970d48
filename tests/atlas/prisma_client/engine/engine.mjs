// Prisma's query engine (its WebAssembly build) behind a pipe: a line of GraphQL as Prisma Client Python writes it in,
// a line with the engine's answer out. The recorder of tests/atlas/prisma_client starts it:
//   node engine.mjs SCHEMA_FILE DATABASE_URL
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { PrismaPg } from "@prisma/adapter-pg";
import { bindAdapter } from "@prisma/driver-adapter-utils";
import { parse } from "graphql";
import pg from "pg";

const [schemaFile, url] = process.argv.slice(2);
const require = createRequire(import.meta.url);
// GraphQL has strings for JSON, and the schema tells which they are; the recorder marks them.
const JSON_MARK = "json:";

async function startEngine() {
  const glue = require("@prisma/client/runtime/query_engine_bg.postgresql.js");
  const wasm = readFileSync(require.resolve("@prisma/client/runtime/query_engine_bg.postgresql.wasm"));
  const { instance } = await WebAssembly.instantiate(wasm, { "./query_engine_bg.js": glue });
  glue.__wbg_set_wasm(instance.exports);
  const adapter = new PrismaPg(new pg.Pool({ connectionString: url, max: 2 }), { schema: "atlas" });
  const options = { datamodel: readFileSync(schemaFile, "utf8"), logLevel: "error", logQueries: false };
  const engine = new glue.QueryEngine(options, () => {}, bindAdapter(adapter));
  await engine.connect("{}");
  return engine;
}

// The WebAssembly build speaks JSON alone; the client for Python speaks GraphQL alone. Both say the same.
function jsonQuery(text) {
  const [field] = parse(text).definitions[0].selectionSet.selections;
  const [, action, modelName, orThrow] = field.name.value.match(
    /^(createOne|createMany|deleteOne|deleteMany|updateOne|updateMany|upsertOne|aggregate|groupBy|findMany|findFirst|findUnique)(\w+?)(OrThrow)?$/,
  );
  return { modelName, action: action + (orThrow ?? ""), query: fieldQuery(field) };
}

function fieldQuery(field) {
  const selection = {};
  for (const inner of field.selectionSet.selections) {
    selection[inner.name.value] = inner.selectionSet ? fieldQuery(inner) : true;
  }
  return { arguments: Object.fromEntries(field.arguments.map((one) => [one.name.value, plain(one.value)])), selection };
}

function plain(node) {
  switch (node.kind) {
    case "ObjectValue":
      return Object.fromEntries(node.fields.map((field) => [field.name.value, plain(field.value)]));
    case "ListValue":
      return node.values.map(plain);
    case "NullValue":
      return null;
    case "IntValue": {
      const number = Number(node.value);
      return Number.isSafeInteger(number) ? number : { $type: "BigInt", value: node.value };
    }
    case "FloatValue":
      return Number(node.value);
    case "StringValue":
      return node.value.startsWith(JSON_MARK) ? { $type: "Json", value: node.value.slice(JSON_MARK.length) } : node.value;
    default:
      return node.value;
  }
}

// The JSON protocol tags its values ({"$type": "DateTime", "value": …}); GraphQL sends them bare.
function bare(value) {
  if (Array.isArray(value)) return value.map(bare);
  if (value === null || typeof value !== "object") return value;
  if ("$type" in value) return value.value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, bare(inner)]));
}

const engine = await startEngine();
for await (const line of createInterface({ input: process.stdin })) {
  const answer = JSON.parse(await engine.query(JSON.stringify(jsonQuery(JSON.parse(line))), "{}", undefined));
  if (answer.data) answer.data = { result: bare(Object.values(answer.data)[0]) };
  process.stdout.write(JSON.stringify(answer) + "\n");
}
process.exit(0);
