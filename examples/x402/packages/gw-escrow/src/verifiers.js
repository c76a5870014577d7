import { base58 } from "@scure/base";
import { concat, keccak256, sha256, stringToHex, toHex } from "viem/utils";

import { account, namespaceOf } from "./chains.js";
import { GwEscrowError } from "./errors.js";

/** What begins the hashed bytes: the name of the form, and its version. */
const DOMAIN = stringToHex("gw-verifier-set\x01");
const MEMBERS_MAX = 16;

/**
 * Who attests deliveries, as a gateway shows it. An older one shows neither threshold nor members.
 *
 * @typedef {object} Verifiers
 * @property {string} account
 * @property {string} endpoint
 * @property {number} [threshold] How many of the members have to attest.
 * @property {{ account: string, endpoint: string }[]} [members]
 */

/**
 * The releaser that stands for verifiers in an escrow: the account of one that is the only one, and of several a hash of
 * threshold and members, in whatever order they come.
 *
 * @param {string} network CAIP-2.
 * @param {number} threshold
 * @param {string[]} accounts
 * @returns {string}
 */
export function releaserOf(network, threshold, accounts) {
  const isEvm = namespaceOf(network, "network") === "eip155";
  const members = accounts.map((member) => account(network, member, "a verifier"));
  const bytes = members.map((member) => (isEvm ? /** @type {`0x${string}`} */ (member) : keyOf(member))).sort();
  const isSet = bytes.length >= 1 && bytes.length <= MEMBERS_MAX && new Set(bytes).size === bytes.length;
  if (!isSet || !Number.isInteger(threshold) || threshold < 1 || threshold > bytes.length) {
    throw new GwEscrowError("untrusted", `${threshold} of ${bytes.length} verifiers on ${network} are no set`);
  }
  if (members.length === 1) return members[0];
  const preimage = concat([DOMAIN, toHex(Uint8Array.of(threshold, bytes.length)), ...bytes]);
  return isEvm ? `0x${keccak256(preimage).slice(-40)}` : base58.encode(sha256(preimage, "bytes"));
}

/** @param {string} member @returns {`0x${string}`} */
function keyOf(member) {
  const bytes = base58.decode(member);
  if (bytes.length !== 32) throw new GwEscrowError("untrusted", `a verifier is not a key of Solana: ${member}`);
  return toHex(bytes);
}

/** @param {string} network @param {string} shown @returns {string} */
function normal(network, shown) {
  try {
    return account(network, shown, "the verifier");
  } catch (cause) {
    throw new GwEscrowError("untrusted", `the gateway shows a verifier that cannot be: ${cause}`, { cause });
  }
}

/**
 * Whether the verifiers that the gateway shows are whom the releaser stands for.
 *
 * @param {string} network CAIP-2.
 * @param {string} releaser What is going to be signed for.
 * @param {Verifiers} shown
 */
export function checkVerifiers(network, releaser, { account: named, threshold, members }) {
  if (named && normal(network, named) !== releaser) {
    throw new GwEscrowError("untrusted", `the releaser is ${releaser}, and the gateway shows ${named} as its verifier`);
  }
  if (threshold === undefined && members === undefined) return;
  let stands;
  try {
    const accounts = /** @type {{ account: string }[]} */ (members).map((member) => member.account);
    stands = releaserOf(network, /** @type {number} */ (threshold), accounts);
  } catch (cause) {
    throw new GwEscrowError("untrusted", `the gateway shows verifiers that cannot be: ${cause}`, { cause });
  }
  if (stands !== releaser) {
    throw new GwEscrowError("untrusted", `the releaser is ${releaser}, and not ${stands}, that of the verifiers shown`);
  }
}

/**
 * The origins at which the verifiers can be asked, any of which a shop may name.
 *
 * @param {Verifiers} shown
 * @returns {string[]}
 */
export function endpointsOf({ endpoint, members }) {
  const named = Array.isArray(members) ? members.map((member) => member?.endpoint) : [];
  return [endpoint, ...named.filter((one) => typeof one === "string")];
}
