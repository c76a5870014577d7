// The package as somebody else installs it: no flags, no other package, no clone of this repository around it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const home = join(dirname(fileURLToPath(import.meta.url)), "..");
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const folder = mkdtempSync(join(tmpdir(), "gw-escrow-install-"));
/** A copy of the package, with none of the packages around it that its tests are run with. */
const copy = join(folder, "elsewhere/gw-escrow");
const manifest = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
/** @type {string} */
let archive;

/** @param {string} program @param {string[]} options @param {string} cwd */
async function run(program, options, cwd) {
  // No audit of what has no dependencies; nothing else of npm's settings is set.
  const env = { ...process.env, npm_config_audit: "false", npm_config_update_notifier: "false" };
  try {
    return (await promisify(execFile)(program, options, { cwd, env })).stdout;
  } catch (error) {
    const { stdout, stderr } = /** @type {any} */ (error);
    throw new Error(`${program} ${options.join(" ")}: ${stdout}${stderr}`);
  }
}

before(async () => {
  for (const name of readdirSync(home))
    if (name !== "node_modules") cpSync(join(home, name), join(copy, name), { recursive: true });
  const [packed] = JSON.parse(await run("npm", ["pack", "--json", "--pack-destination", folder], copy));
  archive = packed.filename;
});
after(() => rmSync(folder, { recursive: true, force: true }));

test("the archive holds what is needed and no more", async () => {
  const [{ files }] = JSON.parse(await run("npm", ["pack", "--json", "--dry-run"], copy));
  const paths = new Set(files.map((/** @type {{ path: string }} */ file) => file.path));
  const stray = [...paths].filter(
    (path) => !/^(?:dist\/[\w-]+\.(?:js|txt)|types\/\w+\.d\.ts|LICENSE|README\.md|package\.json)$/.test(path),
  );
  assert.deepEqual(stray, []);
  for (const name of ["LICENSE", "README.md", "dist/LICENSES.txt"]) assert.ok(paths.has(name), `${name} is not packed`);
  for (const { types, default: source } of Object.values(manifest.exports).filter(
    (entry) => typeof entry === "object",
  )) {
    for (const path of [types, source]) assert.ok(paths.has(path.replace("./", "")), `${path} is not packed`);
  }
  // What is packed imports nothing but its own files and Node.js.
  for (const path of paths) {
    if (!/\.(?:js|ts)$/.test(path)) continue;
    const text = readFileSync(join(copy, path), "utf8");
    const imported = [
      ...text.matchAll(/^(?:import|export)\b[^'"`;]*?from "([^"]+)"|^import "([^"]+)"|import\("([^"]+)"\)/gm),
    ];
    for (const [, ...names] of imported) assert.match(names.find(Boolean) ?? "", /^(?:\.\/|node:)/, path);
  }
});

const CONSUMER = `
import { GwEscrowClient, type OpenPayment, evmPayer, GwEscrowError, solanaPayer } from "x402-gw-escrow/client";
import { deposit, type Payer } from "x402-gw-escrow/evm";
import { paymentCookie, paywall } from "x402-gw-escrow/paywall";
import { GwEscrowServer, Redemptions } from "x402-gw-escrow/server";
import { solanaPayer as again } from "x402-gw-escrow/solana";
import { fileStore, memoryStore, type Store } from "x402-gw-escrow/store";

const store: Store<OpenPayment> = memoryStore<OpenPayment>();
const payer: Payer = evmPayer({ address: "0x", signTypedData: async () => "0x" });
export const client = new GwEscrowClient({ gateway: "https://pay.example", payers: [payer], open: store });
const receive = { network: "eip155:1", asset: "USDC" };
export const server = new GwEscrowServer({ receive, redemptions: new Redemptions() });
const required = { x402Version: 2, resource: { url: "" }, accepts: [] };
export const page: string = paywall({ gateway: "/gateway" }).generateHtml(required);
export const all = [solanaPayer === again, deposit, fileStore, paymentCookie, GwEscrowError];
// @ts-expect-error a gateway is a text
paywall({ gateway: 1 });
`;

const LOADED = `
  import assert from "node:assert/strict";
  const names = ["client", "server", "paywall", "store", "evm", "solana"];
  const [client, server, paywall] = await Promise.all(names.map((name) => import("x402-gw-escrow/" + name)));
  assert.equal(client.GwEscrowError, server.GwEscrowError);
  assert.throws(() => paywall.paywall({ gateway: "" }), client.GwEscrowError);
  assert.match(paywall.paywall({ gateway: "/g" }).generateHtml({ resource: {}, accepts: [] }), /^<!doctype html>/);
  await assert.rejects(import("x402-gw-escrow/src/client.js"));
`;

/** @type {[string, () => string, boolean][]} */
const ways = [
  ["a path", () => copy, true],
  ["an archive", () => `../${archive}`, false],
];
for (const [name, from, isLink] of ways) {
  test(`it is installed by ${name}, without flags, and found by Node.js and TypeScript`, async () => {
    const project = join(folder, isLink ? "by-path" : "by-archive");
    mkdirSync(project);
    writeFileSync(join(project, "package.json"), JSON.stringify({ private: true, type: "module" }));
    await run("npm", ["install", from()], project);
    assert.deepEqual(
      readdirSync(join(project, "node_modules")).filter((entry) => !entry.startsWith(".")),
      ["x402-gw-escrow"],
    );
    assert.equal(lstatSync(join(project, "node_modules/x402-gw-escrow")).isSymbolicLink(), isLink);
    await run(process.execPath, ["--input-type=module", "--eval", LOADED], project);
    writeFileSync(join(project, "consumer.ts"), CONSUMER);
    // Without skipLibCheck: the package's own types are checked, too.
    for (const [module, moduleResolution] of [
      ["nodenext", "nodenext"],
      ["esnext", "bundler"],
    ]) {
      const compilerOptions = {
        noEmit: true,
        strict: true,
        target: "es2022",
        lib: ["es2022", "dom"],
        types: [],
        module,
        moduleResolution,
      };
      writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["consumer.ts"] }));
      await run(process.execPath, [tsc, "-p", "."], project);
    }
  });
}
