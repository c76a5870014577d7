// Deposit addresses: a payment that nobody signs for. Whoever sends its money to an address that commits to it has made the deposit;
// from there it goes into the escrow of this payment or back to the refund account, and nowhere else. So it is the address that is
// rebuilt from the payer's own order and compared, before money moves.

import { concatBytes, hex, unhex } from '../bytes.js';
import { evmAddress, splitAsset } from '../caip.js';
import { StaleAddress, UsageError, VerificationError } from '../errors.js';
import type { Gateway } from '../gateway.js';
import { addressSpend, believed, orderRequest } from '../spend.js';
import { rfc3339, unixSeconds } from '../time.js';
import type { Order, PaymentResponse, PaymentStatusRead, Spend, Trust } from '../types.js';
import { checkWindows } from '../windows.js';
import { callData, hexWord, keccak, word } from './abi.js';
import { depositOf } from './deposit.js';
import type { Deposit } from './deposit.js';

/**
 * The contract that makes deposit addresses and alone moves what is there. It is at one address on every chain, which follows from its
 * code alone; another one may do anything with what comes to its addresses, so none is taken from the gateway.
 */
export const DEPOSIT_ADDRESSES = '0x1c44e4980bf8e12120337b58f5e12a07b87e13d3';
/** What each of its addresses runs. */
export const ADDRESS_IMPLEMENTATION = '0xf320ffa75a1b37bdd5b54536539c5c920973706d';

/** The code that makes a minimal proxy (ERC-1167), before and behind the address of what it runs. */
const PROXY = ['3d602d80600a3d3981f3363d3d373d3d3d363d73', '5af43d82803e903d91602b57fd5bf3'] as const;
const TERMS = '(address,address,uint256,(bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48))';
const GIVE_BACK = `giveBack(${TERMS},address)`;
/** How long an exchange may take, where the order does not say: its fulfillment deadline from when it is opened. */
const FULFILLMENT_SECONDS = 3600;
/** What has to be left of `pay_by` at least: a transfer that is made now is not there sooner. */
const LEFT_SECONDS = 5;

/** All that an address commits to. */
export interface AddressTerms {
  escrow: string;
  token: string;
  /** The least that is deposited, in the token's smallest unit. */
  amount: bigint;
  deposit: Deposit;
}

/** An address that was held against the payer's own order. */
export interface CheckedAddress {
  /** Where to send the money, in lower case. */
  address: string;
  /** CAIP-2 id of the only chain on which it counts. */
  chainId: string;
  /** What to send. */
  token: string;
  /** How much at least, in the token's smallest unit, in one transfer or in several. */
  amount: bigint;
  /** What comes later goes back. */
  payBy: Date;
  /** The only account that money can go back to. */
  refundAccount: string;
  /** The transfer as a link for wallets and as the text of a QR code (EIP-681). */
  uri: string;
  /** Keep them: with them anyone can have sent back what comes too late, see {@link giveBackCall}. */
  terms: AddressTerms;
}

function termsWords({ escrow, token, amount, deposit }: AddressTerms): Uint8Array[] {
  const { paymentId, termsHash, quoteHash, payer, reserver, releaser } = deposit;
  const times = [deposit.reserveDeadline, deposit.fulfillmentDeadline, deposit.refundAfter];
  return [
    hexWord(escrow),
    hexWord(token),
    word(amount),
    ...[paymentId, termsHash, quoteHash, payer, reserver, releaser].map(hexWord),
    ...times.map((time) => word(BigInt(time))),
  ];
}

/** The address of these terms (EIP-1014), whether its code is made or not. */
export function addressOf(terms: AddressTerms): string {
  const creation = unhex(PROXY.join(ADDRESS_IMPLEMENTATION.slice(2)))!;
  const salt = keccak(concatBytes(...termsWords(terms)));
  return hex(keccak(concatBytes(Uint8Array.of(0xff), unhex(DEPOSIT_ADDRESSES)!, salt, keccak(creation))).slice(-20));
}

/**
 * The call by which anyone has sent to the refund account what is at the address: all of `token`, or of the chain's coin by the zero
 * address. Of the terms' own token that is possible once no deposit can be made any more: after `reserveDeadline`, or when the payment
 * has been deposited.
 */
