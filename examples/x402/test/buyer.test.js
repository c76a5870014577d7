// The buyer at shops that lie.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { defaults, gateway, requirement, SOURCE, TOKEN } from "../packages/gw-escrow/test/world.js";

const BUYER = fileURLToPath(new URL("../buyer/buyer.js", import.meta.url));

/** @param {unknown} value */
function header(value) {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}

/**
 * Lets the buyer shop, once or more often, and tells which payments the shop was sent and how the last visit ended.
 *
 * @param {import("node:test").TestContext} context
 * @param {{ offer: (visit: number) => any, answer: object, runs?: number, statuses?: number[], status?: string }} shop
 *   `statuses` are those of its first answers to a payment, 402 then; `status` is what the gateway says.
 */
async function shopAt(context, { offer, answer, runs = 1, statuses = [], status = "completed" }) {
  /** @type {Set<string>} */
  const sent = new Set();
  let visits = 0;
  const shop = createServer((request, response) => {
    const payment = request.headers["payment-signature"];
    if (payment) {
      const { payload } = JSON.parse(Buffer.from(String(payment), "base64").toString());
      sent.add(payload.paymentRequest.request_id);
      const code = statuses.shift() ?? 402;
      response.writeHead(code, code >= 500 ? {} : { "PAYMENT-RESPONSE": header(answer) }).end("{}");
      return;
    }
    response.writeHead(402, { "PAYMENT-REQUIRED": header(offer(visits++)) }).end("{}");
  });
  await new Promise((resolve) => shop.listen(0, "127.0.0.1", () => resolve(undefined)));
  const directory = mkdtempSync(join(tmpdir(), "buyer-"));
  context.after(() => {
    shop.close();
    rmSync(directory, { recursive: true });
  });
  const base = await gateway(context, ({ pathname }) =>
    pathname.endsWith("/status") ? { body: { status } } : { body: defaults() },
  );
  const env = {
    ...process.env,
    GATEWAY_URL: base,
    BUYER_KEY: `0x${"11".repeat(32)}`,
    BUYER_LEDGER: join(directory, "buyer.jsonl"),
    PAY_NETWORK: SOURCE,
    PAY_ASSET: TOKEN,
    PAY_AT_MOST: "1100000",
    PATIENCE_SECONDS: "3",
  };
  const { port } = /** @type {import("node:net").AddressInfo} */ (shop.address());
  let ended;
  for (let run = 0; run < runs; run++) {
    const buy = promisify(execFile)(process.execPath, [BUYER, `http://127.0.0.1:${port}/article`], { env });
    ended = await buy.then(() => "bought").catch(({ stdout, stderr }) => `${stdout}${stderr}`);
  }
  return { sent, ended };
}

const PENDING = { success: false, errorReason: "settlement_pending", transaction: "0x", network: "eip155:31338" };
const FAILED = { ...PENDING, errorReason: "settlement_failed", transaction: "" };

/** @param {string} url @param {(entry: any) => void} [change] */
function required(url, change = () => undefined) {
  const entry = requirement();
  change(entry);
  return { x402Version: 2, resource: { url }, accepts: [entry] };
}

test("a shop that says pending and asks for something else is paid once", async (context) => {
  for (const offer of [
    (/** @type {number} */ visit) => required(`http://shop/${visit}`),
    (/** @type {number} */ visit) => required("http://shop/a", (entry) => (entry.maxTimeoutSeconds += visit)),
  ]) {
    const { sent, ended } = await shopAt(context, { offer, answer: PENDING });
    assert.equal(sent.size, 1);
    assert.match(String(ended), /asks for something else/);
  }
});

test("a shop that says failed is not paid again while the gateway says that it was paid", async (context) => {
  const { sent, ended } = await shopAt(context, { offer: () => required("http://shop/a"), answer: FAILED, runs: 3 });
  assert.equal(sent.size, 1);
  assert.match(String(ended), /settlement_failed/);
});

test("a shop that is away for a moment, or knows nothing, is sent the same again", async (context) => {
  const offer = () => required("http://shop/a");
  const away = await shopAt(context, { offer, answer: { ...PENDING, success: true }, statuses: [502, 503, 500, 200] });
  assert.equal(away.ended, "bought");
  assert.equal(away.sent.size, 1);
  for (const errorReason of ["unexpected_settle_error", "unexpected_verify_error", "service_unavailable"]) {
    const answer = { ...FAILED, errorReason };
    const { sent, ended } = await shopAt(context, { offer, answer, statuses: [402, 402, 200] });
    assert.deepEqual([sent.size, ended], [1, "bought"], errorReason);
  }
});

test("a shop that says success and gives nothing is not paid again while the gateway says pending", async (context) => {
  const offer = () => required("http://shop/a");
  const { sent } = await shopAt(context, { offer, answer: { ...PENDING, success: true }, runs: 3, status: "pending" });
  assert.equal(sent.size, 1);
});

test("a shop that asks for more than is allowed is sent nothing", async (context) => {
  const offer = () => required("http://shop/a", (entry) => (entry.amount = "1100001"));
  const { sent, ended } = await shopAt(context, { offer, answer: PENDING });
  assert.equal(sent.size, 0);
  assert.match(String(ended), /rejected by spendControls/);
});
