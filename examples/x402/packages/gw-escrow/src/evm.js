import { concat, hashTypedData, keccak256 } from "viem/utils";

import { GwEscrowError } from "./errors.js";
import { onChainId } from "./ids.js";
import { allowance, authorization, payloadOf, tokenOf } from "./tokens.js";

/** Where Uniswap's Permit2 is on every chain. */
export const PERMIT2 = "0x000000000022d473030f116ddee9f6b43ac78ba3";
const BY_PERMIT2 = "EVM_PERMIT2_ESCROW";
/** The scheme of tokens that move by a signature. */
export const BY_TOKEN = "EVM_EIP3009";

const TYPES = /** @type {const} */ ({
  EIP712Domain: [
    { name: "name", type: "string" },
    { name: "chainId", type: "uint256" },
    { name: "verifyingContract", type: "address" },
  ],
  TokenPermissions: [
    { name: "token", type: "address" },
    { name: "amount", type: "uint256" },
  ],
  GatewayDeposit: [
    { name: "paymentId", type: "bytes32" },
    { name: "termsHash", type: "bytes32" },
    { name: "quoteHash", type: "bytes32" },
    { name: "payer", type: "address" },
    { name: "reserver", type: "address" },
    { name: "releaser", type: "address" },
    { name: "reserveDeadline", type: "uint48" },
    { name: "fulfillmentDeadline", type: "uint48" },
    { name: "refundAfter", type: "uint48" },
  ],
  PermitWitnessTransferFrom: [
    { name: "permitted", type: "TokenPermissions" },
    { name: "spender", type: "address" },
    { name: "nonce", type: "uint256" },
    { name: "deadline", type: "uint256" },
    { name: "witness", type: "GatewayDeposit" },
  ],
});

/**
 * What is about to be authorized: everything is the buyer's own reading of the requirement and of the gateway it
 * trusts.
 *
 * @typedef {object} Order
 * @property {string} paymentId
 * @property {import("./ids.js").Hex} termsHash
 * @property {string} network
 * @property {string} asset CAIP-19 id.
 * @property {bigint} amount The most that may be taken.
 * @property {string} escrow
 * @property {string} reserver
 * @property {string} releaser
 * @property {number} fulfillmentDeadline UNIX seconds.
 * @property {number} refundAfter UNIX seconds: from then on anyone may send the money back to the payer.
 * @property {import("./ids.js").Terms} terms What `termsHash` is of.
 * @property {import("./gateway.js").Corridor} corridor All that the buyer's gateway says about the network: other
 *   families sign more of it.
 * @property {() => Promise<import("./gateway.js").Prepared | undefined>} [prepared] What the buyer's gateway would have
 *   signed, where it takes signatures for tokens: by it is known which ones a token takes. Nothing of it is signed.
 *
 * @typedef {object} SenderAuth Spec 2.3.
 * @property {string} message_scheme
 * @property {{ message: string, message_prehash?: string, payload?: object, signature: string }[]} signed_messages
 *
 * @typedef {object} Signer An account that signs EIP-712 typed data.
 * @property {string} address
 * @property {(typedData: any) => Promise<string>} signTypedData
 *
 * @typedef {object} Payer Who pays on the chains of one namespace. Another namespace is another implementation of
 *   this.
 * @property {string} namespace CAIP-2 namespace.
 * @property {string} account In its normal form.
 * @property {string} originator Who asks for the payment, as payment ids are made of it.
 * @property {(order: Order) => Promise<SenderAuth>} authorize Signs for exactly this order.
 */

/**
 * A payer on EVM chains, for which it signs the token's own transfer into the escrow where the token takes such signatures
 * (ERC-3009), else Permit2's witness transfer; before that Permit2's allowance, where it lacks one and the token takes
 * signatures for it (ERC-2612).
 *
 * @param {Signer} signer For example viem's `privateKeyToAccount(…)`. For a token that takes no signatures it must have
 *   approved Permit2.
 * @param {{ permit2?: string }} [options] `permit2`: where Permit2 is, on a chain that has it elsewhere.
 * @returns {Payer}
 */
