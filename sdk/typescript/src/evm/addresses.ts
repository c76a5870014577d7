// Deposit addresses on EVM chains.

import { checkBy, openBy } from '../addresses.js';
import type {
  AddressedPayment,
  AddressFamily,
  AddressOptions,
  AddressTerms,
  CheckedAddress,
  CheckOptions,
  OpenedAddress,
} from '../addresses.js';
import { hex, unhex } from '../bytes.js';
import { evmAddress } from '../caip.js';
import { giveBackBy, proxyAddress } from '../create2.js';
import type { ContractCall, ProxyRules } from '../create2.js';
import type { Gateway } from '../gateway.js';
import type { Order, Spend } from '../types.js';

/**
 * The contract that makes deposit addresses and alone moves what is there. It is at one address on every chain, which follows from its
 * code alone; another one may do anything with what comes to its addresses, so none is taken from the gateway.
 */
export const DEPOSIT_ADDRESSES = '0x576dcf99e0a83e4fbbdf246e5a306a8677105d57';
/** What each of its addresses runs. */
export const ADDRESS_IMPLEMENTATION = '0xbebda21c3d5a3f2efe05c1a55bf007232ddf6369';

/** How EVM chains make proxies. */
export const PROXIES: ProxyRules = {
  // EIP-1014.
  prefix: 0xff,
  implementation: () => unhex(ADDRESS_IMPLEMENTATION)!,
  bytes: (account, field) => unhex(evmAddress(account, field))!,
  text: hex,
};

const EVM: AddressFamily = {
  family: 'evm',
  namespace: 'erc20',
  chain: 'an EVM chain',
  factoryOf: () => DEPOSIT_ADDRESSES,
  bytes: PROXIES.bytes,
  addressOf: (terms) => proxyAddress(PROXIES, terms),
  // Addresses, hashes and links have no case.
  normalized: (member) => member.toLowerCase(),
  uri: ({ token, reference, address, amount }) => `ethereum:${token}@${reference}/transfer?address=${address}&uint256=${amount}`,
};

/** The address of these terms (EIP-1014), whether its code is made or not. */
export const addressOf = (terms: AddressTerms): string => EVM.addressOf({ ...terms, factory: DEPOSIT_ADDRESSES });

/**
 * The call by which anyone has sent to the refund account what is at the address: all of `token`, or of the chain's coin by the zero
 * address. Of the terms' own token that is possible once no deposit can be made any more: after `reserveDeadline`, or when the payment
 * has been deposited.
 */
export function giveBackCall(terms: AddressTerms, token = terms.token): ContractCall {
  return giveBackBy(PROXIES, { ...terms, factory: DEPOSIT_ADDRESSES }, token);
}

/**
 * The address that a gateway gave, where it is that of the payer's own order and money can be sent there now. Every member is
 * compared; of what the gateway says only the windows are taken, which are bounded, and up to when it waits.
 *
 * @param spend Of `addressSpend`.
 * @param options.payBy What was asked for, where it was.
 * @throws {VerificationError} where money that is sent there could end elsewhere than it should; `field` names the member.
 * @throws {StaleAddress} where it is, but was given before: the payment is not pending, its time is over or ends within 5 seconds, or is
 *   another than was asked for.
 */
export function checkAddress(spend: Spend, payment: AddressedPayment, options: CheckOptions = {}): CheckedAddress {
  return checkBy(EVM, spend, payment, options);
}

/**
 * Opens a payment by deposit address: a quote-request, its address, and the comparison. `order.source.account` is the refund account:
 * one of the payer's own that can receive the token, never one of an exchange. Nothing is signed and nothing sent; once `amount` is at
 * the address, the payment goes on by itself, as `gateway.wait` or `watch` tell.
 *
 * With the `requestId` of an earlier try, and its `callerSecret` where it had one, it is the same payment: keep both before the call.
 *
 * @throws {VerificationError} where the gateway gives another address than the order's.
 * @throws {StaleAddress} where the address is the order's, but was given before, and nothing may be sent there any more; its
 *   `paymentId` says how that payment stands.
 */
export function openAddress(gateway: Gateway, order: Order, options: AddressOptions = {}): Promise<OpenedAddress> {
  return openBy(EVM, gateway, order, options);
}