export function giveBackCall(terms: AddressTerms, token = terms.token): { to: string; data: `0x${string}` } {
  return { to: DEPOSIT_ADDRESSES, data: hex(callData(GIVE_BACK, ...termsWords(terms), hexWord(evmAddress(token, 'token')))) };
}

/** A payment as the gateway shows it with its address. */
export type AddressedPayment = Pick<PaymentResponse | PaymentStatusRead, 'payment_id' | 'status' | 'deposit_address'>;

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
export function checkAddress(
  spend: Spend,
  payment: AddressedPayment,
  options: { payBy?: Date; nowMs?: number } = {},
): CheckedAddress {
  const { paymentId } = spend;
  insist('payment_id', paymentId, payment.payment_id);
  const given = payment.deposit_address;
  if (!given) throw new VerificationError('deposit_address', `the gateway gives no deposit address for ${paymentId}`);
  const { chainId, reference, token } = splitAsset(spend.terms.source.asset_identifier);
  const theirs = { ...given.terms?.deposit };
  insist('factory', DEPOSIT_ADDRESSES, given.factory);
  insist('chain_id', chainId, given.chain_id);
  insist('asset_identifier', spend.terms.source.asset_identifier, given.asset_identifier);
  insist('amount', spend.cap, given.amount);
  insist('refund_account', spend.terms.source.account, given.refund_account);
  const reserveDeadline = seconds('reserve_deadline', theirs.reserve_deadline);
  const refundAfter = seconds('refund_after', theirs.refund_after);
  checkOrder(spend, given.pay_by, reserveDeadline, refundAfter);
  const deposit = depositOf(spend, { reserveDeadline, refundAfter, quoteHash: String(theirs.quote_hash) });
  const terms: AddressTerms = { escrow: spend.escrow, token, amount: spend.cap, deposit };
  insist('terms.escrow', terms.escrow, given.terms.escrow);
  insist('terms.token', terms.token, given.terms.token);
  insist('terms.amount', terms.amount, given.terms.amount);
  insist('terms.deposit.payment_id', deposit.paymentId, theirs.payment_id);
  insist('terms.deposit.terms_hash', deposit.termsHash, theirs.terms_hash);
  insist('terms.deposit.quote_hash', deposit.quoteHash, theirs.quote_hash);
  insist('terms.deposit.payer', deposit.payer, theirs.payer);
  insist('terms.deposit.reserver', deposit.reserver, theirs.reserver);
  insist('terms.deposit.releaser', deposit.releaser, theirs.releaser);
  insist('terms.deposit.fulfillment_deadline', deposit.fulfillmentDeadline, theirs.fulfillment_deadline);
  const address = addressOf(terms);
  insist('address', address, given.address);
  const uri = `ethereum:${token}@${reference}/transfer?address=${address}&uint256=${spend.cap}`;
  insist('uri', uri, given.uri);
  const payBy = new Date(given.pay_by);
  if (payment.status !== 'pending') throw new StaleAddress(paymentId, 'status', 'pending', String(payment.status));
  checkTime(paymentId, payBy, options.payBy, options.nowMs ?? Date.now());
  return { address, chainId, token, amount: spend.cap, payBy, refundAccount: spend.terms.source.account, uri, terms };
}

/** Addresses, hashes and links have no case. */
function insist(member: string, own: string | bigint, theirs: unknown): void {
  if (String(own).toLowerCase() === String(theirs).toLowerCase()) return;
  const rule = `${member} must be ${own}, and the gateway's deposit address is for ${String(theirs)}`;
  throw new VerificationError(member, rule, String(own), String(theirs));
}

function seconds(member: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new VerificationError(`terms.deposit.${member}`, `${member} is not a time in UNIX seconds: ${String(value)}`);
}

