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
export function paymentId(originator: string, requestId: string): string;
/**
 * The payment as the contracts know it.
 *
 * @param {string} id
 * @returns {Hex}
 */
export function onChainId(id: string): Hex;
/**
 * SHA-256 of the RFC 8785 form of the terms. They hold strings only, for which JSON.stringify writes that form.
 *
 * @param {Terms} terms
 * @returns {Hex}
 */
export function termsHash({ source, destination, fulfillment_amount, max_source_amount }: Terms): Hex;
export type Hex = `0x${string}`;
export type OwnedAsset = {
    asset_identifier: string;
    account: string;
};
/**
 * The economics of a payment, every value in its normal form.
 */
export type Terms = {
    source: OwnedAsset;
    destination: OwnedAsset[];
    fulfillment_amount: string;
    max_source_amount?: string | undefined;
};
