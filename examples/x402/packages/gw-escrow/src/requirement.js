import { account, amount, assetId, namespaceOf, seconds } from "./chains.js";
import { GwEscrowError } from "./errors.js";

/** Name of the scheme. */
export const SCHEME = "gw-escrow";

/**
 * A requirement of a 402 as it was understood. Accounts and assets have their normal form.
 *
 * @typedef {object} Requirement
 * @property {string} network Where the buyer pays.
 * @property {string} asset What it pays with, as CAIP-19.
 * @property {bigint} amount The most that is taken from it.
 * @property {{ network: string, asset: string, address: string }} destination Where the merchant is paid.
 * @property {bigint} fulfillmentAmount What the merchant receives.
 * @property {string} escrow Empty when the shop names none; likewise the others.
 * @property {string} fulfillmentProxy
 * @property {string} reserver
 * @property {string} releaser
 * @property {string} fulfillmentVerifierEndpoint
 * @property {string} svmCluster Cluster id of the signing domain, of Solana sources.
 * @property {number} quoteSeconds Longest auction.
 * @property {number} fulfillmentSeconds Longest wait for the delivery, counted from the same moment.
 */

/** What counts where a shop sets no deadline. */
const QUOTE_SECONDS = 5;
const FULFILLMENT_SECONDS = 300;

/**
 * Reads one entry of `accepts`. Whoever wrote it is not trusted: what is not understood is refused.
 *
 * @param {import("./x402.js").PaymentRequirements} requirement
 * @returns {Requirement}
 */
export function readRequirement(requirement) {
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
      address: account(destinationNetwork, to.address, "extra.gw.destination.address"),
    },
    fulfillmentAmount: amount(gw.fulfillmentAmount, "extra.gw.fulfillmentAmount"),
    escrow: optionalAccount(network, gw.escrow, "extra.gw.escrow"),
    fulfillmentProxy: optionalAccount(destinationNetwork, gw.fulfillmentProxy, "extra.gw.fulfillmentProxy"),
    reserver: optionalAccount(network, gw.reserver, "extra.gw.reserver"),
    releaser: optionalAccount(network, gw.releaser, "extra.gw.releaser"),
    fulfillmentVerifierEndpoint: optionalText(gw.fulfillmentVerifierEndpoint, "extra.gw.fulfillmentVerifierEndpoint"),
    svmCluster: network.startsWith("solana:")
      ? optionalText(gw.svmSignatureClusterId, "extra.gw.svmSignatureClusterId")
      : "",
    quoteSeconds: optionalSeconds(gw.quoteDeadlineSeconds, "extra.gw.quoteDeadlineSeconds") ?? QUOTE_SECONDS,
    fulfillmentSeconds:
      optionalSeconds(gw.fulfillmentDeadlineSeconds, "extra.gw.fulfillmentDeadlineSeconds") ?? FULFILLMENT_SECONDS,
  };
  if (understood.fulfillmentSeconds <= understood.quoteSeconds) {
    throw new GwEscrowError("requirement", "extra.gw.fulfillmentDeadlineSeconds does not follow quoteDeadlineSeconds");
  }
  checkPayTo(requirement.payTo, understood);
  return understood;
}

/**
 * `payTo` is what other software shows a person, so it has to be who is paid.
 *
 * @param {unknown} payTo
 * @param {Requirement} requirement
 */
function checkPayTo(payTo, { network, destination, escrow }) {
  const is = (/** @type {string} */ chain, /** @type {string} */ expected) => {
    try {
      return account(chain, payTo, "payTo") === expected;
    } catch {
      return false;
    }
  };
  if (is(destination.network, destination.address) || (escrow !== "" && is(network, escrow))) return;
  throw new GwEscrowError("requirement", `payTo is neither extra.gw.destination.address nor the escrow: ${payTo}`);
}

/** @param {unknown} value @param {string} field @returns {Record<string, unknown>} */
function object(value, field) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new GwEscrowError("requirement", `${field} is missing`);
  }
  return /** @type {Record<string, unknown>} */ (value);
}

/** @param {unknown} value @param {string} field @returns {string} */
function text(value, field) {
  if (typeof value !== "string" || value === "") throw new GwEscrowError("requirement", `${field} is missing`);
  return value;
}

/** @param {unknown} value @param {string} field @returns {string} */
function optionalText(value, field) {
  return value === undefined || value === "" ? "" : text(value, field);
}

/** @param {string} network @param {unknown} value @param {string} field @returns {string} */
function optionalAccount(network, value, field) {
  return value === undefined || value === "" ? "" : account(network, value, field);
}

/** @param {unknown} value @param {string} field @returns {number | undefined} */
function optionalSeconds(value, field) {
  return value === undefined || value === "" ? undefined : seconds(value, field);
}
