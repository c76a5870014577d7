// The stock shop and the stock buyer on Solana, at a gateway and a node that are made up: what is signed is what the gateway reads.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import {
  createKeyPairSignerFromPrivateKeyBytes,
  decompileTransactionMessage,
  getAddressEncoder,
  getBase58Decoder,
  getCompiledTransactionMessageDecoder,
  getProgramDerivedAddress,
  getTransactionDecoder,
} from "@solana/kit";

const NETWORK = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
const MINT = address("4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU");
const BUDGET = "ComputeBudget111111111111111111111111111111";
const TOKENS = address("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
const MEMO = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
const ASSOCIATED = address("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL");
const BLOCKHASH = "EkSnNWid2cvwEVnVx9aBqawnmiCNiDgp3gUdkDPTKN1N";

const seed = new Uint8Array(32).fill(7);
const [buyer, feePayer, payTo] = await Promise.all([seed, seed.map(() => 9), seed.map(() => 11)].map(account));
const secret = getBase58Decoder().decode(Uint8Array.from([...seed, ...getAddressEncoder().encode(buyer)]));
const extra = { feePayer, gw: { fulfillmentAmount: "1500000" } };
const route = {
  scheme: "exact",
  network: NETWORK,
  payTo,
  price: { asset: MINT, amount: "1520000", extra },
  maxTimeoutSeconds: 60,
};

/** @param {string} text */
function address(text) {
  return /** @type {import("@solana/kit").Address} */ (text);
}

/** @param {Uint8Array} bytes */
async function account(bytes) {
  return (await createKeyPairSignerFromPrivateKeyBytes(bytes)).address;
}

/** @param {import("@solana/kit").Address} owner */
async function tokensOf(owner) {
  const seeds = [owner, TOKENS, MINT].map((of) => getAddressEncoder().encode(of));
  return (await getProgramDerivedAddress({ programAddress: ASSOCIATED, seeds }))[0];
}

/**
 * Answers what is posted to a path.
 *
 * @param {import("node:test").TestContext} context
 * @param {(path: string, body: any) => unknown} answer
 */
async function serve(context, answer) {
  const server = createServer(async (request, response) => {
    const body = request.method === "POST" ? await json(request) : undefined;
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer(request.url ?? "", body)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  context.after(() => void server.close());
  return `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}`;
}

/** @param {string} name */
function script(name) {
  return fileURLToPath(new URL(`../stock/${name}`, import.meta.url));
}

test("a stock buyer signs one transfer to the offer's address, whose fee the gateway pays", async (context) => {
  /** @type {any[]} */
  const settled = [];
  const gateway = await serve(context, (path, body) => {
    if (path === "/x402/v1/offers") return { route };
    if (path === "/x402/v1/supported") {
      const kind = { x402Version: 2, scheme: "exact", network: NETWORK, extra: { feePayer } };
      return { kinds: [kind], extensions: [], signers: {} };
    }
    if (path === "/x402/v1/verify") return { isValid: true, payer: buyer };
    settled.push(body);
    const gw = { paymentId: "pay_1" };
    return { success: true, transaction: "5".repeat(88), network: NETWORK, payer: buyer, extensions: { gw } };
  });
  /** @type {string[]} */
  const asked = [];
  const node = await serve(context, (_, { id, method }) => {
    asked.push(method);
    const mint = Buffer.alloc(82);
    mint.writeUInt8(6, 44);
    mint.writeUInt8(1, 45);
    const data = [mint.toString("base64"), "base64"];
    const found = { data, owner: TOKENS, lamports: 1, executable: false, rentEpoch: 0, space: mint.length };
    const value = method === "getAccountInfo" ? found : { blockhash: BLOCKHASH, lastValidBlockHeight: 300 };
    return { jsonrpc: "2.0", id, result: { context: { slot: 1 }, value } };
  });
  const env = {
    ...process.env,
    GATEWAY_URL: gateway,
    PAY_NETWORK: NETWORK,
    PAY_ASSET: MINT,
    PAY_RPC_URL: node,
    RECEIVE_NETWORK: "eip155:31338",
    RECEIVE_ASSET: "DEV",
    PAY_TO: "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
    PRICE_UNITS: "1500000",
    PAY_AT_MOST: "1520000",
    BUYER_KEY: secret,
    PORT: "0",
  };
  const shop = spawn(process.execPath, [script("shop.js")], { env, stdio: ["ignore", "pipe", "inherit"] });
  context.after(() => void shop.kill());
  const said = await new Promise((resolve) => shop.stdout.once("data", resolve));
  const url = String(said).match(/http:\S+\/article/)?.[0] ?? "";
  const { stdout } = await promisify(execFile)(process.execPath, [script("buyer.js"), url], { env });
  assert.equal(JSON.parse(stdout).receipt.extensions.gw.paymentId, "pay_1");

  assert.deepEqual(asked, ["getAccountInfo", "getLatestBlockhash"]);
  const [{ paymentPayload, paymentRequirements }] = settled;
  assert.deepEqual(paymentRequirements.extra, extra);
  assert.deepEqual(paymentPayload.accepted, paymentRequirements);
  assert.deepEqual(Object.keys(paymentPayload.payload), ["transaction"]);
  const transaction = getTransactionDecoder().decode(Buffer.from(paymentPayload.payload.transaction, "base64"));
  assert.deepEqual(Object.keys(transaction.signatures), [feePayer, buyer]);
  assert.equal(transaction.signatures[feePayer], null);
  const compiled = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes);
  assert.deepEqual([compiled.version, compiled.lifetimeToken], [0, BLOCKHASH]);
  const [limit, price, transfer, memo, ...more] = decompileTransactionMessage(compiled).instructions;
  const shown = [limit, price, transfer].map(({ programAddress, accounts = [], data = new Uint8Array() }) => ({
    programAddress,
    accounts: accounts.map((account) => account.address),
    data: Buffer.from(data).toString("hex"),
  }));
  assert.deepEqual(shown, [
    { programAddress: BUDGET, accounts: [], data: "02204e0000" },
    { programAddress: BUDGET, accounts: [], data: "030100000000000000" },
    {
      programAddress: TOKENS,
      accounts: [await tokensOf(buyer), MINT, await tokensOf(payTo), buyer],
      data: "0c803117000000000006",
    },
  ]);
  assert.deepEqual([memo.programAddress, memo.accounts ?? [], more], [MEMO, [], []]);
  assert.match(Buffer.from(memo.data ?? []).toString(), /^[0-9a-f]{32}$/);
});
