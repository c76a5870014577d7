// From what somebody wants paid to what has to be signed for it: the request, and all that an authorization is rebuilt from.

import { units } from './amounts.js';
import { familyOf, normalAccount, normalOwned, originatorOf, splitAsset } from './caip.js';
import { UsageError, VerificationError } from './errors.js';
import { destinationSet, paymentId, quoteRequestId, termsHash } from './ids.js';
import { quoteHash as hashOfQuote, quoteId } from './quotes.js';
import { rfc3339, unixSeconds } from './time.js';
import { knownPermit2 } from './trust.js';
import { checkVerifier } from './verifiers.js';
import type {
  ChainDefaults,
  CollectedQuote,
  Destination,
  Family,
  FulfillmentVerifier,
  Order,
  OwnedAsset,
  PayQuoteOptions,
  PrepareRequest,
  QuoteBatch,
  QuoteRequest,
  Spend,
  Terms,
  Trust,
} from './types.js';

const VERSION = '1.0';
const QUOTE_SECONDS = 10;
/** On Tron approval, deposit and reservation land one after the other. */
const FULFILLMENT_SECONDS: Record<Family, number> = { evm: 180, solana: 180, tron: 240 };
/** The longest that money may stay locked where the payer does not say. */
export const LOCK_SECONDS_MAX = 7200;
const ZERO_HASH = `0x${'0'.repeat(64)}`;
const REQUEST_ID = /^[A-Za-z0-9_.-]{1,128}$/;

/** What the defaults of a payment's chains say. */
export interface PaymentDefaults {
  /** Of the source's chain. */
  source: ChainDefaults;
  /** The longest `refund_delay_seconds` among all chains of the payment. */
  refundDelaySeconds: number;
}

/** A new idempotency key. */
export function newRequestId(): string {
  return `order-${crypto.randomUUID()}`;
}

/** A new `Caller-Secret`: 24 random bytes, Base64url. It is part of a quote-request's id, so keep it with the `requestId`. */
export function newCallerSecret(): string {
  const random = String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24)));
  return btoa(random).replaceAll('+', '-').replaceAll('/', '_');
}

/**
 * The body of a payment without `sender_auth`, which is also that of a quote-request: every value in its normal form, times that
 * the order leaves out counted from now on.
 *
 * @param account Who pays, where the order does not say.
 */
export function orderRequest(order: Order, account?: string, nowMs = Date.now()): PrepareRequest & QuoteRequest {
  const family = familyOf(order.source.asset);
  const payer = order.source.account ?? account;
  if (payer === undefined) throw new UsageError('source.account says who pays');
  const requestId = order.requestId ?? newRequestId();
  if (!REQUEST_ID.test(requestId))
    throw new UsageError(`${JSON.stringify(requestId)} is not a request id: 1 to 128 of letters, digits, _, - and .`);
  const destinations = Array.isArray(order.destination)
    ? (order.destination as readonly Destination[])
    : [order.destination as Destination];
  if (!destinations.length) throw new UsageError('an order has a destination');
  const destination = destinations.map(({ asset, account: recipient }, at) =>
    normalOwned({ asset_identifier: asset, account: recipient }, `destination[${at}]`),
  );
  const after = (seconds: number): string => rfc3339(nowMs + seconds * 1000);
  const written = (date: Date | undefined, seconds: number): string => (date ? rfc3339(date.getTime()) : after(seconds));
  return {
    ...order.extra,
    version: VERSION,
    request_id: requestId,
    source: normalOwned({ asset_identifier: order.source.asset, account: payer }, 'source'),
    destination: destinationSet(destination),
    fulfillment_amount: units(order.amount, 'amount').toString(),
    max_source_amount: units(order.maxSource, 'maxSource').toString(),
    quote_deadline: written(order.quoteDeadline, QUOTE_SECONDS),
    fulfillment_deadline: written(order.fulfillmentDeadline, FULFILLMENT_SECONDS[family]),
  };
}

/**
 * An order out of the body of a payment, as files and links keep it: without `sender_auth`, and with or without `request_id` and
 * deadlines.
 */
export function orderOf(
  body: Pick<QuoteRequest, 'source' | 'destination' | 'fulfillment_amount' | 'max_source_amount'> & Partial<QuoteRequest>,
): Order {
  const {
    version: _,
    request_id,
    source,
    destination,
    fulfillment_amount,
    max_source_amount,
    quote_deadline,
    fulfillment_deadline,
    ...extra
  } = body;
  if (!source || !destination?.length || !fulfillment_amount)
    throw new UsageError('an order has source, destination and fulfillment_amount');
  if (!max_source_amount) throw new UsageError('an order lacks max_source_amount: a payer says what it pays at most');
  return {
    ...(request_id ? { requestId: request_id } : {}),
    source: { asset: source.asset_identifier, account: source.account },
    destination: destination.map(({ asset_identifier: asset, account }) => ({ asset, account })),
    amount: units(fulfillment_amount, 'fulfillment_amount'),
    maxSource: units(max_source_amount, 'max_source_amount'),
    ...(quote_deadline ? { quoteDeadline: new Date(quote_deadline) } : {}),
    ...(fulfillment_deadline ? { fulfillmentDeadline: new Date(fulfillment_deadline) } : {}),
    extra,
  };
}

