// What tests buy and sell with: the official packages and the scheme, on the network that the environment names.

import { x402Client } from "@x402/core/client";
import { HTTPFacilitatorClient, x402ResourceServer } from "@x402/core/server";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { evmPayer, GwEscrowClient } from "x402-gw-escrow/client";
import { GwEscrowServer } from "x402-gw-escrow/server";

export const network = /** @type {`${string}:${string}`} */ (wanted("PAY_NETWORK"));
export const receiveNetwork = wanted("RECEIVE_NETWORK");
export const gateway = wanted("GATEWAY_URL");
export const facilitator = new HTTPFacilitatorClient({ url: `${gateway}/x402/v1` });

/** An account that holds nothing. */
export const pauper = generatePrivateKey();

/**
 * The 402 of a merchant.
 *
 * @param {{ price?: string, maxTimeoutSeconds?: number, margin?: number, deadlineSeconds?: number }} [choice]
 * @returns {Promise<import("@x402/core/types").PaymentRequired>}
 */
export async function offer({
  price = wanted("PRICE"),
  maxTimeoutSeconds = 60,
  margin = 100,
  deadlineSeconds = 120,
} = {}) {
  const receive = { network: receiveNetwork, asset: wanted("RECEIVE_ASSET") };
  const scheme = new GwEscrowServer({
    receive,
    marginBasisPoints: margin,
    quoteDeadlineSeconds: 10,
    fulfillmentDeadlineSeconds: deadlineSeconds,
  });
  const server = new x402ResourceServer(facilitator).register(network, scheme);
  await server.initialize();
  const accepts = await server.buildPaymentRequirements({
    scheme: scheme.scheme,
    network,
    payTo: wanted("PAY_TO"),
    price,
    maxTimeoutSeconds,
  });
  return server.createPaymentRequiredResponse(accepts, { url: `http://shop.example/${crypto.randomUUID()}` });
}

/**
 * What a buyer with this key sends for it.
 *
 * @param {import("@x402/core/types").PaymentRequired} required
 * @param {string} [key]
 */
export async function pay(required, key = wanted("BUYER_KEY")) {
  const payer = evmPayer(privateKeyToAccount(/** @type {`0x${string}`} */ (key)));
  const client = new x402Client().register(network, new GwEscrowClient({ gateway, payers: [payer] })).setSpendControls({
    allowedAssets: [{ network, asset: required.accepts[0].asset, maxAmountPerPayment: "100000000" }],
  });
  const payload = await client.createPaymentPayload(required);
  return { payload, requirements: payload.accepted };
}

/**
 * @param {string} name
 * @returns {string}
 */
export function wanted(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}
