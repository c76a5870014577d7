// What a merchant and a buyer write in TypeScript. types.test.js compiles it, as strictly as can be; it is never run.
import type { IncomingMessage, ServerResponse } from "node:http";

import { x402Client } from "@x402/core/client";
import {
  HTTPFacilitatorClient,
  type PaywallProvider,
  x402HTTPResourceServer,
  x402ResourceServer,
} from "@x402/core/server";
import type { SchemeNetworkClient, SchemeNetworkServer } from "@x402/core/types";
import { privateKeyToAccount } from "viem/accounts";
import { GwEscrowClient, type OpenPayment, evmPayer, solanaPayer } from "x402-gw-escrow/client";
import type { Payer } from "x402-gw-escrow/evm";
import { paymentCookie, paywall } from "x402-gw-escrow/paywall";
import { GwEscrowError, GwEscrowServer, type Redemption, Redemptions } from "x402-gw-escrow/server";
import { type Store, fileStore, memoryStore } from "x402-gw-escrow/store";

const gateway = "http://127.0.0.1:8080";
const store: Store<Redemption> = fileStore("payments.jsonl");
const receive = { network: "eip155:31338", asset: "DEV" };
const scheme = new GwEscrowServer({ receive, redemptions: new Redemptions({ store }), marginBasisPoints: 50 });
const price = scheme.held(({ path }) => (path === "/dear" ? "$2" : "$1"));
const facilitator = new HTTPFacilitatorClient({ url: `${gateway}/x402/v1` });
const server = new x402ResourceServer(facilitator).register("eip155:31337", scheme);
const page: PaywallProvider = paywall({ gateway, name: "A shop", maxLockSeconds: 600 });
const accepts = { scheme: "gw-escrow", network: "eip155:31337", payTo: "0x", price, maxTimeoutSeconds: 60 } as const;
new x402HTTPResourceServer(server, { "/a": { accepts } }).registerPaywallProvider(page);
export const before: (request: IncomingMessage, response: ServerResponse, next: () => void) => unknown =
  paymentCookie();

const payer: Payer = evmPayer(privateKeyToAccount(`0x${"11".repeat(32)}`));
const open = memoryStore<OpenPayment>();
new x402Client().register("eip155:31337", new GwEscrowClient({ gateway, payers: [payer], maxLockSeconds: 600, open }));

// The package declares the types of x402 itself; they are the official ones.
export const official: [SchemeNetworkServer, SchemeNetworkClient] = [
  scheme,
  new GwEscrowClient({ gateway, payers: [payer] }),
];

export const code: string = new GwEscrowError("cap", "too much").code;
export { solanaPayer };

// What is wrong is refused.
// @ts-expect-error the merchant's account is not where it is paid
new GwEscrowServer({ receive: { network: "eip155:31338" } });
// @ts-expect-error a buyer names the gateway that it trusts
new GwEscrowClient({ payers: [payer] });
// @ts-expect-error seconds are a number
new GwEscrowClient({ gateway, payers: [payer], maxLockSeconds: "600" });
