// A running shop, as somebody sees it who would rather not pay.

import assert from "node:assert/strict";
import { test } from "node:test";

import { x402Client, x402HTTPClient } from "@x402/core/client";

import { pay, wanted } from "./market.js";

const url = wanted("SHOP_URL");
const http = new x402HTTPClient(new x402Client());

/** @param {string} address @param {Record<string, string>} [headers] */
async function visit(address, headers = {}) {
  const response = await fetch(address, { headers });
  const required = response.headers.get("PAYMENT-REQUIRED");
  return { status: response.status, required: required && JSON.parse(atob(required)), body: await response.json() };
}

test("one payment opens one page", async () => {
  const unpaid = await visit(url);
  assert.equal(unpaid.status, 402);
  assert.equal(unpaid.body.title, undefined);
  const { payload } = await pay(unpaid.required);
  const headers = http.encodePaymentSignatureHeader(payload);

  const paid = await visit(url, headers);
  assert.equal(paid.status, 200, JSON.stringify(paid));
  assert.ok(paid.body.title);
  // For an answer that was lost, and nothing else.
  const again = await visit(url, headers);
  assert.equal(again.status, 200, JSON.stringify(again));
  const other = await visit(`${url}?edition=2`, headers);
  assert.equal(other.status, 402);
  assert.equal(other.required.error, "payment_used");
  assert.equal(other.body.title, undefined);
});

test("what was altered on the way to the shop opens nothing", async () => {
  const { required } = await visit(url);
  const { payload } = await pay(required);
  const forged = structuredClone(payload);
  const signed = /** @type {any} */ (forged.payload.paymentRequest).sender_auth.signed_messages[0];
  signed.signature = `${signed.signature.slice(0, 40)}${signed.signature[40] === "a" ? "b" : "a"}${signed.signature.slice(41)}`;
  const unsigned = await visit(url, http.encodePaymentSignatureHeader(forged));
  assert.equal(unsigned.status, 402);
  assert.ok(unsigned.required.error);

  const cheaper = structuredClone(payload);
  cheaper.accepted.amount = "1";
  const other = await visit(url, http.encodePaymentSignatureHeader(cheaper));
  assert.equal(other.status, 402);
  assert.equal(other.required.error, "No matching payment requirements");
});
