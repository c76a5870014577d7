// A shop with the official middleware, as somebody sees it who would rather not pay, and whoever is cut off.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { get as httpGet, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { test } from "node:test";
import { deflateSync } from "node:zlib";

import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import express from "express";
import { paymentCookie } from "x402-gw-escrow/paywall";

import { GwEscrowServer, Redemptions } from "../src/server.js";
import { fileStore } from "../src/store.js";
import { DESTINATION, ESCROW, MERCHANT, SOURCE, TOKEN } from "./world.js";

const PAGE = { generateHtml: () => "<p>the paywall</p>" };

/** A gateway that finds every payment in order. */
function facilitator() {
  const assets = (/** @type {string} */ network) => [
    { asset: TOKEN, assetIdentifier: `${network}/erc20:${TOKEN}`, symbol: "USDC", decimals: 6 },
  ];
  const gw = {
    escrow: ESCROW,
    reserver: MERCHANT,
    releaser: MERCHANT,
    fulfillmentVerifierEndpoint: "http://verifier",
    assets: assets(SOURCE),
    destinations: [{ network: DESTINATION, fulfillmentProxy: ESCROW, assets: assets(DESTINATION) }],
  };
  const extensions = (/** @type {any} */ { payload }) => ({ gw: { paymentId: payload.id } });
  return {
    /** @type {(id: string) => Promise<void>} */
    settling: async () => undefined,
    /** @type {string | undefined} */
    refusal: undefined,
    getSupported: async () => ({
      kinds: [{ x402Version: 2, scheme: "gw-escrow", network: SOURCE, extra: { gw } }],
      extensions: [],
      signers: {},
    }),
    verify: async (/** @type {any} */ payment) => ({ isValid: true, payer: "0x1", extensions: extensions(payment) }),
    async settle(/** @type {any} */ payment) {
      await this.settling(payment.payload.id);
      const base = { transaction: "0x1", network: DESTINATION, payer: "0x1", extensions: extensions(payment) };
      return this.refusal ? { ...base, success: false, errorReason: this.refusal } : { ...base, success: true };
    },
  };
}

/**
 * @param {import("node:test").TestContext} context
 * @param {{ routes?: string[], redemptions?: Redemptions, price?: any, isHeld?: boolean,
 *   answer?: import("express").RequestHandler }} choice
 */
async function shop(
  context,
  {
    routes = ["GET /a"],
    redemptions = new Redemptions(),
    price = "$1.50",
    isHeld = false,
    answer = (_, response) => void response.send("bought"),
  },
) {
  const gateway = facilitator();
  const scheme = new GwEscrowServer({ receive: { network: DESTINATION, asset: "USDC" }, redemptions });
  const server = new x402ResourceServer(/** @type {any} */ (gateway)).register(SOURCE, scheme);
  const accepts = { scheme: "gw-escrow", network: SOURCE, payTo: MERCHANT, maxTimeoutSeconds: 60 };
  const app = express();
  app.use(paymentCookie());
  const route = { accepts: { ...accepts, price: isHeld ? scheme.held(price) : price } };
  app.use(paymentMiddleware(Object.fromEntries(routes.map((it) => [it, route])), server, undefined, PAGE));
  for (const it of routes) app.get(it.split(" ")[1], answer);
  const listener = app.listen(0, "127.0.0.1");
  await once(listener, "listening");
  context.after(() => {
    listener.closeAllConnections();
    listener.close();
  });
  const { port } = /** @type {import("node:net").AddressInfo} */ (listener.address());
  /** @param {string} path @param {Record<string, string>} [headers] */
  const visit = async (path, headers = {}) => {
    const [response] = await once(httpGet({ port, host: "127.0.0.1", path, headers }), "response");
    const body = Buffer.concat(await response.toArray()).toString();
    const told = response.headers["payment-required"];
    const required = told && JSON.parse(Buffer.from(String(told), "base64").toString());
    return { status: response.statusCode, headers: response.headers, body, required };
  };
  const { required } = await visit(routes[0].split(" ")[1].replace(":id", "1"));
  const signed = (/** @type {string} */ id) =>
    Buffer.from(JSON.stringify({ x402Version: 2, payload: { id }, accepted: required.accepts[0] })).toString("base64");
  return { visit, port, gateway, redemptions, signed };
}

