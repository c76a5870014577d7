// A stock buyer: pays for the page at an address with a signature, and prints the page and the receipt as JSON. It needs no
// coins, and it knows nothing of gateways.

import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const url = process.argv[2];
if (!url) fail(2, "say what to buy: node buyer.js http://127.0.0.1:4022/article");
const network = /** @type {`${string}:${string}`} */ (setting("PAY_NETWORK", "the chain to pay on, such as eip155:8453"));
const asset = setting("PAY_ASSET", "the address of the token to pay with");
const maxAmountPerPayment = setting("PAY_AT_MOST", "the most to pay, in the token's smallest unit");
const key = setting("BUYER_KEY", "the private key that pays: hex with 0x, or Base58 for Solana");

const solana = async () => createKeyPairSignerFromBytes(getBase58Encoder().encode(key));
const scheme = network.startsWith("solana:")
  ? new ExactSvmScheme(await solana(), { rpcUrl: process.env.PAY_RPC_URL })
  : new ExactEvmScheme(privateKeyToAccount(/** @type {`0x${string}`} */ (key)));
const client = new x402Client()
  .register(network, scheme)
  .setSpendControls({ allowedAssets: [{ network, asset, maxAmountPerPayment }] });
const response = await wrapFetchWithPayment(fetch, client)(url);

const header = response.headers.get("PAYMENT-RESPONSE");
const receipt = header ? decodePaymentResponseHeader(header) : undefined;
const page = await response.json();
console.log(JSON.stringify({ status: response.status, receipt, page }, null, 2));
if (!response.ok) process.exitCode = 1;

/**
 * @param {string} name
 * @param {string} meaning
 * @returns {string}
 */
function setting(name, meaning) {
  return process.env[name] || fail(2, `${name} is not set: ${meaning}`);
}

/**
 * @param {number} code
 * @param {string} reason
 * @returns {never}
 */
function fail(code, reason) {
  console.error(`buyer: ${reason}`);
  process.exit(code);
}
