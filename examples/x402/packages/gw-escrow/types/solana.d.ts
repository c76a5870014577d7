/**
 * A payer on Solana. It signs the terms of a deposit; the tokens are moved by the allowance that it gave the
 * gateway's program.
 *
 * @param {{ address: string, signMessage: (message: Uint8Array) => Promise<Uint8Array> }} signer Base58 address, and
 *   an Ed25519 signature over the message as it is.
 * @returns {import("./evm.js").Payer}
 */
export function solanaPayer({ address, signMessage }: {
    address: string;
    signMessage: (message: Uint8Array) => Promise<Uint8Array>;
}): import("./evm.js").Payer;
/**
 * What is hashed and signed, made from the order alone.
 *
 * @param {import("./evm.js").Order} order
 * @param {string} payer
 * @returns {Uint8Array}
 */
export function deposit(order: import("./evm.js").Order, payer: string): Uint8Array;
