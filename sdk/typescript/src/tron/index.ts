/**
 * Paying from Tron: a browser's wallet or tronweb, or a key and a node. tronweb itself is not needed.
 *
 * @module
 */
export { tronKey, tronWallet, typedDataSigner } from './wallet.js';
export type { TronSigner, TronWalletOptions, TronWebLike } from './wallet.js';
export { rebuild as rebuildMessages } from './messages.js';
export type { Rebuilt } from './messages.js';
export { rebuild as rebuildTransactions } from './deposit.js';
export { rebuildPermit } from './permit2.js';
export type { TronPermit } from './permit2.js';
export type { TronTransaction } from './transaction.js';
export { addressOf, checkAddress, giveBackCall, openAddress } from './addresses.js';
export type { AddressedPayment, AddressOptions, AddressTerms, CheckedAddress, CheckOptions, OpenedAddress, PlacedTerms } from '../addresses.js';
export type { ContractCall } from '../create2.js';
export type { Deposit } from '../deposit.js';
export type { TransferData } from '../typed.js';
export { httpNode } from './node.js';
export type { TronNode } from './node.js';
