import assert from "node:assert/strict";
import { test } from "node:test";

import { readRequirement } from "../src/requirement.js";
import { GwEscrowServer, Redemptions } from "../src/server.js";
import { DESTINATION, ESCROW, MERCHANT, SOURCE, TOKEN } from "./world.js";

/** @param {number} decimals Of the token on the source. @returns {any} */
function kind(decimals = 6) {
  const asset = (/** @type {string} */ network, /** @type {number} */ decimals) => {
    return { asset: TOKEN, assetIdentifier: `${network}/erc20:${TOKEN}`, symbol: "USDC", decimals };
  };
  const gw = {
    escrow: ESCROW,
    reserver: MERCHANT,
    releaser: MERCHANT,
    fulfillmentVerifierEndpoint: "http://127.0.0.1:8090",
    assets: [asset(SOURCE, decimals)],
    destinations: [{ network: DESTINATION, fulfillmentProxy: ESCROW, assets: [asset(DESTINATION, 6)] }],
  };
  return { x402Version: 2, scheme: "gw-escrow", network: SOURCE, extra: { gw } };
}

/** @param {any} price @param {any} [options] */
async function priced(price, { decimals, ...options } = {}) {
  const scheme = new GwEscrowServer({ receive: { network: DESTINATION, asset: "USDC" }, ...options });
  const { asset, amount, extra = {} } = await scheme.parsePrice(price, SOURCE);
  const base = { scheme: "gw-escrow", network: SOURCE, asset, amount, payTo: MERCHANT, maxTimeoutSeconds: 60, extra };
  return scheme.enhancePaymentRequirements(/** @type {any} */ (base), kind(decimals));
}

test("a price is what arrives, and the buyer's cap is above it by the margin", async () => {
  /** @type {[any, any, string, string][]} */
  const cases = [
    ["$1.50", {}, "1500000", "1515000"],
    [1.5, { marginBasisPoints: 0 }, "1500000", "1500000"],
    ["0.000001 USDC", {}, "1", "2"],
    ["2", { decimals: 18 }, "2000000", "2020000000000000000"],
    ["1.50", { decimals: 2, marginBasisPoints: 10 }, "1500000", "151"],
    [{ asset: TOKEN, amount: "77", extra: { gw: { fulfillmentAmount: "55" } } }, {}, "55", "77"],
  ];
  for (const [price, options, fulfillment, cap] of cases) {
    const built = await priced(price, options);
    const understood = readRequirement(built);
    assert.equal(String(understood.fulfillmentAmount), fulfillment, String(price));
    assert.equal(String(understood.amount), cap, String(price));
    assert.equal(understood.destination.address, MERCHANT);
  }
});

test("a price that cannot be kept exactly is refused", async () => {
  for (const price of ["0.0000015", "0", "1.50 WETH"]) {
    await assert.rejects(priced(price), { code: "configuration" }, String(price));
  }
  await assert.rejects(priced({ asset: TOKEN, amount: "77" }), { code: "requirement" });
});

test("a merchant who wants what the gateway does not deliver is told so", () => {
  const here = new GwEscrowServer({ receive: { network: DESTINATION, asset: TOKEN.toUpperCase().replace("X", "x") } });
  assert.equal(here.validateFacilitatorSupport(SOURCE, kind()), undefined);
  for (const receive of [
    { network: "eip155:1", asset: "USDC" },
    { network: DESTINATION, asset: "EURC" },
  ]) {
    const scheme = new GwEscrowServer({ receive });
    assert.match(String(scheme.validateFacilitatorSupport(SOURCE, kind())), /does not deliver/);
  }
});

test("a merchant on a chain that the package cannot be paid on is told so as of a setting", () => {
  for (const network of ["tron:0x2b6653dc", "eip155", ""]) {
    const wrong = () => new GwEscrowServer({ receive: { network, asset: "USDT" } });
    assert.throws(wrong, { code: "configuration", message: /^receive\.network/ }, network);
  }
});

test("a payment opens one resource, once, and for a while again", async (context) => {
  const redemptions = new Redemptions({ againSeconds: 300 });
  /** @param {string} id @param {string} resource */
  const use = async (id, resource) => {
    const reason = (await redemptions.take(id, resource)) ?? (await redemptions.bind(id, resource));
    if (!reason) await redemptions.settled(id);
    return reason;
  };
  assert.equal(await redemptions.take("pay_1", "GET /a"), undefined);
  assert.equal(await redemptions.take("pay_1", "GET /a"), "payment_in_use");
  redemptions.release("pay_1");
  assert.equal(await use("pay_1", "GET /a"), undefined);
  redemptions.release("pay_1");
  assert.equal(await use("pay_1", "GET /b"), "payment_used");
  for (let n = 0; n < 2; n++) {
    assert.equal(await use("pay_1", "GET /a"), undefined);
    await redemptions.served("pay_1");
  }
  const now = Date.now();
  context.mock.method(Date, "now", () => now + 301_000);
  assert.equal(await use("pay_1", "GET /a"), "payment_used");
  assert.equal(await use("pay_2", "GET /a"), undefined);
});

