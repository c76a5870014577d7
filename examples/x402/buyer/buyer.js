// A buyer: pays for the page at an address with tokens, and prints the page and the receipt as JSON.
//
// Started again after anything went wrong, it goes on with the payment it had signed.

import { createPrivateKey, sign } from "node:crypto";

import { base58 } from "@scure/base";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { evmPayer, GwEscrowClient, SEND_AGAIN, solanaPayer } from "x402-gw-escrow/client";
import { fileStore } from "x402-gw-escrow/store";

const url = process.argv[2];
if (!url) fail(2, "say what to buy: node buyer.js http://127.0.0.1:4021/article");
const settings = {
  gateway: setting("GATEWAY_URL", "the gateway this buyer trusts, such as http://127.0.0.1:8080"),
  key: setting("BUYER_KEY", "the private key that pays: hex with 0x, or Base58 for Solana"),
  network: setting("PAY_NETWORK", "the chain to pay on, such as eip155:31337"),
  asset: setting("PAY_ASSET", "the address of the token to pay with"),
  most: setting("PAY_AT_MOST", "the most to pay, in the token's smallest unit"),
  ledger: setting("BUYER_LEDGER", "the file that remembers what was signed"),
  patienceMs: 1000 * Number(process.env.PATIENCE_SECONDS ?? 300),
};

const payer = settings.network.startsWith("solana:")
  ? solanaPayer(solanaKey(settings.key))
  : evmPayer(privateKeyToAccount(/** @type {`0x${string}`} */ (settings.key)));
const client = new x402Client()
  .register(
    /** @type {`${string}:${string}`} */ (settings.network),
    new GwEscrowClient({ gateway: settings.gateway, payers: [payer], open: fileStore(settings.ledger) }),
  )
  .setSpendControls({
    allowedAssets: [
      {
        network: /** @type {`${string}:${string}`} */ (settings.network),
        asset: settings.asset,
        maxAmountPerPayment: settings.most,
      },
    ],
  });
// A shop that says "pending" and then asks for something else would be paid for each of its offers.
/** @type {string | undefined} */
let accepted;
client.onBeforePaymentCreation(async ({ paymentRequired, selectedRequirements }) => {
  const offer = JSON.stringify([paymentRequired.resource.url, selectedRequirements]);
  accepted ??= offer;
  return offer === accepted ? undefined : { abort: true, reason: "the shop asks for something else than before" };
});
const buy = wrapFetchWithPayment(fetch, client);

const giveUpAt = Date.now() + settings.patienceMs;
for (;;) {
  const response = await buy(url).catch((error) => fail(1, reasons(error)));
  const header = response.headers.get("PAYMENT-RESPONSE");
  const receipt = header ? decodePaymentResponseHeader(header) : undefined;
  if (response.ok) {
    console.log(JSON.stringify({ status: response.status, receipt, page: await response.json() }, null, 2));
    break;
  }
  const required = response.headers.get("PAYMENT-REQUIRED");
  const reason = receipt?.errorReason ?? (required && JSON.parse(atob(required)).error) ?? "no reason was given";
  // Under way, or nothing is known: the same payment is sent again, and no other is made.
  const isOpen = SEND_AGAIN.includes(reason) || response.status >= 500 || response.status === 429;
  if (isOpen && Date.now() < giveUpAt) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    continue;
  }
  console.log(JSON.stringify({ status: response.status, reason, receipt }, null, 2));
  process.exitCode = 1;
  break;
}

/**
 * @param {string} secret Base58 of seed and public key, as wallets export it.
 */
function solanaKey(secret) {
  const bytes = base58.decode(secret);
  if (bytes.length !== 64) fail(2, "BUYER_KEY is not a key of Solana");
  // An Ed25519 key as PKCS #8: what is before the seed is the same for all of them.
  const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), bytes.subarray(0, 32)]);
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  return {
    address: base58.encode(bytes.subarray(32)),
    signMessage: async (/** @type {Uint8Array} */ message) => new Uint8Array(sign(null, message, key)),
  };
}

/**
 * @param {unknown} error
 * @returns {string}
 */
function reasons(error) {
  return error instanceof Error
    ? [error.message, error.cause && reasons(error.cause)].filter(Boolean).join(": ")
    : String(error);
}

/**
 * @param {string} name
 * @param {string} meaning
 * @returns {string}
 */
function setting(name, meaning) {
  const value = process.env[name];
  return value ? value : fail(2, `${name} is not set: ${meaning}`);
}

/**
 * @param {number} code
 * @param {string} message
 * @returns {never}
 */
function fail(code, message) {
  console.error(`buyer: ${message}`);
  process.exit(code);
}
