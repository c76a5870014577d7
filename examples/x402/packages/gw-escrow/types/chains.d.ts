/**
 * The namespace of a CAIP-2 network.
 *
 * @param {unknown} network
 * @param {string} field Where it stands, for the error.
 * @returns {"eip155" | "solana"}
 */
export function namespaceOf(network: unknown, field: string): "eip155" | "solana";
/**
 * The normal form of an account: addresses that ignore case are lower case, the others are as they came.
 *
 * @param {string} network
 * @param {unknown} account
 * @param {string} field
 * @returns {string}
 */
export function account(network: string, account: unknown, field: string): string;
/**
 * The CAIP-19 id of an asset, in its normal form, from that or from its bare reference on `network`.
 *
 * @param {string} network
 * @param {unknown} asset
 * @param {string} field
 * @returns {string}
 */
export function assetId(network: string, asset: unknown, field: string): string;
/**
 * An amount in the smallest unit.
 *
 * @param {unknown} text
 * @param {string} field
 * @returns {bigint}
 */
export function amount(text: unknown, field: string): bigint;
/**
 * A duration in whole seconds.
 *
 * @param {unknown} value
 * @param {string} field
 * @returns {number}
 */
export function seconds(value: unknown, field: string): number;
