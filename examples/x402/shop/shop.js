// A shop with one page for sale. Buyers pay on other chains than the one on which the shop is paid.

import { HTTPFacilitatorClient } from "@x402/core/server";
import { paymentMiddlewareFromHTTPServer, x402HTTPResourceServer, x402ResourceServer } from "@x402/express";
import { declarePaymentIdentifierExtension, PAYMENT_IDENTIFIER } from "@x402/extensions/payment-identifier";
import express from "express";
import { paymentCookie, paywall } from "x402-gw-escrow/paywall";
import { GwEscrowServer, Redemptions } from "x402-gw-escrow/server";
import { fileStore } from "x402-gw-escrow/store";

const settings = {
  gateway: setting("GATEWAY_URL", "the gateway, such as http://127.0.0.1:8080"),
  payTo: setting("PAY_TO", "the shop's account"),
  receive: {
    network: setting("RECEIVE_NETWORK", "the chain the shop is paid on"),
    asset: setting("RECEIVE_ASSET", "its token"),
  },
  payOn: setting("PAY_NETWORKS", "the chains buyers may pay on, with commas").split(","),
  price: setting("PRICE", "the price of the page, such as $1.50"),
  ledger: setting("SHOP_LEDGER", "the file that remembers which payments were used"),
  port: Number(process.env.PORT ?? 4021),
};

const scheme = new GwEscrowServer({
  receive: settings.receive,
  redemptions: new Redemptions({ store: fileStore(settings.ledger) }),
});
const server = new x402ResourceServer(new HTTPFacilitatorClient({ url: `${settings.gateway}/x402/v1` }));
for (const network of settings.payOn) server.register(caip2(network), scheme);

const http = new x402HTTPResourceServer(server, {
  "GET /article": {
    accepts: settings.payOn.map((network) => ({
      scheme: scheme.scheme,
      network: caip2(network),
      payTo: settings.payTo,
      price: settings.price,
      maxTimeoutSeconds: 60,
    })),
    description: "An article",
    mimeType: "application/json",
    extensions: { [PAYMENT_IDENTIFIER]: declarePaymentIdentifierExtension(true) },
    settlementFailedResponseBody: (_, { errorReason, errorMessage, extensions }) => ({
      contentType: "application/json",
      body: { error: errorReason, message: errorMessage, payment: extensions?.gw },
    }),
  },
});
// What does not fit together shows here and not with the first buyer.
await http.initialize().catch((error) => {
  console.error(`shop: ${error.message}`);
  process.exit(1);
});
server.onAfterSettle(async ({ result }) => {
  console.log(`paid in ${result.transaction} on ${result.network} by ${result.payer}`);
});

const page = paywall({ gateway: settings.gateway, name: "A shop on another chain" });
const article = { title: "Paid across chains", text: "The buyer's tokens never were on this shop's chain." };
const app = express();
app.use(paymentCookie());
app.use(paymentMiddlewareFromHTTPServer(http, undefined, page, false));
app.get("/article", (_, response) => {
  response.format({ json: () => response.json(article), html: () => response.send(html(article)) });
});
const listener = app.listen(settings.port, "127.0.0.1", (/** @type {Error | undefined} */ error) => {
  if (error) throw error;
  const address = /** @type {import("node:net").AddressInfo} */ (listener.address());
  console.log(`shop at http://127.0.0.1:${address.port}/article`);
});

/**
 * The article as browsers show it.
 *
 * @param {{ title: string, text: string }} article
 */
function html({ title, text }) {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem; font: 1.1rem/1.6 Georgia, serif; }</style>
<h1>${title}</h1>
<p>${text}</p>
</html>
`;
}

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

/** @param {string} network */
function caip2(network) {
  return /** @type {`${string}:${string}`} */ (network);
}
