// A shop of the stock packages alone. Buyers pay with any client of x402, on one chain; the shop is paid on another.

import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import { ExactSvmScheme } from "@x402/svm/exact/server";
import express from "express";

const gateway = setting("GATEWAY_URL", "the gateway, such as http://127.0.0.1:8080");
const ask = {
  network: setting("PAY_NETWORK", "the chain that buyers pay on, such as eip155:8453"),
  asset: setting("PAY_ASSET", "the address of the token that they pay with"),
  destination: {
    network: setting("RECEIVE_NETWORK", "the chain that the shop is paid on"),
    asset: setting("RECEIVE_ASSET", "the address of its token there"),
    address: setting("PAY_TO", "the shop's account there"),
  },
  fulfillmentAmount: setting("PRICE_UNITS", "what the shop receives, in the token's smallest unit"),
  ...(process.env.PAY_UNITS && { amount: process.env.PAY_UNITS }),
  ...(process.env.MERCHANT && { merchant: process.env.MERCHANT }),
};
const asked = await fetch(`${gateway}/x402/v1/offers`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(ask),
});
const offer = await asked.json();
if (!asked.ok) {
  console.error(`shop: ${offer.message ?? asked.status}`);
  process.exit(1);
}

const facilitator = new HTTPFacilitatorClient({ url: `${gateway}/x402/v1` });
const { network, payTo } = offer.route;
const scheme = network.startsWith("solana:") ? new ExactSvmScheme() : new ExactEvmScheme();
const server = new x402ResourceServer(facilitator).register(network, scheme);
server.onAfterSettle(async ({ result }) => {
  if (result.success) console.log(`paid by ${result.payer}: ${result.extensions?.gw?.paymentId}`);
});
const app = express();
app.use(paymentMiddleware({ "GET /article": { accepts: offer.route, description: "An article" } }, server));
app.get("/article", (_, response) => {
  response.json({ title: "Paid across chains", text: "The buyer's client knows nothing of another chain." });
});
const listener = app.listen(Number(process.env.PORT ?? 4022), "127.0.0.1", (/** @type {Error | undefined} */ error) => {
  if (error) throw error;
  const address = /** @type {import("node:net").AddressInfo} */ (listener.address());
  console.log(`shop at http://127.0.0.1:${address.port}/article, paid at ${payTo} on ${network}`);
});

/**
 * @param {string} name
 * @param {string} meaning
 * @returns {string}
 */
function setting(name, meaning) {
  const value = process.env[name];
  if (!value) {
    console.error(`shop: ${name} is not set: ${meaning}`);
    process.exit(2);
  }
  return value;
}
