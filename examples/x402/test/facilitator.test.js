// The official facilitator client against a running gateway: it understands every answer.

import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { test } from "node:test";

import { SettleError, VerifyError } from "@x402/core/types";

import { facilitator, network, offer, pauper, pay, receiveNetwork, wanted } from "./market.js";

/** Tells whoever runs the tests which payments were made, so that the chains can be asked about them. */
function made(/** @type {any} */ result) {
  appendFileSync(wanted("MADE"), `${result.extensions.gw.paymentId}\n`);
}

test("what is supported", async () => {
  const { kinds, extensions, signers } = await facilitator.getSupported();
  const kind = kinds.find((kind) => kind.network === network);
  assert.equal(kind?.scheme, "gw-escrow");
  assert.equal(kind.x402Version, 2);
  assert.ok(extensions.includes("payment-identifier"));
  assert.equal(signers[network].length, 2);
});

test("a valid payment is settled, and again with the same outcome", async () => {
  const { payload, requirements } = await pay(await offer());
  const verified = await facilitator.verify(payload, requirements);
  assert.equal(verified.isValid, true, JSON.stringify(verified));
  const gw = /** @type {any} */ (verified.extensions?.gw);
  assert.equal(gw.idempotentReplay, false);

  const settled = await facilitator.settle(payload, requirements);
  assert.equal(settled.success, true, JSON.stringify(settled));
  assert.equal(settled.network, receiveNetwork);
  assert.equal(settled.payer, verified.payer);
  const done = /** @type {any} */ (settled.extensions?.gw);
  assert.equal(done.paymentId, gw.paymentId);
  assert.equal(done.state, "completed");
  assert.equal(done.fulfillmentConfirmation.destination_tx_hash, settled.transaction);
  made(settled);

  const again = await facilitator.settle(payload, requirements);
  assert.equal(again.success, true);
  assert.equal(again.transaction, settled.transaction);
  assert.equal(/** @type {any} */ (again.extensions?.gw).idempotentReplay, true);
  const verifiedAgain = await facilitator.verify(payload, requirements);
  assert.equal(verifiedAgain.isValid, true);
  assert.equal(/** @type {any} */ (verifiedAgain.extensions?.gw).paymentId, gw.paymentId);
});

test("two settles of one payload at once are one payment", async () => {
  const { payload, requirements } = await pay(await offer());
  const [one, two] = await Promise.all([
    facilitator.settle(payload, requirements),
    facilitator.settle(payload, requirements),
  ]);
  assert.equal(one.success && two.success, true, JSON.stringify([one, two]));
  assert.equal(one.transaction, two.transaction);
  const replays = [one, two].map((result) => /** @type {any} */ (result.extensions?.gw).idempotentReplay);
  assert.deepEqual(replays.sort(), [false, true]);
  made(one);
});

test("a payment that takes longer is pending, and the same call gives the outcome", async () => {
  const { payload, requirements } = await pay(await offer({ maxTimeoutSeconds: 1 }));
  let settled = await facilitator.settle(payload, requirements);
  assert.equal(settled.success, false);
  assert.equal(settled.errorReason, "settlement_pending");
  assert.match(/** @type {any} */ (settled.extensions?.gw).state, /^(pending|finalizing)$/);
  while (settled.errorReason === "settlement_pending") settled = await facilitator.settle(payload, requirements);
  assert.equal(settled.success, true, JSON.stringify(settled));
  made(settled);
});

test("a payment that fails says so, and verifies no more", async () => {
  // Nobody delivers for no more than the price.
  const { payload, requirements } = await pay(await offer({ margin: 0 }));
  const settled = await facilitator.settle(payload, requirements);
  assert.equal(settled.success, false);
  assert.equal(settled.errorReason, "no_quotes_received");
  assert.equal(settled.transaction, "");
  assert.equal(/** @type {any} */ (settled.extensions?.gw).state, "failed");
  const verified = await facilitator.verify(payload, requirements);
  assert.equal(verified.isValid, false);
  assert.equal(verified.invalidReason, "no_quotes_received");
});

test("a payment of other terms than were signed is invalid", async () => {
  const { payload, requirements } = await pay(await offer());
  const request = /** @type {any} */ (payload.payload.paymentRequest);
  request.fulfillment_amount = `${request.fulfillment_amount}0`;
  const raised = await facilitator.verify(payload, requirements);
  assert.equal(raised.invalidReason, "payment_requirements_mismatch");
  assert.match(raised.invalidMessage ?? "", /fulfillment_amount/);
  const settled = await facilitator.settle(payload, requirements);
  assert.equal(settled.success, false);
  assert.equal(settled.errorReason, "payment_requirements_mismatch");

  // Where the requirement is altered as well, the signature is for something else.
  const gw = /** @type {any} */ (requirements.extra.gw);
  gw.fulfillmentAmount = request.fulfillment_amount;
  const forged = await facilitator.verify(payload, requirements);
  assert.equal(forged.isValid, false);
  assert.notEqual(forged.invalidReason, "payment_requirements_mismatch");
});

test("an account that holds nothing cannot pay", async () => {
  const { payload, requirements } = await pay(await offer(), pauper);
  const verified = await facilitator.verify(payload, requirements);
  assert.equal(verified.isValid, false);
  assert.match(verified.invalidReason ?? "", /^insufficient_(funds|allowance)$/);
});

test("a refusal with another status has the shape that the client reads", async () => {
  const first = await pay(await offer());
  const second = await pay(await offer());
  const extensions = { "payment-identifier": { info: { required: true, id: crypto.randomUUID() } } };
  const settled = await facilitator.settle({ ...first.payload, extensions }, first.requirements);
  assert.equal(settled.success, true, JSON.stringify(settled));
  made(settled);
  const refused = await facilitator
    .settle({ ...second.payload, extensions }, second.requirements)
    .catch((error) => error);
  assert.ok(refused instanceof SettleError, String(refused));
  assert.equal(refused.statusCode, 409);
  assert.equal(refused.errorReason, "payment_identifier_conflict");

  const nameless = { ...second.payload, extensions: { "payment-identifier": { info: { required: true } } } };
  const invalid = await facilitator.verify(nameless, second.requirements).catch((error) => error);
  assert.ok(invalid instanceof VerifyError, String(invalid));
  assert.equal(invalid.statusCode, 400);
  assert.equal(invalid.invalidReason, "payment_identifier_required");
});
