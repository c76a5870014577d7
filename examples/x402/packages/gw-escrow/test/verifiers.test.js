import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { base58 } from "@scure/base";
import { sha256, stringToBytes } from "viem";

import { evmPayer, GwEscrowClient } from "../src/client.js";
import { releaserOf } from "../src/verifiers.js";
import { defaults, gateway, requirement, signer, SOURCE } from "./world.js";

const MEMBERS = ["1", "2", "3"].map((digit) => `0x${digit.repeat(40)}`);
const SOLANA = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";

/** @param {number} threshold @param {string[]} accounts */
const setOf = (threshold, accounts) => ({
  threshold,
  members: accounts.map((account, at) => ({ account, endpoint: `http://127.0.0.1:${8090 + at}` })),
});

test("a releaser is the id that the escrow computes", () => {
  const vectors = readFileSync(new URL("../../../../../contracts/vectors/verifier-set.json", import.meta.url), "utf8");
  const { sets } = JSON.parse(vectors);
  assert.ok(sets.length > 1);
  for (const { threshold, members, id } of sets) {
    if (members.length > 1) assert.equal(releaserOf(SOURCE, threshold, members.toReversed()), id);
  }
  const keys = [2, 1].map((byte) => new Uint8Array(32).fill(byte));
  const preimage = [...stringToBytes("gw-verifier-set"), 1, 2, 2, ...keys[1], ...keys[0]];
  const id = base58.encode(sha256(Uint8Array.from(preimage), "bytes"));
  const [second, first] = keys.map((key) => base58.encode(key));
  assert.equal(releaserOf(SOLANA, 2, [first, second]), id);
  assert.equal(releaserOf(SOLANA, 1, [first]), first);
  for (const [threshold, accounts] of /** @type {[number, string[]][]} */ ([
    [1, []],
    [0, MEMBERS],
    [4, MEMBERS],
    [1.5, MEMBERS],
    [1, [MEMBERS[0], MEMBERS[0]]],
    [1, Array.from({ length: 17 }, (_, at) => `0x${String(at).padStart(40, "0")}`)],
  ])) {
    assert.throws(() => releaserOf(SOURCE, threshold, accounts), { code: "untrusted" }, `${threshold} ${accounts}`);
  }
});

/**
 * What a buyer signs whose gateway shows its verifiers so.
 *
 * @param {import("node:test").TestContext} context
 * @param {{ releaser?: string, shown: object, endpoint?: string }} choice `endpoint` is what the shop names.
 */
async function signs(context, { releaser = defaults().releaser, shown, endpoint }) {
  const own = defaults();
  const verifier = { account: releaser, endpoint: own.fulfillment_verifier.endpoint, ...shown };
  const base = await gateway(context, () => ({ body: { ...own, releaser, fulfillment_verifier: verifier } }));
  /** @type {any[]} */
  const signed = [];
  const signTypedData = async (/** @type {any} */ data) => {
    signed.push(data);
    return signer.signTypedData(data);
  };
  const payer = evmPayer(/** @type {any} */ ({ address: signer.address, signTypedData }));
  const told = requirement();
  told.extra.gw.releaser = releaser;
  if (endpoint) told.extra.gw.fulfillmentVerifierEndpoint = endpoint;
  const client = new GwEscrowClient({ gateway: base, payers: [payer] });
  return { signed, payload: client.createPaymentPayload(2, told) };
}

test("it signs for a set that its gateway shows, and for any of its endpoints", async (context) => {
  const releaser = releaserOf(SOURCE, 2, MEMBERS);
  for (const port of [8090, 8092]) {
    const shown = setOf(2, MEMBERS);
    const { signed, payload } = await signs(context, { releaser, shown, endpoint: `http://127.0.0.1:${port}` });
    await payload;
    assert.equal(signed[0].message.witness.releaser, releaser);
  }
  const { signed, payload } = await signs(context, { shown: setOf(1, [defaults().releaser]) });
  await payload;
  assert.equal(signed.length, 1);
});

test("it signs nothing where the releaser stands for others than are shown", async (context) => {
  const releaser = releaserOf(SOURCE, 2, MEMBERS);
  for (const choice of [
    { shown: setOf(2, MEMBERS) },
    { releaser, shown: setOf(1, MEMBERS) },
    { releaser, shown: setOf(2, MEMBERS.slice(1)) },
    { releaser, shown: setOf(1, [MEMBERS[0]]) },
    { releaser, shown: { threshold: 2 } },
    { releaser, shown: { threshold: 2, members: [null, null] } },
    { releaser, shown: setOf(2, [MEMBERS[0], "nobody"]) },
    { releaser, shown: setOf(2, MEMBERS), endpoint: "http://127.0.0.1:8093" },
    { releaser, shown: { ...setOf(2, MEMBERS), account: MEMBERS[0] } },
    { shown: { account: MEMBERS[0] } },
    { shown: { account: "nobody" } },
  ]) {
    const { signed, payload } = await signs(context, choice);
    await assert.rejects(payload, { name: "GwEscrowError", code: "untrusted" });
    assert.equal(signed.length, 0);
  }
});