/** Waits until it is so. @param {() => unknown} check */
async function until(check) {
  for (const end = performance.now() + 10_000; !(await check()); ) {
    assert.ok(performance.now() < end, `never: ${check}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("one payment opens one address, whatever stands in Host and however the address is written", async (context) => {
  const { visit, signed } = await shop(context, { routes: ["GET /a", "GET /book/:id"] });
  for (const [n, host] of ["x#", "x/y#", "x?", "u@x", "x/a"].entries()) {
    const headers = { host, "payment-signature": signed(`pay_${n}`) };
    for (const path of ["/a", "/book/1"]) {
      const { status, required } = await visit(path, headers);
      assert.deepEqual([status, required.error], [402, "payment_cannot_be_told_apart"], `${host} ${path}`);
    }
  }
  for (const host of ["shop.example", "shop.example:8443", "127.0.0.1:1", "[::1]:80", "localhost"]) {
    assert.equal((await visit("/a", { host, "payment-signature": signed(host) })).status, 200, host);
  }
  // The same page once these are resolved; Express gives each to the route.
  const headers = { "payment-signature": signed("pay_dots") };
  assert.equal((await visit("/book/a\\..\\b", headers)).status, 200);
  for (const path of ["/book/b", "/book/a/../b", "/a?edition=2", "/a"]) {
    assert.notEqual((await visit(path, headers)).status, 200, path);
  }
});

/** Asks, and goes away as soon as it is so. @param {number} port @param {string} payment @param {() => unknown} when */
async function abandon(port, payment, when) {
  const request = httpRequest({ port, host: "127.0.0.1", path: "/a", headers: { "payment-signature": payment } });
  request.on("error", () => undefined).end();
  await until(when);
  request.destroy();
}

test("a buyer who went away before the answer is given the page later, for a day", async (context) => {
  const { visit, port, gateway, redemptions, signed } = await shop(context, {});
  /** @type {() => void} */
  let paid = () => undefined;
  let isSettling = false;
  gateway.settling = () => {
    isSettling = true;
    return new Promise((resolve) => (paid = () => resolve(undefined)));
  };
  const payment = signed("pay_1");
  await abandon(port, payment, () => isSettling);
  await until(async () => (await redemptions.take("pay_1", "GET /a")) === undefined);
  redemptions.release("pay_1");
  paid();
  await until(async () => (await redemptions.store.get("pay_1"))?.settledAt);
  const known = await redemptions.store.get("pay_1");
  assert.equal(known?.servedAt, undefined);
  const at = known?.settledAt ?? 0;
  const clock = context.mock.method(Date, "now", () => at + 86_401_000);
  gateway.settling = async () => undefined;
  const headers = { "payment-signature": payment };
  assert.equal((await visit("/a", headers)).required.error, "payment_used");
  clock.mock.mockImplementation(() => at + 3_600_000);
  assert.equal((await visit("/a", headers)).status, 200);
  await until(async () => (await redemptions.store.get("pay_1"))?.servedAt);
  clock.mock.mockImplementation(() => at + 3_600_000 + 299_000);
  assert.equal((await visit("/a", headers)).status, 200);
  clock.mock.mockImplementation(() => at + 3_600_000 + 301_000);
  assert.equal((await visit("/a", headers)).required.error, "payment_used");
});

test("a request that was cut off, and whose handler never ends, locks no payment", async (context) => {
  let isAnswering = false;
  let isCut = true;
  const { visit, port, redemptions, signed } = await shop(context, {
    answer: (_, response) => {
      if (!isCut) return void response.send("bought");
      const upstream = new Readable({ read: () => undefined });
      upstream.pipe(response);
      upstream.push("half");
      response.on("close", () => upstream.destroy());
      isAnswering = true;
    },
  });
  await abandon(port, signed("pay_1"), () => isAnswering);
  await until(async () => (await redemptions.take("pay_1", "GET /a")) === undefined);
  redemptions.release("pay_1");
  isCut = false;
  assert.equal((await visit("/a", { "payment-signature": signed("pay_1") })).status, 200);
});

test("nothing is sold that cannot be recorded, and a store that fails locks nothing that was sold", async (context) => {
  const redemptions = new Redemptions();
  const { visit, signed } = await shop(context, { redemptions });
  const { set } = redemptions.store;
  const full = async () => {
    throw new Error("disk full");
  };
  redemptions.store.set = full;
  const refused = await visit("/a", { "payment-signature": signed("pay_1") });
  assert.equal(refused.status, 402);
  const receipt = JSON.parse(Buffer.from(String(refused.headers["payment-response"]), "base64").toString());
  assert.equal(receipt.errorReason, "payment_cannot_be_recorded");
  redemptions.store.set = (key, value) => (value.servedAt ? full() : set(key, value));
  for (let n = 0; n < 2; n++) {
    assert.equal((await visit("/a", { "payment-signature": signed("pay_1") })).status, 200);
    await until(async () => (await redemptions.take("pay_1", "GET /a")) === undefined);
    redemptions.release("pay_1");
  }
});

test("payments that never were made leave nothing behind", async (context) => {
  const directory = mkdtempSync(join(tmpdir(), "express-"));
  context.after(() => rmSync(directory, { recursive: true }));
  const path = join(directory, "sold.jsonl");
  const redemptions = new Redemptions({ store: fileStore(path) });
  const { visit, gateway, signed } = await shop(context, { redemptions });
  gateway.refusal = "insufficient_funds";
  for (let n = 0; n < 3; n++) {
    assert.equal((await visit("/a", { "payment-signature": signed(`pay_${n}`) })).status, 402);
  }
  await until(async () => !(await redemptions.store.get("pay_2")));
  // What is under way stays where it was begun.
  gateway.refusal = "settlement_pending";
  await visit("/a", { "payment-signature": signed("pay_9") });
  assert.deepEqual(await redemptions.store.get("pay_9"), { resource: "GET /a" });
  assert.match(readFileSync(path, "utf8"), /pay_9/);
});

test("a browser whose cookie is refused is shown the paywall, at the same address", async (context) => {
  let cents = 150;
  const { visit, signed } = await shop(context, { price: () => `$${(cents / 100).toFixed(2)}`, routes: ["GET /a"] });
  const browser = { accept: "text/html", "user-agent": "Mozilla/5.0" };
  const cookie = `payment-signature=${deflateSync(Buffer.from(signed("pay_1"), "base64")).toString("base64url")}`;
  assert.equal((await visit("/a", { ...browser, cookie })).body, "bought");
  cents = 151;
  for (const [path, location] of [
    ["/a", "./a"],
    ["/a?b=/c", "./a?b=/c"],
    ["//a", "./a"],
  ]) {
    const { status, headers } = await visit(path, { ...browser, cookie });
    assert.deepEqual([status, headers.location], [303, location], path);
    assert.match(String(headers["set-cookie"]), /^payment-signature=; .*Max-Age=0/);
  }
  const { status, body } = await visit("/a", browser);
  assert.deepEqual([status, body], [402, "<p>the paywall</p>"]);
});

test("a payment that was begun keeps its price, and no other one does", async (context) => {
  let cents = 150;
  const price = () => `$${(cents / 100).toFixed(2)}`;
  const { visit, gateway, signed } = await shop(context, { price, isHeld: true, routes: ["GET /a", "GET /b"] });
  const paid = { "payment-signature": signed("pay_1") };
  const pending = { "payment-signature": signed("pay_2") };
  const late = { "payment-signature": signed("pay_3") };
  assert.equal((await visit("/a", paid)).status, 200);
  gateway.refusal = "settlement_pending";
  assert.equal((await visit("/a", pending)).status, 402);
  cents = 151;
  gateway.refusal = undefined;
  for (const headers of [paid, pending]) assert.equal((await visit("/a", headers)).body, "bought");
  assert.equal((await visit("/a", late)).required.error, "No matching payment requirements");
  // What was begun at one address is nothing at another.
  assert.equal((await visit("/b", paid)).required.error, "No matching payment requirements");
  assert.equal((await visit("/a")).required.accepts[0].extra.gw.fulfillmentAmount, "1510000");
  const none = Buffer.from("null").toString("base64");
  assert.notEqual((await visit("/a", { "payment-signature": none })).status, 200);
  const now = Date.now();
  context.mock.method(Date, "now", () => now + 86_500_000);
  assert.equal((await visit("/a", paid)).required.error, "No matching payment requirements");
});