/** The economics of a request, or of a batch, in their normal form. */
export function termsOf(of: Pick<QuoteRequest, 'source' | 'destination' | 'fulfillment_amount' | 'max_source_amount'>): Terms {
  const cap = of.max_source_amount;
  return {
    source: normalOwned(of.source, 'source'),
    destination: destinationSet(of.destination.map((item, at) => normalOwned(item, `destination[${at}]`))),
    fulfillment_amount: units(of.fulfillment_amount, 'fulfillment_amount').toString(),
    ...(cap === undefined ? {} : { max_source_amount: units(cap, 'max_source_amount').toString() }),
  };
}

/** Every chain that a request is about, the source's first. */
export function chainsOf(request: Pick<QuoteRequest, 'source' | 'destination'>): string[] {
  const assets = [request.source, ...request.destination].map(({ asset_identifier: asset }) => splitAsset(asset).chainId);
  return [...new Set(assets)];
}

/**
 * All that the authorization of a payment is rebuilt from, after the gateway's defaults were held against what the payer knows.
 *
 * @throws {VerificationError} where the gateway names somebody else, or money could be locked for longer than is allowed.
 */
export function spendOf(request: PrepareRequest, defaults: PaymentDefaults, trust: Trust = {}, nowMs = Date.now()): Spend {
  const terms = termsOf(request);
  if (terms.max_source_amount === undefined) throw new UsageError('max_source_amount says what is paid at most');
  const cap = BigInt(terms.max_source_amount);
  return believe({ request, terms, cap, requestId: request.request_id, quoteHash: ZERO_HASH }, defaults, trust, nowMs);
}

/**
 * The same for a quote that is taken, with the batch as {@link Gateway.quote} gave it.
 *
 * @throws {VerificationError} as {@link spendOf}, or where the batch is not for `options.order`, or the quote not one for this batch.
 */
export function awardSpend(
  batch: QuoteBatch,
  quote: CollectedQuote,
  requestId: string,
  defaults: PaymentDefaults,
  options: Pick<PayQuoteOptions, 'trust' | 'order' | 'maxSource' | 'quoteHash'> = {},
  nowMs = Date.now(),
): Spend {
  const { order, maxSource } = options;
  if (order) checkTerms(requestOf(order, batch.source.account), batch);
  const terms = termsOf(batch);
  const cap = terms.max_source_amount === undefined ? maxSource : BigInt(terms.max_source_amount);
  if (cap === undefined) throw new UsageError('the quote-request set no max_source_amount: maxSource says what is paid at most');
  // What is signed is the batch's whole cap (the escrow compares the two), so that a lower bound refuses it.
  if (maxSource !== undefined && cap > maxSource) {
    const rule = `the quote-request lets ${cap} be taken, and ${maxSource} is allowed`;
    throw new VerificationError('max_source_amount', rule, `at most ${maxSource}`, String(cap));
  }
  const document = quote.fulfillment_quote;
  const quoteHash = options.quoteHash?.toLowerCase();
  const spend = believe({ request: batch, terms, cap, requestId, quoteHash }, defaults, options.trust ?? {}, nowMs);
  const price = checkQuote(document, spend);
  const computed = hashOfQuote(document);
  if (quoteId(computed) !== quote.quote_id)
    throw new VerificationError('quote_id', "the quote's id is not that of its document", quoteId(computed), quote.quote_id);
  if (quoteHash !== undefined && quoteHash !== computed) throw VerificationError.mismatch('quoteHash', quoteHash, computed);
  return { ...spend, quoteHash: computed, price };
}

/**
 * The same for a payment by deposit address, with the quote-request as it was sent, the batch as {@link Gateway.quote} gave it, and the
 * amount where the request has no `max_source_amount`. The payment's id is that of the batch, whose id is the request's own.
 *
 * @param options.callerSecret What went along as `Caller-Secret`.
 * @throws {VerificationError} as {@link spendOf}, or where the batch is not for this request.
 */