/** @throws {VerificationError} where the windows do not follow each other, or money would stay locked for longer than was asked for. */
function checkOrder(spend: Spend, payBy: unknown, reserveDeadline: number, refundAfter: number): void {
  checkWindows(spend, { reserveDeadline, refundAfter });
  if (refundAfter <= spend.fulfillmentDeadline) {
    const rule = `the refund would come before the delivery is due: ${refundAfter}`;
    throw new VerificationError('refundAfter', rule, `more than ${spend.fulfillmentDeadline}`, String(refundAfter));
  }
  const waited = unixSeconds(String(payBy));
  if (!(waited <= reserveDeadline)) {
    const rule = `pay_by must be a time before the deposit's window ends, at ${reserveDeadline}, and is ${String(payBy)}`;
    throw new VerificationError('pay_by', rule, `at most ${reserveDeadline}`, String(payBy));
  }
}

/** @throws {StaleAddress} where money is waited for up to another time than was asked for, or hardly any longer. */
function checkTime(paymentId: string, payBy: Date, asked: Date | undefined, nowMs: number): void {
  // Requests have whole seconds.
  if (asked && rfc3339(asked.getTime()) !== rfc3339(payBy.getTime())) {
    throw new StaleAddress(paymentId, 'pay_by', `as asked for, ${rfc3339(asked.getTime())}`, rfc3339(payBy.getTime()));
  }
  const earliest = nowMs + LEFT_SECONDS * 1000;
  if (payBy.getTime() < earliest) {
    throw new StaleAddress(paymentId, 'pay_by', `${LEFT_SECONDS} s away, ${rfc3339(earliest)}, or later`, rfc3339(payBy.getTime()));
  }
}

/** How {@link openAddress} goes about it. */
export interface AddressOptions {
  trust?: Trust;
  /**
   * Up to when the money is waited for; half of the time that there is, but ten minutes before its end, where it is left out. A retry
   * has to name the same.
   */
  payBy?: Date;
  /**
   * See {@link SecretOptions}. Without it whoever knows `requestId` and account, as settlers do the batch, can ask first, for another
   * `payBy`; then this order's address is a {@link StaleAddress}, and never one of somebody else. None is made where it is left out,
   * because it is part of the payment's id: a retry after a crash that lost it would be another payment, with another address.
   */
  callerSecret?: string;
  signal?: AbortSignal;
}

/** A payment that waits for its money. */
export interface OpenedAddress {
  paymentId: string;
  quoteRequestId: string;
  /** Of the quote-request. Under it, and with the same `callerSecret`, the same order has the same address. */
  requestId: string;
  /** The one that was given. */
  callerSecret?: string;
  address: CheckedAddress;
  /** How the request was answered. */
  accepted: PaymentResponse;
  /** The accounts for which nothing but the gateway's word is there, as `escrow=0x…`. */
  believed: string[];
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
export async function openAddress(gateway: Gateway, order: Order, options: AddressOptions = {}): Promise<OpenedAddress> {
  const { callerSecret, payBy, signal, trust = {} } = options;
  if (order.source.account === undefined) throw new UsageError('source.account says where money goes back to');
  const { family, namespace } = splitAsset(order.source.asset);
  if (family !== 'evm' || namespace !== 'erc20') throw new UsageError(`${order.source.asset} is not a token on an EVM chain`);
  const fulfillmentDeadline = order.fulfillmentDeadline ?? new Date(Date.now() + FULFILLMENT_SECONDS * 1000);
  const request = orderRequest({ ...order, fulfillmentDeadline });
  const call = signal ? { signal } : {};
  const secret = callerSecret === undefined ? {} : { callerSecret };
  const defaults = await gateway.paymentDefaults(request, call);
  const batch = await gateway.quote(request, { ...call, ...secret, waitForQuotes: false });
  const spend = addressSpend(request, batch, defaults, { trust, ...secret });
  const quoteRequestId = batch.quote_request_id;
  const body = payBy ? { pay_by: rfc3339(payBy.getTime()) } : {};
  const accepted = await gateway.depositAddress(quoteRequestId, body, { ...call, ...secret });
  const address = checkAddress(spend, accepted, payBy ? { payBy } : {});
  const { paymentId } = spend;
  const { request_id: requestId } = request;
  return { paymentId, quoteRequestId, requestId, ...secret, address, accepted, believed: believed(spend, trust) };
}
