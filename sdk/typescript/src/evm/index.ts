/**
 * Paying from EVM chains: a browser's wallet by EIP-1193, or a key such as viem's accounts and a node. Neither viem nor another
 * library is needed.
 *
 * @module
 */
import { hexWord, wordAt } from '../abi.js';
import { hex, unhex } from '../bytes.js';
import { splitAsset, evmAddress } from '../caip.js';
import { claimableCall } from '../escrow-abi.js';
import { ask, httpProvider } from './rpc.js';
import type { Eip1193Provider } from './rpc.js';

export { evmWallet } from './wallet.js';
export type { EvmAccount, EvmWalletOptions } from './wallet.js';
export { rebuild as rebuildMessages, rebuildPermit } from './messages.js';
export type { Rebuilt } from './messages.js';
export type { Deposit } from '../deposit.js';
export { BATCH_IMPLEMENTATION, batchAddress, batchOf, batchPermit, giveBackBatchCall, PAYMENT_BATCHES, paymentLeaf, paymentRoot, rebuildBatch } from './batches.js';
export type { Batch, BatchPermit } from './batches.js';
export {
  allowMandateCall,
  cancelMandateCall,
  chargeMessage,
  giveBackMandateCall,
  MANDATE_IMPLEMENTATION,
  mandateAddress,
  mandateCancellation,
  mandateOf,
  mandatePermit,
  MANDATES,
  rebuildCharge,
  rebuildMandate,
} from './mandates.js';
export type { Charge, MandatePermit, OnChainMandate, Signable } from './mandates.js';
export { ADDRESS_IMPLEMENTATION, addressOf, checkAddress, DEPOSIT_ADDRESSES, giveBackCall, openAddress } from './addresses.js';
export type { AddressedPayment, AddressOptions, AddressTerms, CheckedAddress, CheckOptions, OpenedAddress, PlacedTerms } from '../addresses.js';
export type { ContractCall } from '../create2.js';
export type { Permit } from '../permit2.js';
export type { Allowance, Authorization } from './tokens.js';
export type { AllowanceData, AuthorizationData, BatchData, CancellationData, ChargeData, GrantData, TransferData, TypedData } from '../typed.js';
export { httpProvider } from './rpc.js';
export type { Eip1193Provider } from './rpc.js';

/** How much waits in the escrow for `owner` as a claim, in the smallest unit of the token. */
export async function claimable(
  node: string | Eip1193Provider,
  { escrow, token, owner }: { escrow: string; token: string; owner: string },
): Promise<bigint> {
  const provider = typeof node === 'string' ? httpProvider(node) : node;
  const address = token.includes('/') ? splitAsset(token).token : token;
  const data = claimableCall(hexWord(evmAddress(owner, 'owner')), hexWord(evmAddress(address, 'token')));
  const answer = await ask(provider, 'eth_call', [{ to: evmAddress(escrow, 'escrow'), data: hex(data) }, 'latest']);
  return wordAt(unhex(answer) ?? new Uint8Array(), 0);
}