export function addressSpend(
  request: QuoteRequest,
  batch: QuoteBatch,
  defaults: PaymentDefaults,
  options: { trust?: Trust; amount?: bigint; callerSecret?: string } = {},
  nowMs = Date.now(),
): Spend {
  checkTerms(request, batch);
  const terms = termsOf(request);
  const { amount, callerSecret, trust = {} } = options;
  const cap = terms.max_source_amount === undefined ? amount : BigInt(terms.max_source_amount);
  if (cap === undefined) throw new UsageError('the quote-request has no max_source_amount: amount says what is sent');
  if (amount !== undefined && amount !== cap)
    throw new UsageError(`amount is ${amount}, and the quote-request's max_source_amount ${cap}: one of them is to be left out`);
  const family = familyOf(terms.source.asset_identifier);
  const originator = originatorOf(family, terms.source.account);
  const own = quoteRequestId(originator, request.request_id, callerSecret);
  if (batch.quote_request_id !== own)
    throw new VerificationError('quote_request_id', `the batch has another id than the request's, ${own}`, own, batch.quote_request_id);
  // A replay has the deadlines of the batch that was there before.
  const { quote_deadline, fulfillment_deadline } = batch;
  const wanted = { ...request, quote_deadline, fulfillment_deadline };
  const { depositAddressFactory: factory, permit2: _, ...others } = trust;
  // On Tron an address has nothing to do with Permit2.
  const known = family === 'tron' ? others : trust;
  const spend = believe({ request: wanted, terms, cap, requestId: own, quoteHash: ZERO_HASH }, defaults, known, nowMs);
  if (family !== 'tron' || factory === undefined) return spend;
  return { ...spend, depositAddressFactory: normalAccount(family, factory, 'depositAddressFactory') };
}

/** What {@link Gateway.quote} sends for it. */
export function requestOf(order: Order | QuoteRequest, account?: string): QuoteRequest {
  return 'fulfillment_amount' in order ? order : orderRequest(order, account);
}

/** @throws {VerificationError} where the batch is for something else than was asked. */
export function checkTerms(asked: Parameters<typeof termsOf>[0], batch: Parameters<typeof termsOf>[0]): void {
  let found: string;
  try {
    found = termsHash(termsOf(batch));
  } catch (cause) {
    throw new VerificationError('quote-request', `the gateway collects quotes for something that is no order: ${String(cause)}`);
  }
  const expected = termsHash(termsOf(asked));
  if (expected !== found)
    throw new VerificationError('quote-request', 'the gateway collects quotes for something else', expected, found);
}

interface Wanted {
  request: Pick<QuoteRequest, 'quote_deadline' | 'fulfillment_deadline' | 'escrow_contract_address' | 'fulfillment_verifier'>;
  terms: Terms;
  cap: bigint;
  requestId: string;
  quoteHash: string | undefined;
}

function believe(
  { request, terms, cap, requestId, quoteHash }: Wanted,
  defaults: PaymentDefaults,
  trust: Trust,
  nowMs: number,
): Spend {
  const { source } = defaults;
  const { family, chainId } = splitAsset(terms.source.asset_identifier);
  const quoteDeadline = unixSeconds(request.quote_deadline);
  const fulfillmentDeadline = unixSeconds(request.fulfillment_deadline);
  if (Number.isNaN(quoteDeadline) || Number.isNaN(fulfillmentDeadline)) throw new UsageError('a deadline is not a time');
  const { refundDelaySeconds } = defaults;
  if (!Number.isSafeInteger(refundDelaySeconds) || refundDelaySeconds < 0) {
    throw new VerificationError('refund_delay_seconds', `the gateway names a refund delay that is none: ${refundDelaySeconds}`);
  }
  const locked = fulfillmentDeadline + refundDelaySeconds - Math.floor(nowMs / 1000);
  const lockedMax = trust.lockSecondsMax ?? LOCK_SECONDS_MAX;
  if (locked > lockedMax) {
    const rule = `the money could be locked for ${locked} s, and ${lockedMax} s are allowed`;
    throw new VerificationError('lock', rule, `at most ${lockedMax}`, String(locked));
  }
  const accounts = accountsOf(terms.source.asset_identifier, request, source, trust);
  const listed = (source.assets ?? []).find(({ asset_identifier: id }) => normalId(id) === terms.source.asset_identifier);
  return {
    paymentId: paymentId(originatorOf(family, terms.source.account), requestId),
    chainId,
    terms,
    cap,
    quoteDeadline,
    fulfillmentDeadline,
    ...accounts,
    ...(source.signature_cluster_id === undefined ? {} : { signatureClusterId: source.signature_cluster_id }),
    ...(source.signature_domain_version === undefined ? {} : { signatureDomainVersion: source.signature_domain_version }),
    refundDelaySeconds,
    quoteHash,
    wraps: listed?.wraps !== undefined,
    ...(trust.feeMax === undefined ? {} : { feeMax: trust.feeMax }),
  };
}

/**
 * The accounts that are signed for, of a request or else the defaults of its source's chain, held against what the payer knows.
 *
 * @throws {VerificationError} where the gateway names somebody else.
 */
