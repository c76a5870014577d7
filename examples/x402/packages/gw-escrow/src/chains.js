import { GwEscrowError } from "./errors.js";

/** What is written `eip155:1/erc20:0x…` as a whole, and `0x…` where the network is said beside it. */
const BARE = { eip155: /^0x[0-9a-fA-F]{40}$/, solana: /^[1-9A-HJ-NP-Za-km-z]{32,44}$/ };
const TOKEN = { eip155: "erc20", solana: "token" };
const NETWORK = /^(eip155|solana):([A-Za-z0-9_-]{1,32})$/;
const ASSET = /^([a-z0-9]+:[A-Za-z0-9_-]+)\/([a-z0-9-]{3,8}):([-.%A-Za-z0-9]{1,128})$/;

/**
 * The namespace of a CAIP-2 network.
 *
 * @param {unknown} network
 * @param {string} field Where it stands, for the error.
 * @returns {"eip155" | "solana"}
 */
export function namespaceOf(network, field) {
  const match = typeof network === "string" ? NETWORK.exec(network) : null;
  if (!match) throw new GwEscrowError("requirement", `${field} is not a network that can be paid on: ${network}`);
  return /** @type {"eip155" | "solana"} */ (match[1]);
}

/**
 * The normal form of an account: addresses that ignore case are lower case, the others are as they came.
 *
 * @param {string} network
 * @param {unknown} account
 * @param {string} field
 * @returns {string}
 */
export function account(network, account, field) {
  const namespace = namespaceOf(network, field);
  if (typeof account !== "string" || !BARE[namespace].test(account)) {
    throw new GwEscrowError("requirement", `${field} is not an account on ${network}: ${account}`);
  }
  return namespace === "eip155" ? account.toLowerCase() : account;
}

/**
 * The CAIP-19 id of an asset, in its normal form, from that or from its bare reference on `network`.
 *
 * @param {string} network
 * @param {unknown} asset
 * @param {string} field
 * @returns {string}
 */
export function assetId(network, asset, field) {
  const namespace = namespaceOf(network, field);
  const lower = (/** @type {string} */ text) => (namespace === "eip155" ? text.toLowerCase() : text);
  if (typeof asset === "string" && BARE[namespace].test(asset)) return `${network}/${TOKEN[namespace]}:${lower(asset)}`;
  const match = typeof asset === "string" ? ASSET.exec(asset) : null;
  if (!match || match[1] !== network) {
    throw new GwEscrowError("requirement", `${field} is not an asset on ${network}: ${asset}`);
  }
  return `${network}/${match[2]}:${lower(match[3])}`;
}

/**
 * An amount in the smallest unit.
 *
 * @param {unknown} text
 * @param {string} field
 * @returns {bigint}
 */
export function amount(text, field) {
  if (typeof text !== "string" || !/^[1-9][0-9]{0,77}$/.test(text)) {
    throw new GwEscrowError("requirement", `${field} is not an amount in the smallest unit: ${text}`);
  }
  return BigInt(text);
}

/**
 * A duration in whole seconds.
 *
 * @param {unknown} value
 * @param {string} field
 * @returns {number}
 */
export function seconds(value, field) {
  if (!Number.isSafeInteger(value) || /** @type {number} */ (value) <= 0) {
    throw new GwEscrowError("requirement", `${field} is not a number of seconds: ${value}`);
  }
  return /** @type {number} */ (value);
}
