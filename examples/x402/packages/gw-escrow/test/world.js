// A gateway that answers what a test wants, and the requirement of a shop that uses it.

import { createServer } from "node:http";
import { privateKeyToAccount } from "viem/accounts";

export const signer = privateKeyToAccount(`0x${"11".repeat(32)}`);
export const SOURCE = "eip155:31337";
export const DESTINATION = "eip155:31338";
export const ESCROW = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
export const TOKEN = "0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0";
export const MERCHANT = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const PROXY = "0xe7f1725e7734ce288f8367e1bb143e90bb3f0512";
const RESERVER = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
const RELEASER = "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc";

/** What a gateway says about each of its chains. */
export function defaults() {
  return {
    escrow_contract_address: ESCROW,
    fulfillment_proxy: PROXY,
    reserver: RESERVER,
    releaser: RELEASER,
    fulfillment_verifier: { account: RELEASER, endpoint: "http://127.0.0.1:8090" },
    refund_delay_seconds: 30,
  };
}

/**
 * @param {import("node:test").TestContext} context
 * @param {(url: URL) => { status?: number, body: unknown }} [answer]
 */
export async function gateway(context, answer = () => ({ body: defaults() })) {
  const server = createServer((request, response) => {
    const { status = 200, body } = answer(new URL(request.url ?? "", "http://gateway"));
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  context.after(() => void server.close());
  return `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}`;
}

/**
 * What a gateway says to have signed where the token takes a transfer by signature, or allowances. It is not what the buyer wants:
 * name, version and nonce of the token are all that is taken of it.
 *
 * @param {"transfer" | "allowance"} kind
 */
export function preparedFor(kind) {
  const domain = { name: "Dollar", version: "2", chainId: 1, verifyingContract: MERCHANT };
  const message = { to: MERCHANT, spender: MERCHANT, value: "7", nonce: kind === "transfer" ? `0x${"77".repeat(32)}` : "3" };
  const first = { message: "0x", message_prehash: JSON.stringify({ domain, message }), payload: {} };
  return kind === "transfer"
    ? { message_scheme: "EVM_EIP3009", signed_messages: [first] }
    : { message_scheme: "EVM_PERMIT2_ESCROW", signed_messages: [first, { ...first, message_prehash: "{}" }] };
}

/** @returns {any} */
export function requirement() {
  return {
    scheme: "gw-escrow",
    network: SOURCE,
    asset: TOKEN,
    payTo: MERCHANT,
    amount: "1100000",
    maxTimeoutSeconds: 60,
    extra: {
      gw: {
        destination: { network: DESTINATION, asset: TOKEN, address: MERCHANT },
        fulfillmentAmount: "1000000",
        escrow: ESCROW,
        fulfillmentProxy: PROXY,
        reserver: RESERVER,
        releaser: RELEASER,
        fulfillmentVerifierEndpoint: "http://127.0.0.1:8090",
        quoteDeadlineSeconds: 5,
        fulfillmentDeadlineSeconds: 300,
      },
    },
  };
}