export function evmPayer(signer, { permit2 = PERMIT2 } = {}) {
  const account = signer.address.toLowerCase();
  return {
    namespace: "eip155",
    account,
    originator: `eip155:${account}`,
    async authorize(order) {
      const { message_scheme, messages } = await messagesFor(order, account, permit2);
      const signed_messages = [];
      for (const { typedData, ...message } of messages) {
        signed_messages.push({ ...message, signature: await signer.signTypedData(typedData) });
      }
      return { message_scheme, signed_messages };
    },
  };
}

/**
 * A message that is to be signed.
 *
 * @typedef {object} Message
 * @property {any} typedData
 * @property {string} message Its digest.
 * @property {string} message_prehash The typed data as text.
 * @property {object} [payload] What is told beside the signature.
 */

/**
 * All that is signed for an order, in its order.
 *
 * @param {Order} order
 * @param {string} payer
 * @param {string} permit2
 * @returns {Promise<{ message_scheme: string, messages: Message[] }>}
 */
export async function messagesFor(order, payer, permit2) {
  const transfer = deposit(order, payer, permit2);
  const prepared = await order.prepared?.();
  const [first, ...others] = prepared?.signed_messages ?? [];
  if (prepared?.message_scheme === BY_TOKEN) {
    const own = authorization(transfer, tokenOf(first?.message_prehash));
    return { message_scheme: BY_TOKEN, messages: [{ ...unsigned(own), payload: payloadOf(transfer) }] };
  }
  const messages = [unsigned(transfer)];
  if (others.length) messages.unshift(unsigned(allowance(transfer, tokenOf(first?.message_prehash))));
  return { message_scheme: BY_PERMIT2, messages };
}

/**
 * @param {any} typedData
 * @returns {Message}
 */
function unsigned(typedData) {
  return { typedData, message: hashTypedData(typedData), message_prehash: toJson(typedData) };
}

/**
 * The typed data of a deposit by Permit2, made from the order alone: nothing that somebody else prepared is ever signed.
 *
 * @param {Order} order
 * @param {string} payer
 * @param {string} permit2
 */
export function deposit(order, payer, permit2) {
  const [, reference] = order.network.split(":");
  const [prefix, token] = order.asset.split("/erc20:");
  if (!token || prefix !== order.network) {
    throw new GwEscrowError("unsupported", `asset is not a token that Permit2 can move: ${order.asset}`);
  }
  const paymentId = onChainId(order.paymentId);
  return {
    domain: { name: "Permit2", chainId: Number(reference), verifyingContract: permit2 },
    types: TYPES,
    primaryType: "PermitWitnessTransferFrom",
    message: {
      permitted: { token, amount: order.amount },
      spender: order.escrow,
      nonce: nonce(paymentId, order.termsHash),
      deadline: BigInt(order.fulfillmentDeadline),
      witness: {
        paymentId,
        termsHash: order.termsHash,
        quoteHash: `0x${"00".repeat(32)}`,
        payer,
        reserver: order.reserver,
        releaser: order.releaser,
        reserveDeadline: order.fulfillmentDeadline,
        fulfillmentDeadline: order.fulfillmentDeadline,
        refundAfter: order.refundAfter,
      },
    },
  };
}

/**
 * Permit2's nonce of a payment, which binds the terms and can be used once.
 *
 * @param {import("./ids.js").Hex} paymentId
 * @param {import("./ids.js").Hex} termsHash
 * @returns {bigint}
 */
function nonce(paymentId, termsHash) {
  return BigInt(keccak256(concat([paymentId, termsHash])));
}

/**
 * The typed data as wallets and the gateway read it: whole numbers as decimal strings.
 *
 * @param {object} typedData
 */
export function toJson(typedData) {
  return JSON.stringify(typedData, (name, value) =>
    typeof value === "bigint" || (typeof value === "number" && name !== "chainId") ? String(value) : value,
  );
}
