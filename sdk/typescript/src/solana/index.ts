/**
 * Paying from Solana: a wallet of Wallet Standard, or a keypair; and a node. Neither `@solana/kit` nor `@solana/web3.js` is needed.
 *
 * @module
 */
export { solanaKeypair, solanaWallet, standardSigner } from './wallet.js';
export type { SolanaSigner, SolanaWalletOptions, StandardWallet } from './wallet.js';
export { rebuild as rebuildDeposit } from './message.js';
export type { Deposit } from './message.js';
export { httpRpc } from './rpc.js';
export type { SolanaRpc } from './rpc.js';
