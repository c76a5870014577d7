// What the paywall has a wallet sign. The page's own sources are built for it, with what web/ has of npm.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { base58 } from "@scure/base";
import { recoverTypedDataAddress } from "viem";

import { defaults, DESTINATION, gateway, preparedFor, requirement, signer, SOURCE } from "./world.js";

const home = fileURLToPath(new URL("..", import.meta.url));
const root = fileURLToPath(new URL("../../../../..", import.meta.url));
const PERMIT2 = "0x000000000022d473030f116ddee9f6b43ac78ba3";
const GENESIS = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";
const SOLANA = `solana:${GENESIS.slice(0, 32)}`;
/** @param {number} byte */
const key = (byte) => base58.encode(new Uint8Array(32).fill(byte));

/** @type {any} */
let page;
const folder = mkdtempSync(join(tmpdir(), "gw-escrow-page-"));
before(async () => {
  const { build } = createRequire(join(root, "web/package.json"))("esbuild");
  const sdk = join(root, "sdk/typescript/src");
  const contents = `
    export * from ${JSON.stringify(join(home, "page/sign.ts"))};
    export { decoded } from ${JSON.stringify(join(home, "page/wire.ts"))};
    export { Gateway } from ${JSON.stringify(join(sdk, "gateway.ts"))};
    export { evmWallet } from ${JSON.stringify(join(sdk, "evm/index.ts"))};
    export { solanaKeypair, solanaWallet } from ${JSON.stringify(join(sdk, "solana/index.ts"))};
    export { readRequirement } from ${JSON.stringify(join(home, "src/requirement.js"))};`;
  const outfile = join(folder, "page.mjs");
  await build({
    stdin: { contents, resolveDir: home },
    nodePaths: [join(root, "web/node_modules")],
    bundle: true,
    format: "esm",
    platform: "node",
    tsconfigRaw: {},
    outfile,
    logLevel: "error",
  });
  page = await import(pathToFileURL(outfile).href);
});
after(() => rmSync(folder, { recursive: true, force: true }));

/**
 * Has a wallet sign for a requirement, before a gateway that says this of its chains.
 *
 * @param {import("node:test").TestContext} context
 * @param {{ wallet: any, entry?: any, says?: (network: string | null) => object, prepared?: object }} choice
 */
async function sign(context, { wallet, entry = requirement(), says = () => ({}), prepared }) {
  const schemes = prepared ? { message_schemes: ["EVM_EIP3009", "EVM_PERMIT2_ESCROW"] } : {};
  const base = await gateway(context, ({ pathname, searchParams }) =>
    pathname.endsWith("/prepare") && prepared
      ? { body: prepared }
      : { body: { ...defaults(), permit2: PERMIT2, assets: [], ...schemes, ...says(searchParams.get("chain_id")) } },
  );
  const offer = { requirement: entry, wanted: page.readRequirement(entry) };
  const declared = { "payment-identifier": { info: { required: true }, schema: {} } };
  const required = { x402Version: 2, resource: { url: "http://shop/a" }, accepts: [entry], extensions: declared };
  const handed = { required, gateway: base, maxLockSeconds: 3600, pins: {} };
  const kept = await page.signed(offer, required, wallet, new page.Gateway(base), handed);
  return { kept, sent: page.decoded(kept.header), required };
}

/** A wallet on an EVM chain that signs and counts. */
async function evm() {
  let signatures = 0;
  /** @type {string[]} */
  const types = [];
  const account = {
    address: signer.address,
    signTypedData: async (/** @type {any} */ data) => {
      signatures += 1;
      types.push(data.primaryType);
      return signer.signTypedData(data);
    },
  };
  const rpc = { request: async () => `0x${Number(SOURCE.split(":")[1]).toString(16)}` };
  return { wallet: await page.evmWallet({ account, rpc }), count: () => signatures, types };
}

