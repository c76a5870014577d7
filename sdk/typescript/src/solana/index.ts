/**
 * Paying from Solana: a wallet of Wallet Standard, or a keypair; and a node. Neither `@solana/kit` nor `@solana/web3.js` is needed.
 *
 * @module
 */
export { solanaKeypair, solanaWallet, standardSigner } from './wallet.js';
export type { SolanaSigner, SolanaWalletOptions, StandardWallet } from './wallet.js';
export { rebuild as rebuildDeposit } from './message.js';
export type { Deposit } from './message.js';
export { addressOf, checkAddress, giveBackCall, giveBackLamportsCall, openAddress } from './addresses.js';
export type { GiveBackOptions, ProgramCall } from './addresses.js';
export type { AddressedPayment, AddressOptions, AddressTerms, CheckedAddress, CheckOptions, OpenedAddress, PlacedTerms } from '../addresses.js';
export type { Deposit as CommittedDeposit } from '../deposit.js';
export { httpRpc } from './rpc.js';
export type { SolanaRpc } from './rpc.js';
