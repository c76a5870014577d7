import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const home = join(dirname(fileURLToPath(import.meta.url)), "..");
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

/** @param {string} program @param {string[]} options */
function run(program, options) {
  try {
    return execFileSync(program, options, { cwd: home, encoding: "utf8" });
  } catch (error) {
    throw new Error(`${program} ${options.join(" ")}: ${error.stdout}${error.stderr}`);
  }
}

test("what is installed is what the sources give", () => {
  run(process.execPath, ["build.mjs", "--check"]);
});

test("a merchant's and a buyer's TypeScript compiles under --strict, and what is wrong does not", () => {
  const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2023,dom"];
  run(process.execPath, [tsc, ...options, "--skipLibCheck", "--types", "node", "test/consumer.ts"]);
});
