import { base58 } from "@scure/base";
import { concatBytes, hexToBytes, numberToBytes, sha256, stringToBytes, toHex } from "viem/utils";

import { GwEscrowError } from "./errors.js";
import { onChainId } from "./ids.js";

/** The version of the signing domain that is signed here. */
const DOMAIN_VERSION = 1;
/** A deposit, among the messages of the domain. */
const DEPOSIT = 0;
/** Characters of the genesis hash in a CAIP-2 id. */
const REFERENCE_CHARS = 32;

/**
 * A payer on Solana. It signs the terms of a deposit; the tokens are moved by the allowance that it gave the
 * gateway's program.
 *
 * @param {{ address: string, signMessage: (message: Uint8Array) => Promise<Uint8Array> }} signer Base58 address, and
 *   an Ed25519 signature over the message as it is.
 * @returns {import("./evm.js").Payer}
 */
export function solanaPayer({ address, signMessage }) {
  key(address, "the payer's address");
  return {
    namespace: "solana",
    account: address,
    originator: `solana:${address}`,
    async authorize(order) {
      const preimage = deposit(order, address);
      const digest = sha256(preimage, "bytes");
      const signature = await signMessage(digest);
      return {
        message_scheme: "SOLANA",
        signed_messages: [{ message: toHex(digest), message_prehash: toHex(preimage), signature: toHex(signature) }],
      };
    },
  };
}

/**
 * What is hashed and signed, made from the order alone.
 *
 * @param {import("./evm.js").Order} order
 * @param {string} payer
 * @returns {Uint8Array}
 */
export function deposit(order, payer) {
  const { signature_cluster_id: cluster, signature_domain_version: version } = order.corridor;
  if (version !== DOMAIN_VERSION) {
    throw new GwEscrowError("unsupported", `the signing domain on ${order.network} has version ${version}`);
  }
  // A signature for another cluster would count there.
  if (typeof cluster !== "string" || order.network !== `solana:${cluster.slice(0, REFERENCE_CHARS)}`) {
    throw new GwEscrowError("untrusted", `signature_cluster_id is ${cluster}, which is not ${order.network}`);
  }
  const [prefix, mint] = order.asset.split("/token:");
  if (!mint || prefix !== order.network) {
    throw new GwEscrowError("unsupported", `asset is not a token that the program can move: ${order.asset}`);
  }
  return concatBytes([
    stringToBytes("gw-escrow"),
    Uint8Array.of(DOMAIN_VERSION),
    key(cluster, "signature_cluster_id"),
    key(order.escrow, "escrow"),
    Uint8Array.of(DEPOSIT),
    hexToBytes(onChainId(order.paymentId)),
    hexToBytes(order.termsHash),
    new Uint8Array(32),
    key(payer, "payer"),
    key(mint, "asset"),
    u64(order.amount, "amount"),
    key(order.reserver, "reserver"),
    key(order.releaser, "releaser"),
    u64(BigInt(order.fulfillmentDeadline), "reserve deadline"),
    u64(BigInt(order.fulfillmentDeadline), "fulfillment deadline"),
    u64(BigInt(order.refundAfter), "refund"),
  ]);
}

/** @param {string} text @param {string} field */
function key(text, field) {
  /** @type {Uint8Array} */
  let bytes = new Uint8Array();
  try {
    bytes = base58.decode(text);
  } catch {
    // Refused below, as a key of another length is.
  }
  if (bytes.length !== 32) throw new GwEscrowError("requirement", `${field} is not a key of Solana: ${text}`);
  return bytes;
}

/** @param {bigint} value @param {string} field */
function u64(value, field) {
  if (value >= 1n << 64n) throw new GwEscrowError("requirement", `${field} is more than Solana can count: ${value}`);
  return numberToBytes(value, { size: 8 }).reverse();
}
