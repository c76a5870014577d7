// Deposit addresses: a payment that nobody signs for. Whoever sends its money to an address that commits to it has made the deposit;
// from there it goes into the escrow of this payment or back to the refund account, and nowhere else. So it is the address that is
// rebuilt from the payer's own order and compared, before money moves. What is alike on every chain is here; what is of a family, such
// as what makes its addresses and how it writes an account, beside it, in `evm/addresses.ts`, `solana/addresses.ts` and
// `tron/addresses.ts`.

import { splitAsset } from './caip.js';
import type { AssetParts } from './caip.js';
import { depositOf } from './deposit.js';
import type { Deposit } from './deposit.js';
import { StaleAddress, UsageError, VerificationError } from './errors.js';
import type { Gateway } from './gateway.js';
import { addressSpend, believed, orderRequest } from './spend.js';
import { rfc3339, unixSeconds } from './time.js';
import type { Family, Order, PaymentResponse, PaymentStatusRead, Spend, Trust } from './types.js';
import { checkWindows } from './windows.js';

/** How long an exchange may take, where the order does not say: its fulfillment deadline from when it is opened. */
const FULFILLMENT_SECONDS = 3600;
/** What has to be left of `pay_by` at least: a transfer that is made now is not there sooner. */
const LEFT_SECONDS = 5;

/** All that an address commits to; accounts as the chain writes them. */
export interface AddressTerms {
  escrow: string;
  token: string;
  /** The least that is deposited, in the token's smallest unit. */
  amount: bigint;
  deposit: Deposit;
}

/** The same with the contract that makes the address and alone moves what is there; on Solana that is the escrow's program. */
export interface PlacedTerms extends AddressTerms {
  factory: string;
}

/** An address that was held against the payer's own order. */
export interface CheckedAddress {
  /** Where to send the money: in lower case on EVM chains, in Base58 on Solana and Tron, where the case of a letter counts. */
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
  /**
   * A link for wallets. On EVM chains it is the whole transfer (EIP-681), and the text of a QR code, too. On Solana it is the transfer
   * without its amount (Solana Pay), which counts in whole tokens there: who knows the token's decimals adds it, as `?amount=1.5&spl-token=…`.
   * On Tron it is the address alone: token and amount have to stand beside it, and what a QR code holds there is `address`.
   */
  uri: string;
  /** Keep them: with them anyone can have sent back what comes too late, see `giveBackCall` of the family. */
  terms: PlacedTerms;
}

/** What a family of chains has of its own. */
export interface AddressFamily {
  family: Family;
  /** CAIP-19 namespace of the tokens that can be sent. */
  namespace: string;
  /** One of its chains, in words. */
  chain: string;
  /** What makes the addresses of a payment, where the payer knows it without the gateway. */
  factoryOf(spend: Spend): string | undefined;
  /** The bytes of an account. */
  bytes(account: string, field: string): Uint8Array;
  /** The address of these terms. */
  addressOf(terms: PlacedTerms): string;
  /** The form in which members of an answer are compared. */
  normalized(member: string): string;
  /** A link for wallets. */
  uri(transfer: { token: string; reference: string; address: string; amount: bigint }): string;
}

/** A payment as the gateway shows it with its address. */
export type AddressedPayment = Pick<PaymentResponse | PaymentStatusRead, 'payment_id' | 'status' | 'deposit_address'>;

/** What `checkAddress` is told besides. */
export interface CheckOptions {
  /** What was asked for, where it was. */
  payBy?: Date;
  nowMs?: number;
}

/**
 * `checkAddress` of a family, which says what it promises. Of what the gateway says only the windows are taken, which are bounded, up to
 * when it waits, and the factory where neither the family nor the payer knows it.
 */
