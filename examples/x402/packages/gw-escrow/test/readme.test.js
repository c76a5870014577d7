// The shop and the buyer that the README shows, as they stand there, with a gateway that delivers.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { defaults, DESTINATION, MERCHANT, SOURCE, TOKEN } from "./world.js";

const home = fileURLToPath(new URL("..", import.meta.url));
const [shop, buyer] = readFileSync(join(home, "README.md"), "utf8")
  .split("```js\n")
  .slice(1)
  .map((text) => text.split("```")[0]);

/** A gateway's answers. @param {string} path @param {any} body */
function answer(path, body) {
  const assets = (/** @type {string} */ network) => [
    { asset: TOKEN, assetIdentifier: `${network}/erc20:${TOKEN}`, symbol: "DEV", decimals: 6 },
  ];
  const { escrow_contract_address: escrow, reserver, releaser, fulfillment_proxy: fulfillmentProxy } = defaults();
  const destinations = [{ network: DESTINATION, fulfillmentProxy, assets: assets(DESTINATION) }];
  const gw = { escrow, reserver, releaser, assets: assets(SOURCE), destinations };
  if (path.startsWith("/v1/defaults")) return defaults();
  if (path.startsWith("/v1/payments/")) return { status: "completed" };
  if (path === "/x402/v1/supported") {
    const kinds = [{ x402Version: 2, scheme: "gw-escrow", network: SOURCE, extra: { gw } }];
    return { kinds, extensions: [], signers: {} };
  }
  const extensions = { gw: { paymentId: body.paymentPayload.payload.paymentRequest.request_id } };
  return path === "/x402/v1/verify"
    ? { isValid: true, payer: "0x1", extensions }
    : { success: true, payer: "0x1", transaction: "0x1", network: DESTINATION, extensions };
}

/** @param {import("node:test").TestContext} context @param {import("node:http").Server} server */
async function listening(context, server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return /** @type {import("node:net").AddressInfo} */ (server.address()).port;
}

test("the shop and the buyer of the README trade", async (context) => {
  const directory = mkdtempSync(join(tmpdir(), "readme-"));
  context.after(() => rmSync(directory, { recursive: true }));
  const gateway = createServer(async (request, response) => {
    const text = Buffer.concat(await request.toArray()).toString();
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(answer(request.url ?? "", JSON.parse(text || "null"))));
  });
  const port = await listening(context, gateway);
  /** @param {string} text @param {[string, string][]} changes */
  const changed = (text, changes) =>
    changes.reduce((script, [written, here]) => {
      assert.ok(script.includes(written), `the README lacks ${written}`);
      return script.replaceAll(written, here);
    }, text);
  const node = (/** @type {string} */ script) => ["--input-type=module", "--eval", script];
  const sold = join(directory, "sold.jsonl");
  const script = changed(shop, [
    ["127.0.0.1:8080", `127.0.0.1:${port}`],
    ["sold.jsonl", sold],
    ["0x…", MERCHANT],
    ["app.listen(4021);", 'const it = app.listen(0, "127.0.0.1", () => console.log(it.address().port));'],
  ]);
  const running = spawn(process.execPath, node(script), { cwd: home, stdio: ["ignore", "pipe", "inherit"] });
  context.after(() => running.kill());
  const [said] = await Promise.race([
    once(running.stdout, "data"),
    once(running, "exit").then(() => assert.fail("the shop ended")),
  ]);
  const bought = changed(buyer, [
    ["127.0.0.1:8080", `127.0.0.1:${port}`],
    ["bought.jsonl", join(directory, "bought.jsonl")],
    ["0x…", TOKEN],
    ["4021", String(said).trim()],
  ]);
  const env = { ...process.env, BUYER_KEY: `0x${"11".repeat(32)}` };
  const { stdout } = await promisify(execFile)(process.execPath, node(bought), { cwd: home, env });
  assert.equal(stdout.trim(), "200 { title: 'Paid across chains' }");
  assert.match(readFileSync(sold, "utf8"), /"resource":"GET \/article","settledAt":/);
});
