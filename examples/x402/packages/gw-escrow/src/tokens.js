// What is signed for a token itself: its transfer into the escrow (ERC-3009), or its allowance for Permit2 (ERC-2612). All but the
// token's own name, version and nonce is the buyer's.

import { concat, encodeAbiParameters, keccak256, stringToHex } from "viem/utils";

import { GwEscrowError } from "./errors.js";

/** Characters of the longest name and version that a token may have. */
const TEXT_MAX = 256;
/** Digits of the largest `uint256`. */
const DIGITS_MAX = 78;
/** An allowance that does not end: Permit2 draws nothing by it without a signature for each transfer. */
const ENDLESS = 2n ** 256n - 1n;

const DOMAIN = /** @type {const} */ ([
  { name: "name", type: "string" },
  { name: "version", type: "string" },
  { name: "chainId", type: "uint256" },
  { name: "verifyingContract", type: "address" },
]);
const AUTHORIZATION_TYPES = /** @type {const} */ ({
  EIP712Domain: DOMAIN,
  ReceiveWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
});
const ALLOWANCE_TYPES = /** @type {const} */ ({
  EIP712Domain: DOMAIN,
  Permit: [
    { name: "owner", type: "address" },
    { name: "spender", type: "address" },
    { name: "value", type: "uint256" },
    { name: "nonce", type: "uint256" },
    { name: "deadline", type: "uint256" },
  ],
});

/**
 * What a token says of itself, by the gateway's word: with another name, version or nonce than the token's a signature counts
 * nowhere.
 *
 * @typedef {object} Token
 * @property {string} name
 * @property {string} version
 * @property {bigint} nonce The next one of the payer's allowances; 0 where none is signed.
 */

/**
 * Reads it out of a message that the gateway prepared for the token. Nothing else of the message is used.
 *
 * @param {unknown} text The message's typed data.
 * @returns {Token}
 */
export function tokenOf(text) {
  const { domain, message } = parsed(text);
  const named = (/** @type {"name" | "version"} */ member) => {
    const value = domain?.[member];
    if (typeof value === "string" && value.length <= TEXT_MAX) return value;
    throw new GwEscrowError("gateway", `the gateway does not say the token's ${member}: ${String(value).slice(0, 100)}`);
  };
  const nonce = message?.nonce;
  // That of a transfer is a hash, and is made anew.
  const isNumber = typeof nonce === "string" && /^\d+$/.test(nonce) && nonce.length <= DIGITS_MAX;
  return { name: named("name"), version: named("version"), nonce: isNumber ? BigInt(nonce) : 0n };
}

/**
 * @param {unknown} text
 * @returns {any}
 */
function parsed(text) {
  try {
    return JSON.parse(String(text)) ?? {};
  } catch {
    return {};
  }
}

/**
 * The token's own transfer of the deposit into the escrow. Its nonce is the hash of what is agreed to.
 *
 * @param {ReturnType<typeof import("./evm.js").deposit>} transfer The same by Permit2.
 * @param {Token} token
 */
export function authorization({ domain, message }, { name, version }) {
  const { permitted, spender, witness } = message;
  return {
    domain: { name, version, chainId: domain.chainId, verifyingContract: permitted.token },
    types: AUTHORIZATION_TYPES,
    primaryType: /** @type {const} */ ("ReceiveWithAuthorization"),
    message: {
      from: witness.payer,
      to: spender,
      value: permitted.amount,
      validAfter: 0n,
      validBefore: BigInt(witness.reserveDeadline) + 1n,
      nonce: depositHash(witness),
    },
  };
}

/**
 * What the gateway is told beside the signature, which covers no more of it than a hash.
 *
 * @param {ReturnType<typeof import("./evm.js").deposit>} transfer
 */
export function payloadOf({ message: { witness } }) {
  const { reserveDeadline, fulfillmentDeadline, refundAfter } = witness;
  const times = { reserveDeadline, fulfillmentDeadline, refundAfter };
  const written = Object.fromEntries(Object.entries(times).map(([name, seconds]) => [name, String(seconds)]));
  return {
    reserve_deadline: reserveDeadline,
    refund_after: refundAfter,
    valid_before: reserveDeadline + 1,
    deposit: { ...witness, ...written },
  };
}

/**
 * The token's allowance for Permit2, without an end, given by the same time as the deposit.
 *
 * @param {ReturnType<typeof import("./evm.js").deposit>} transfer What Permit2 is going to move.
 * @param {Token} token
 */
export function allowance({ domain, message }, { name, version, nonce }) {
  return {
    domain: { name, version, chainId: domain.chainId, verifyingContract: message.permitted.token },
    types: ALLOWANCE_TYPES,
    primaryType: /** @type {const} */ ("Permit"),
    message: {
      owner: message.witness.payer,
      spender: domain.verifyingContract,
      value: ENDLESS,
      nonce,
      deadline: message.deadline,
    },
  };
}

/**
 * EIP-712's hash of a deposit, as the escrow takes it.
 *
 * @param {ReturnType<typeof import("./evm.js").deposit>["message"]["witness"]} witness
 */
export function depositHash(witness) {
  const type =
    "GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser," +
    "uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)";
  const hex = (/** @type {string} */ text) => /** @type {`0x${string}`} */ (text);
  const words = encodeAbiParameters(
    [
      ...Array.from({ length: 3 }, () => ({ type: "bytes32" })),
      ...Array.from({ length: 3 }, () => ({ type: "address" })),
      ...Array.from({ length: 3 }, () => ({ type: "uint48" })),
    ],
    [
      ...[witness.paymentId, witness.termsHash, witness.quoteHash, witness.payer, witness.reserver, witness.releaser].map(hex),
      ...[witness.reserveDeadline, witness.fulfillmentDeadline, witness.refundAfter],
    ],
  );
  return keccak256(concat([keccak256(stringToHex(type)), words]));
}