export function checkBy(of: AddressFamily, spend: Spend, payment: AddressedPayment, options: CheckOptions): CheckedAddress {
  const { paymentId } = spend;
  const { chainId, reference, token } = tokenOf(of, spend.terms.source.asset_identifier);
  const insist = (member: string, own: string | bigint, theirs: unknown): void => {
    if (of.normalized(String(own)) === of.normalized(String(theirs))) return;
    const rule = `${member} must be ${own}, and the gateway's deposit address is for ${String(theirs)}`;
    throw new VerificationError(member, rule, String(own), String(theirs));
  };
  insist('payment_id', paymentId, payment.payment_id);
  const given = payment.deposit_address;
  if (!given) throw new VerificationError('deposit_address', `the gateway gives no deposit address for ${paymentId}`);
  const theirs = { ...given.terms?.deposit };
  const factory = of.factoryOf(spend) ?? named(of, given.factory);
  insist('factory', factory, given.factory);
  insist('chain_id', chainId, given.chain_id);
  insist('asset_identifier', spend.terms.source.asset_identifier, given.asset_identifier);
  insist('amount', spend.cap, given.amount);
  insist('refund_account', spend.terms.source.account, given.refund_account);
  const reserveDeadline = seconds('reserve_deadline', theirs.reserve_deadline);
  const refundAfter = seconds('refund_after', theirs.refund_after);
  checkOrder(spend, given.pay_by, reserveDeadline, refundAfter);
  const deposit = depositOf(spend, { reserveDeadline, refundAfter, quoteHash: String(theirs.quote_hash) });
  const terms: PlacedTerms = { factory, escrow: spend.escrow, token, amount: spend.cap, deposit };
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
  const address = of.addressOf(terms);
  insist('address', address, given.address);
  const uri = of.uri({ token, reference, address, amount: spend.cap });
  insist('uri', uri, given.uri);
  const payBy = new Date(given.pay_by);
  if (payment.status !== 'pending') throw new StaleAddress(paymentId, 'status', 'pending', String(payment.status));
  checkTime(paymentId, payBy, options.payBy, options.nowMs ?? Date.now());
  return { address, chainId, token, amount: spend.cap, payBy, refundAccount: spend.terms.source.account, uri, terms };
}

/** The parts of an asset that can be sent to an address of this family. */
function tokenOf(of: AddressFamily, asset: string): AssetParts {
  const parts = splitAsset(asset);
  if (parts.family !== of.family || parts.namespace !== of.namespace) throw new UsageError(`${asset} is not a token on ${of.chain}`);
  return parts;
}

/** The factory by the gateway's word. */
function named(of: AddressFamily, given: unknown): string {
  try {
    of.bytes(String(given), 'factory');
  } catch {
    const rule = `the gateway names something as factory that is not an account on ${of.chain}: ${String(given)}`;
    throw new VerificationError('factory', rule);
  }
  return String(given);
}

function seconds(member: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new VerificationError(`terms.deposit.${member}`, `${member} is not a time in UNIX seconds: ${String(value)}`);
}

/** @throws {VerificationError} where the windows do not follow each other, or money would stay locked for longer than was asked for. */
function checkOrder(spend: Spend, payBy: unknown, reserveDeadline: number, refundAfter: number): void {
  checkWindows(spend, { reserveDeadline, refundAfter });
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

/** How `openAddress` goes about it. */
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

/** `openAddress` of a family, which says what it promises. */
export async function openBy(of: AddressFamily, gateway: Gateway, order: Order, options: AddressOptions): Promise<OpenedAddress> {
  const { callerSecret, payBy, signal, trust = {} } = options;
  if (order.source.account === undefined) throw new UsageError('source.account says where money goes back to');
  tokenOf(of, order.source.asset);
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
  const address = checkBy(of, spend, accepted, payBy ? { payBy } : {});
  const { paymentId } = spend;
  const { request_id: requestId } = request;
  const isNamed = of.factoryOf(spend) === undefined;
  const onItsWord = [...believed(spend, trust), ...(isNamed ? [`depositAddressFactory=${address.terms.factory}`] : [])];
  return { paymentId, quoteRequestId, requestId, ...secret, address, accepted, believed: onItsWord };
}