export function accountsOf(
  asset: string,
  request: Pick<QuoteRequest, 'escrow_contract_address' | 'fulfillment_verifier'>,
  source: ChainDefaults,
  trust: Trust,
): Pick<Spend, 'escrow' | 'reserver' | 'releaser' | 'verifiers' | 'permit2'> {
  const { family, chainId } = splitAsset(asset);
  const named = (field: 'escrow' | 'reserver' | 'releaser', account: unknown): string => {
    let said: string;
    try {
      said = normalAccount(family, String(account), field);
    } catch {
      throw new VerificationError(
        field,
        `the gateway names something as ${field} that is not an account on ${chainId}: ${account}`,
      );
    }
    const pin = trust[field];
    if (pin !== undefined && normalAccount(family, pin, field) !== said) {
      throw new VerificationError(field, `the gateway names another ${field}, ${said}`, pin, said);
    }
    return said;
  };
  const ordered = request.fulfillment_verifier?.account;
  const escrow = named('escrow', request.escrow_contract_address || source.escrow_contract_address);
  const reserver = named('reserver', source.reserver);
  const releaser = named('releaser', ordered || source.releaser);
  const verifiers = checkVerifier(family, releaser, shownVerifier(source, releaser, !ordered));
  return { escrow, reserver, releaser, ...(verifiers ? { verifiers } : {}), ...ownPermit2(family, chainId, source, trust) };
}

/** What the gateway shows of a payment's verifiers; of those that a request names itself, what is among the known ones. */
function shownVerifier(source: ChainDefaults, releaser: string, isDefault: boolean): FulfillmentVerifier | undefined {
  if (isDefault) return source.fulfillment_verifier;
  const isIt = ({ account = '' }: FulfillmentVerifier): boolean => account === releaser || account.toLowerCase() === releaser;
  return (source.fulfillment_verifiers ?? []).find(isIt);
}

function normalId(asset: unknown): string {
  return typeof asset === 'string' && asset.startsWith('eip155:') ? asset.toLowerCase() : String(asset);
}

/**
 * The chain's Permit2, as the payer knows it. On EVM chains the gateway has to name the same; on Tron it is asked for transactions
 * where it does not (`schemeFor`).
 */
function ownPermit2(family: Family, chainId: string, source: ChainDefaults, trust: Trust): { permit2?: string } {
  const permit2 = knownPermit2(chainId, trust);
  if (permit2 === undefined) return {};
  const said = String(source.permit2).toLowerCase();
  if (family === 'evm' && said !== permit2)
    throw new VerificationError('permit2', `the gateway names another Permit2, ${said}`, permit2, said);
  return { permit2 };
}

/** The accounts that a spend takes on the gateway's word alone, as `escrow=0x…`. */
export function believed(spend: Spend, trust: Trust = {}): string[] {
  const names = ['escrow', 'reserver', 'releaser'] as const;
  return names.filter((name) => trust[name] === undefined).map((name) => `${name}=${spend[name]}`);
}

/** Where a quote delivers, in normal form; `undefined` where that cannot be read. */
export function deliveredTo(document: Record<string, unknown>): OwnedAsset | undefined {
  const { asset_identifier, account } = (document['destination'] ?? {}) as Record<string, unknown>;
  try {
    return normalOwned({ asset_identifier: String(asset_identifier), account: String(account) }, 'quote.destination');
  } catch {
    return undefined;
  }
}

/** What the settler signed has to be an offer for these terms, at no more than the cap. Gives back its price. */
function checkQuote(document: Record<string, unknown>, spend: Spend): bigint {
  const expect = (field: string, found: unknown, expected: unknown): void => {
    if (found !== expected)
      throw new VerificationError(
        `quote.${field}`,
        `the quote's ${field} is ${found}, and ${expected} was asked for`,
        String(expected),
        String(found),
      );
  };
  expect('termsHash', document['termsHash'], termsHash(spend.terms));
  expect('fulfillmentAmount', document['fulfillmentAmount'], spend.terms.fulfillment_amount);
  expect('sourceChain', document['sourceChain'], spend.chainId);
  const to = deliveredTo(document);
  const isAsked = spend.terms.destination.some((one) => one.asset_identifier === to?.asset_identifier && one.account === to.account);
  if (!isAsked) throw new VerificationError('quote.destination', 'the quote delivers elsewhere', undefined, JSON.stringify(to));
  const price = units(document['sourceAmount'] as string, 'quote.sourceAmount');
  if (price > spend.cap)
    throw new VerificationError(
      'quote.sourceAmount',
      `the quote's price is ${price}, and ${spend.cap} is allowed`,
      `at most ${spend.cap}`,
      String(price),
    );
  return price;
}
