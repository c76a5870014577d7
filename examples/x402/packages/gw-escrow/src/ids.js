import { base32nopad } from "@scure/base";
import { concat, keccak256, numberToHex, sha256, stringToHex } from "viem/utils";

/**
 * @typedef {`0x${string}`} Hex
 * @typedef {{ asset_identifier: string, account: string }} OwnedAsset
 * @typedef {object} Terms The economics of a payment, every value in its normal form.
 * @property {OwnedAsset} source
 * @property {OwnedAsset[]} destination
 * @property {string} fulfillment_amount
 * @property {string} [max_source_amount]
 */

/**
 * The id of the payment that `originator` asks for under `requestId`. It is a function of the two, so the same
 * request is the same payment wherever it arrives.
 *
 * @param {string} originator For an account without a DID `eip155:` and the lower-case address.
 * @param {string} requestId
 * @returns {string}
 */
export function paymentId(originator, requestId) {
  const parts = ["gw:payment:v1", originator, requestId].flatMap((part) => {
    const bytes = stringToHex(part);
    return [numberToHex((bytes.length - 2) / 2, { size: 8 }), bytes];
  });
  return `pay_${base32nopad.encode(sha256(concat(parts), "bytes")).toLowerCase()}`;
}

/**
 * The payment as the contracts know it.
 *
 * @param {string} id
 * @returns {Hex}
 */
export function onChainId(id) {
  return keccak256(stringToHex(id));
}

/**
 * SHA-256 of the RFC 8785 form of the terms. They hold strings only, for which JSON.stringify writes that form.
 *
 * @param {Terms} terms
 * @returns {Hex}
 */
export function termsHash({ source, destination, fulfillment_amount, max_source_amount }) {
  /** @param {OwnedAsset} entry */
  const owned = ({ account, asset_identifier }) => ({ account, asset_identifier });
  const sorted = destination
    .map(owned)
    .sort((a, b) => compare(a.asset_identifier, b.asset_identifier) || compare(a.account, b.account));
  const canonical = {
    destination: sorted,
    fulfillment_amount,
    ...(max_source_amount === undefined ? {} : { max_source_amount }),
    source: owned(source),
  };
  return sha256(stringToHex(JSON.stringify(canonical)));
}

/** @param {string} a @param {string} b */
function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