test("a payment is bound to one resource where two requests are at it at once", async () => {
  const redemptions = new Redemptions();
  const reasons = await Promise.all(["GET /a", "GET /b", "GET /a"].map((it) => redemptions.bind("pay_1", it)));
  assert.deepEqual(reasons, [undefined, "payment_used", undefined]);
});

test("a refusal forgets no payment that another request is at", async () => {
  const redemptions = new Redemptions();
  await redemptions.bind("pay_1", "GET /a");
  await redemptions.bind("pay_1", "GET /a");
  await redemptions.failed("pay_1", true);
  assert.equal(await redemptions.bind("pay_1", "GET /b"), "payment_used");
  await redemptions.settled("pay_1");
  assert.equal(await redemptions.bind("pay_1", "GET /b"), "payment_used");
  await redemptions.bind("pay_2", "GET /a");
  await redemptions.failed("pay_2", false);
  assert.equal(await redemptions.bind("pay_2", "GET /b"), "payment_used");
  await redemptions.bind("pay_2", "GET /a");
  await redemptions.failed("pay_2", true);
  assert.equal(await redemptions.bind("pay_2", "GET /b"), undefined);
});

test("a request that never ends holds its payment for a time, and a failing store holds none", async (context) => {
  const redemptions = new Redemptions();
  const now = Date.now();
  const clock = context.mock.method(Date, "now", () => now);
  assert.equal(await redemptions.take("pay_1", "GET /a", 60), undefined);
  clock.mock.mockImplementation(() => now + 59_000);
  assert.equal(await redemptions.take("pay_1", "GET /a", 60), "payment_in_use");
  clock.mock.mockImplementation(() => now + 61_000);
  assert.equal(await redemptions.take("pay_1", "GET /a", 60), undefined);
  await redemptions.bind("pay_1", "GET /a");
  redemptions.store.set = async () => {
    throw new Error("disk full");
  };
  await assert.rejects(redemptions.served("pay_1"), /disk full/);
  assert.equal(await redemptions.take("pay_1", "GET /a", 60), undefined);
});

/** @param {GwEscrowServer} scheme @param {any} gw @param {string} [path] */
async function verified(scheme, gw, path = "/a") {
  const paymentPayload = { payload: {} };
  const request = { method: "GET", adapter: { getUrl: () => `http://shop${path}` } };
  const requirements = { maxTimeoutSeconds: 60 };
  const result = { isValid: true, extensions: { gw } };
  const context = { paymentPayload, requirements, result, transportContext: { request } };
  const answer = /** @type {any} */ (await scheme.schemeHooks.onAfterVerify?.(/** @type {any} */ (context)));
  return { paymentPayload, reason: answer?.abort ? answer.reason : undefined };
}

test("a payment that cannot be told apart or recorded opens nothing", async () => {
  const receive = { network: DESTINATION, asset: "USDC" };
  const scheme = new GwEscrowServer({ receive });
  assert.equal((await verified(scheme, {})).reason, "payment_cannot_be_told_apart");
  const full = async () => {
    throw new Error("disk full");
  };
  const redemptions = new Redemptions({ store: { get: async () => undefined, set: full, delete: full } });
  const unrecorded = new GwEscrowServer({ receive, redemptions });
  const { paymentPayload, reason } = await verified(unrecorded, { paymentId: "pay_1" });
  assert.equal(reason, undefined);
  const requirements = /** @type {any} */ ({});
  const refused = await unrecorded.schemeHooks.onBeforeSettle({ paymentPayload, requirements });
  assert.equal(refused?.reason, "payment_cannot_be_recorded");
  const unknown = /** @type {any} */ ({ paymentPayload: { payload: {} } });
  assert.equal((await unrecorded.schemeHooks.onBeforeSettle(unknown))?.abort, true);
});

test("a payment whose settlement failed is free for the next attempt, and not before", async () => {
  const scheme = new GwEscrowServer({ receive: { network: DESTINATION, asset: "USDC" } });
  const first = await verified(scheme, { paymentId: "pay_1" });
  assert.equal(first.reason, undefined);
  const second = await verified(scheme, { paymentId: "pay_1" });
  assert.equal(second.reason, "payment_in_use");
  // What ends the second request does not free what the first one holds.
  await scheme.schemeHooks.onVerifiedPaymentCanceled?.(/** @type {any} */ (second));
  assert.equal((await verified(scheme, { paymentId: "pay_1" })).reason, "payment_in_use");
  await scheme.schemeHooks.onSettleFailure?.(/** @type {any} */ (first));
  assert.equal((await verified(scheme, { paymentId: "pay_1" })).reason, undefined);
});
