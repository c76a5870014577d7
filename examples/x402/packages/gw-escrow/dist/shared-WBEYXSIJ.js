import {
  GwEscrowError
} from "./shared-EJZXPSA6.js";

// examples/x402/packages/gw-escrow/src/chains.js
var BARE = { eip155: /^0x[0-9a-fA-F]{40}$/, solana: /^[1-9A-HJ-NP-Za-km-z]{32,44}$/ };
var TOKEN = { eip155: "erc20", solana: "token" };
var NETWORK = /^(eip155|solana):([A-Za-z0-9_-]{1,32})$/;
var ASSET = /^([a-z0-9]+:[A-Za-z0-9_-]+)\/([a-z0-9-]{3,8}):([-.%A-Za-z0-9]{1,128})$/;
function namespaceOf(network, field) {
  const match = typeof network === "string" ? NETWORK.exec(network) : null;
  if (!match) throw new GwEscrowError("requirement", `${field} is not a network that can be paid on: ${network}`);
  return (
    /** @type {"eip155" | "solana"} */
    match[1]
  );
}
function account(network, account2, field) {
  const namespace = namespaceOf(network, field);
  if (typeof account2 !== "string" || !BARE[namespace].test(account2)) {
    throw new GwEscrowError("requirement", `${field} is not an account on ${network}: ${account2}`);
  }
  return namespace === "eip155" ? account2.toLowerCase() : account2;
}
function assetId(network, asset, field) {
  const namespace = namespaceOf(network, field);
  const lower = (text2) => namespace === "eip155" ? text2.toLowerCase() : text2;
  if (typeof asset === "string" && BARE[namespace].test(asset)) return `${network}/${TOKEN[namespace]}:${lower(asset)}`;
  const match = typeof asset === "string" ? ASSET.exec(asset) : null;
  if (!match || match[1] !== network) {
    throw new GwEscrowError("requirement", `${field} is not an asset on ${network}: ${asset}`);
  }
  return `${network}/${match[2]}:${lower(match[3])}`;
}
function amount(text2, field) {
  if (typeof text2 !== "string" || !/^[1-9][0-9]{0,77}$/.test(text2)) {
    throw new GwEscrowError("requirement", `${field} is not an amount in the smallest unit: ${text2}`);
  }
  return BigInt(text2);
}
function seconds(value, field) {
  if (!Number.isSafeInteger(value) || /** @type {number} */
  value <= 0) {
    throw new GwEscrowError("requirement", `${field} is not a number of seconds: ${value}`);
  }
  return (
    /** @type {number} */
    value
  );
}

// examples/x402/packages/gw-escrow/src/requirement.js
var SCHEME = "gw-escrow";
var QUOTE_SECONDS = 5;
var FULFILLMENT_SECONDS = 300;
function readRequirement(requirement) {
  if (requirement.scheme !== SCHEME) {
    throw new GwEscrowError("requirement", `scheme is ${requirement.scheme}, not ${SCHEME}`);
  }
  const gw = object(requirement.extra?.gw, "extra.gw");
  const to = object(gw.destination, "extra.gw.destination");
  const network = text(requirement.network, "network");
  const destinationNetwork = text(to.network, "extra.gw.destination.network");
  namespaceOf(network, "network");
  namespaceOf(destinationNetwork, "extra.gw.destination.network");
  const understood = {
    network,
    asset: assetId(network, requirement.asset, "asset"),
    amount: amount(requirement.amount, "amount"),
    destination: {
      network: destinationNetwork,
      asset: assetId(destinationNetwork, to.asset, "extra.gw.destination.asset"),
      address: account(destinationNetwork, to.address, "extra.gw.destination.address")
    },
    fulfillmentAmount: amount(gw.fulfillmentAmount, "extra.gw.fulfillmentAmount"),
    escrow: optionalAccount(network, gw.escrow, "extra.gw.escrow"),
    fulfillmentProxy: optionalAccount(destinationNetwork, gw.fulfillmentProxy, "extra.gw.fulfillmentProxy"),
    reserver: optionalAccount(network, gw.reserver, "extra.gw.reserver"),
    releaser: optionalAccount(network, gw.releaser, "extra.gw.releaser"),
    fulfillmentVerifierEndpoint: optionalText(gw.fulfillmentVerifierEndpoint, "extra.gw.fulfillmentVerifierEndpoint"),
    svmCluster: network.startsWith("solana:") ? optionalText(gw.svmSignatureClusterId, "extra.gw.svmSignatureClusterId") : "",
    quoteSeconds: optionalSeconds(gw.quoteDeadlineSeconds, "extra.gw.quoteDeadlineSeconds") ?? QUOTE_SECONDS,
    fulfillmentSeconds: optionalSeconds(gw.fulfillmentDeadlineSeconds, "extra.gw.fulfillmentDeadlineSeconds") ?? FULFILLMENT_SECONDS
  };
  if (understood.fulfillmentSeconds <= understood.quoteSeconds) {
    throw new GwEscrowError("requirement", "extra.gw.fulfillmentDeadlineSeconds does not follow quoteDeadlineSeconds");
  }
  checkPayTo(requirement.payTo, understood);
  return understood;
}
function checkPayTo(payTo, { network, destination, escrow }) {
  const is = (chain, expected) => {
    try {
      return account(chain, payTo, "payTo") === expected;
    } catch {
      return false;
    }
  };
  if (is(destination.network, destination.address) || escrow !== "" && is(network, escrow)) return;
  throw new GwEscrowError("requirement", `payTo is neither extra.gw.destination.address nor the escrow: ${payTo}`);
}
function object(value, field) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new GwEscrowError("requirement", `${field} is missing`);
  }
  return (
    /** @type {Record<string, unknown>} */
    value
  );
}
function text(value, field) {
  if (typeof value !== "string" || value === "") throw new GwEscrowError("requirement", `${field} is missing`);
  return value;
}
function optionalText(value, field) {
  return value === void 0 || value === "" ? "" : text(value, field);
}
function optionalAccount(network, value, field) {
  return value === void 0 || value === "" ? "" : account(network, value, field);
}
function optionalSeconds(value, field) {
  return value === void 0 || value === "" ? void 0 : seconds(value, field);
}

// examples/x402/packages/gw-escrow/src/reasons.js
var SEND_AGAIN = [
  "settlement_pending",
  "payment_in_use",
  "unexpected_settle_error",
  "unexpected_verify_error",
  "service_unavailable",
  "service_paused"
];

export {
  namespaceOf,
  account,
  assetId,
  amount,
  SCHEME,
  readRequirement,
  SEND_AGAIN
};
