// Deposit addresses on Tron.

import { checkBy, openBy } from '../addresses.js';
import type {
  AddressedPayment,
  AddressFamily,
  AddressOptions,
  CheckedAddress,
  CheckOptions,
  OpenedAddress,
  PlacedTerms,
} from '../addresses.js';
import { unhex } from '../bytes.js';
import { tronAddress, tronText } from '../caip.js';
import { create2, giveBackBy, proxyAddress } from '../create2.js';
import type { ContractCall, ProxyRules } from '../create2.js';
import type { Gateway } from '../gateway.js';
import type { Order, Spend } from '../types.js';

/** The first byte of what CREATE2 hashes, with which addresses of Tron begin, too. */
const PREFIX = 0x41;
/** Of the code that makes what each address runs: keccak-256 of `DepositAddress`'s creation code. */
const CREATION_HASH = unhex('0x919b03039e89ffbd64629d45685300dc7d0333c7d1b16720b2fd5347d79c83e5')!;

const PROXIES: ProxyRules = {
  prefix: PREFIX,
  implementation: (factory) => create2(PREFIX, factory, new Uint8Array(32), CREATION_HASH),
  bytes: tronAddress,
  text: tronText,
};

const TRON: AddressFamily = {
  family: 'tron',
  namespace: 'trc20',
  chain: 'Tron',
  factoryOf: ({ depositAddressFactory }) => depositAddressFactory,
  bytes: tronAddress,
  addressOf: (terms) => proxyAddress(PROXIES, terms),
  // Base58 has both cases of a letter, and each is another digit.
  normalized: (member) => member,
  uri: ({ address }) => `tron:${address}`,
};

/**
 * The address of these terms, whether its code is made or not. Nothing deploys a contract at the same place on every network of Tron,
 * so the factory is one of them.
 */
export const addressOf = (terms: PlacedTerms): string => TRON.addressOf(terms);

/**
 * The call by which anyone has sent to the refund account what is at the address: all of `token`, or of TRX by the address of twenty
 * zeros, `T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb`. Of the terms' own token that is possible once no deposit can be made any more: after
 * `reserveDeadline`, or when the payment has been deposited.
 */
export function giveBackCall(terms: PlacedTerms, token = terms.token): ContractCall {
  return giveBackBy(PROXIES, terms, token);
}

/**
 * The address that a gateway gave, where it is that of the payer's own order and money can be sent there now. Every member is
 * compared; of what the gateway says only the windows are taken, which are bounded, and up to when it waits.
 *
 * The factory is the one that `trust.depositAddressFactory` of the spend pins. Where nothing does, it is whatever contract the gateway
 * names, and one of its own may do anything with what comes to its addresses.
 *
 * @param spend Of `addressSpend`.
 * @param options.payBy What was asked for, where it was.
 * @throws {VerificationError} where money that is sent there could end elsewhere than it should; `field` names the member.
 * @throws {StaleAddress} where it is, but was given before: the payment is not pending, its time is over or ends within 5 seconds, or is
 *   another than was asked for.
 */
export function checkAddress(spend: Spend, payment: AddressedPayment, options: CheckOptions = {}): CheckedAddress {
  return checkBy(TRON, spend, payment, options);
}

/**
 * Opens a payment by deposit address: a quote-request, its address, and the comparison. `order.source.account` is the refund account:
 * one of the payer's own that can receive the token, never one of an exchange. Nothing is signed and nothing sent; once `amount` is at
 * the address, the payment goes on by itself, as `gateway.wait` or `watch` tell.
 *
 * With the `requestId` of an earlier try, and its `callerSecret` where it had one, it is the same payment: keep both before the call.
 * Pin the factory, `trust.depositAddressFactory`; where it is not, `believed` lists the one that the gateway names.
 *
 * @throws {VerificationError} where the gateway gives another address than the order's.
 * @throws {StaleAddress} where the address is the order's, but was given before, and nothing may be sent there any more; its
 *   `paymentId` says how that payment stands.
 */
export function openAddress(gateway: Gateway, order: Order, options: AddressOptions = {}): Promise<OpenedAddress> {
  return openBy(TRON, gateway, order, options);
}
