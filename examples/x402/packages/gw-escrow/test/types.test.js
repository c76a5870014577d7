import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
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

/** @param {string} folder */
const files = (folder) => readdirSync(folder).sort();

test("the types are what the comments in the source say", () => {
  const made = mkdtempSync(join(tmpdir(), "gw-escrow-types-"));
  try {
    run(process.execPath, [tsc, "--outDir", made]);
    assert.deepEqual(files(join(home, "types")), files(made));
    for (const name of files(made)) {
      const [committed, now] = [join(home, "types", name), join(made, name)].map((path) => readFileSync(path, "utf8"));
      assert.equal(committed, now, `${name}: run npm run types in packages/gw-escrow`);
    }
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
});

test("a merchant's and a buyer's TypeScript compiles under --strict, and what is wrong does not", () => {
  const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2023,dom"];
  run(process.execPath, [tsc, ...options, "--skipLibCheck", "--types", "node", "test/consumer.ts"]);
});

test("what is installed has every source and its types", () => {
  const [{ files: packed }] = JSON.parse(run("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"]));
  const paths = new Set(packed.map((/** @type {{ path: string }} */ file) => file.path));
  const { exports } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  for (const { types, default: source } of Object.values(exports)) {
    for (const path of [types, source]) assert.ok(paths.has(path.replace("./", "")), `${path} is not packed`);
  }
  for (const name of files(join(home, "src"))) assert.ok(paths.has(`types/${name.replace(".js", ".d.ts")}`), name);
});
