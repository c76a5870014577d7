import {
  base58,
  concatBytes,
  hexToBytes,
  numberToBytes,
  onChainId,
  sha256,
  stringToBytes,
  toHex
} from "./shared-UDSO6T45.js";
import {
  GwEscrowError
} from "./shared-EJZXPSA6.js";

// examples/x402/packages/gw-escrow/src/solana.js
var DOMAIN_VERSION = 1;
var DEPOSIT = 0;
var REFERENCE_CHARS = 32;
function solanaPayer({ address, signMessage }) {
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
        signed_messages: [{ message: toHex(digest), message_prehash: toHex(preimage), signature: toHex(signature) }]
      };
    }
  };
}
function deposit(order, payer) {
  const { signature_cluster_id: cluster, signature_domain_version: version } = order.corridor;
  if (version !== DOMAIN_VERSION) {
    throw new GwEscrowError("unsupported", `the signing domain on ${order.network} has version ${version}`);
  }
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
    u64(BigInt(order.refundAfter), "refund")
  ]);
}
function key(text, field) {
  let bytes = new Uint8Array();
  try {
    bytes = base58.decode(text);
  } catch {
  }
  if (bytes.length !== 32) throw new GwEscrowError("requirement", `${field} is not a key of Solana: ${text}`);
  return bytes;
}
function u64(value, field) {
  if (value >= 1n << 64n) throw new GwEscrowError("requirement", `${field} is more than Solana can count: ${value}`);
  return numberToBytes(value, { size: 8 }).reverse();
}

export {
  solanaPayer,
  deposit
};
