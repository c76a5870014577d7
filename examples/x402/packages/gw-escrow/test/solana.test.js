import assert from "node:assert/strict";
import { generateKeyPairSync, sign, verify } from "node:crypto";
import { test } from "node:test";

import { base58 } from "@scure/base";
import { hexToBytes, sha256 } from "viem";

import { GwEscrowClient, solanaPayer } from "../src/client.js";
import { defaults, gateway, requirement } from "./world.js";

const GENESIS = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";
const NETWORK = `solana:${GENESIS.slice(0, 32)}`;
const MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
const PROGRAM = base58.encode(new Uint8Array(32).fill(1));
const RESERVER = base58.encode(new Uint8Array(32).fill(2));
const RELEASER = base58.encode(new Uint8Array(32).fill(3));

/**
 * What somebody on Solana signs for a requirement.
 *
 * @param {import("node:test").TestContext} context
 * @param {{ says?: object, wants?: (entry: any) => void }} [choice] What the gateway says besides, and what the shop
 *   wants.
 */
async function signs(context, { says = {}, wants = () => undefined } = {}) {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  /** @type {Uint8Array[]} */
  const signed = [];
  const payer = solanaPayer({
    address: base58.encode(publicKey.export({ format: "der", type: "spki" }).subarray(-32)),
    signMessage: async (message) => {
      signed.push(message);
      return new Uint8Array(sign(null, message, privateKey));
    },
  });
  const base = await gateway(context, ({ searchParams }) => {
    if (searchParams.get("chain_id") !== NETWORK) return { body: defaults() };
    const own = {
      escrow_contract_address: PROGRAM,
      fulfillment_proxy: PROGRAM,
      reserver: RESERVER,
      releaser: RELEASER,
      fulfillment_verifier: { ...defaults().fulfillment_verifier, account: RELEASER },
    };
    return { body: { ...defaults(), ...own, signature_cluster_id: GENESIS, signature_domain_version: 1, ...says } };
  });
  const told = requirement();
  Object.assign(told, { network: NETWORK, asset: MINT });
  Object.assign(told.extra.gw, {
    escrow: PROGRAM,
    reserver: RESERVER,
    releaser: RELEASER,
    svmSignatureClusterId: GENESIS,
  });
  wants(told);
  const client = new GwEscrowClient({ gateway: base, payers: [payer] });
  return { signed, publicKey, payload: client.createPaymentPayload(2, told) };
}

test("on Solana it signs the terms for this cluster and this program", async (context) => {
  const { signed, publicKey, payload } = await signs(context);
  const request = /** @type {any} */ ((await payload).payload.paymentRequest);
  const [{ message, message_prehash, signature }] = request.sender_auth.signed_messages;
  const preimage = hexToBytes(message_prehash);
  assert.equal(sha256(preimage), message);
  assert.deepEqual(hexToBytes(message), signed[0]);
  assert.ok(verify(null, signed[0], publicKey, hexToBytes(signature)));
  const cluster = preimage.subarray(10, 42);
  assert.equal(base58.encode(cluster), GENESIS);
  assert.equal(base58.encode(preimage.subarray(42, 74)), PROGRAM);
  const amount = new DataView(preimage.buffer, preimage.byteOffset).getBigUint64(75 + 5 * 32, true);
  assert.equal(amount, 1_100_000n);
});

/** @type {[string, string, { says?: object, wants?: (entry: any) => void }][]} */
const lies = [
  [
    "another cluster",
    "untrusted",
    { says: { signature_cluster_id: RESERVER }, wants: ({ extra }) => (extra.gw.svmSignatureClusterId = "") },
  ],
  [
    "a cluster that only the shop names",
    "untrusted",
    { wants: ({ extra }) => (extra.gw.svmSignatureClusterId = RESERVER) },
  ],
  ["another domain", "unsupported", { says: { signature_domain_version: 2 } }],
  ["more than 64 bits", "requirement", { wants: (entry) => (entry.amount = String(1n << 64n)) }],
];
for (const [lie, code, choice] of lies) {
  test(`on Solana it signs nothing for ${lie}`, async (context) => {
    const { signed, payload } = await signs(context, choice);
    await assert.rejects(payload, { code });
    assert.equal(signed.length, 0);
  });
}