test("what is signed on an EVM chain is what client and SDK both make of the requirement", async (context) => {
  const { wallet, count } = await evm();
  const { kept, sent, required } = await sign(context, { wallet });
  assert.equal(count(), 1);
  assert.deepEqual(sent.accepted, required.accepts[0]);
  assert.deepEqual(sent.resource, required.resource);
  assert.deepEqual(sent.extensions, {
    "payment-identifier": { info: { required: true, id: kept.paymentId }, schema: {} },
  });
  const [{ message_prehash, signature }] = sent.payload.paymentRequest.sender_auth.signed_messages;
  const data = JSON.parse(message_prehash);
  assert.equal(data.message.permitted.amount, "1100000");
  assert.equal(await recoverTypedDataAddress({ ...data, signature }), signer.address);
});

test("what is signed for a token that takes signatures is what client and SDK both make of the requirement", async (context) => {
  for (const [kind, scheme, expected] of /** @type {const} */ ([
    ["transfer", "EVM_EIP3009", ["ReceiveWithAuthorization"]],
    ["allowance", "EVM_PERMIT2_ESCROW", ["Permit", "PermitWitnessTransferFrom"]],
  ])) {
    const { wallet, types } = await evm();
    const { sent } = await sign(context, { wallet, prepared: preparedFor(kind) });
    assert.deepEqual(types, expected);
    const { message_scheme, signed_messages } = sent.payload.paymentRequest.sender_auth;
    assert.equal(message_scheme, scheme);
    assert.equal(signed_messages.length, expected.length);
    for (const { message_prehash, signature } of signed_messages) {
      assert.equal(await recoverTypedDataAddress({ ...JSON.parse(message_prehash), signature }), signer.address);
    }
    assert.equal("deposit" in (signed_messages[0].payload ?? {}), kind === "transfer");
  }
});

test("what is signed on Solana is what client and SDK both make of the requirement", async (context) => {
  const pair = crypto.getRandomValues(new Uint8Array(32));
  const wallet = page.solanaWallet({ signer: await page.solanaKeypair(pair), rpc: async () => GENESIS });
  const entry = requirement();
  Object.assign(entry, { network: SOLANA, asset: key(9) });
  Object.assign(entry.extra.gw, { escrow: key(1), reserver: key(2), releaser: key(3), svmSignatureClusterId: GENESIS });
  const own = { escrow_contract_address: key(1), fulfillment_proxy: key(1), reserver: key(2), releaser: key(3) };
  const fulfillment_verifier = { account: key(3), endpoint: "http://127.0.0.1:8090" };
  const cluster = { signature_cluster_id: GENESIS, signature_domain_version: 1 };
  const says = (/** @type {string | null} */ network) => (network === SOLANA ? { ...own, ...cluster, fulfillment_verifier } : {});
  const { sent } = await sign(context, { wallet, entry, says });
  const { message_scheme, signed_messages } = sent.payload.paymentRequest.sender_auth;
  assert.equal(message_scheme, "SOLANA");
  assert.equal(signed_messages[0].signature.length, 2 + 128);
});

test("a gateway that changes its word between the two readings gets no signature", async (context) => {
  const { wallet, count } = await evm();
  let asked = 0;
  // Client and SDK ask once each for either chain.
  const says = (/** @type {string | null} */ network) =>
    network === SOURCE && (asked += 1) > 1 ? { escrow_contract_address: `0x${"99".repeat(20)}` } : {};
  await assert.rejects(sign(context, { wallet, says }), { name: "VerificationError" });
  assert.equal(count(), 0);
});

test("no more is signed for than the page shows, nor for longer", async (context) => {
  const { wallet, count } = await evm();
  const slow = (/** @type {string | null} */ network) =>
    network === DESTINATION ? { refund_delay_seconds: 3600 } : {};
  await assert.rejects(sign(context, { wallet, says: slow }), { code: "lock" });
  const other = requirement();
  other.extra.gw.escrow = `0x${"99".repeat(20)}`;
  await assert.rejects(sign(context, { wallet, entry: other }), { code: "untrusted" });
  assert.equal(count(), 0);
});
