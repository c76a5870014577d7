// Mandates: a payer signs once what a merchant may ask for, so much in each period, and the merchant signs for each payment. The gateway keeps
// none: what a payer signs goes to its merchant, who shows it with each payment.

import { units } from './amounts.js';
import { hex } from './bytes.js';
import { familyOf, normalAccount, splitAsset } from './caip.js';
import { UsageError, WalletError } from './errors.js';
import type { Gateway } from './gateway.js';
import type { Http } from './http.js';
import { checkCharge, checkMandate } from './mandate-rules.js';
import { anotherId, finish } from './pay.js';
import { EVM_PERMIT2_MANDATE } from './schemes.js';
import { accountsOf, believed, LOCK_SECONDS_MAX, newRequestId, orderRequest, spendOf } from './spend.js';
import type {
  CallOptions,
  ChargeSpend,
  Destination,
  Mandate,
  MandatePayload,
  MandateSpend,
  Order,
  PayOptions,
  PayResult,
  PayStep,
  PaymentRequest,
  PaymentResponse,
  PrepareMandateRequest,
  PrepareRequest,
  PreparedMandate,
  SentCall,
  Trust,
  VerifierSet,
  Wallet,
} from './types.js';

/** What a payer lets a merchant ask for. */
export interface MandateOrder {
  /** What is drawn, a token on an EVM chain. `account` is the wallet's where it is left out. */
  source: Order['source'];
  /** Where payments may arrive, and nowhere else; the settler of each chooses among several. */
  destination: Destination | readonly Destination[];
  /** Who signs for each payment: an account with a key on the source's chain. */
  merchant: string;
  /** The most that is drawn in a period, with what settlers ask, in the source's smallest unit. Nothing is carried over. */
  amount: bigint;
  /**
   * What arrives at least where all of `amount` is drawn for it, and so in proportion, in the destination's smallest unit. Where it is left out
   * the merchant alone says how much arrives for what is drawn.
   */
  least?: bigint;
  /** When the first period begins; now where it is left out. */
  begins?: Date;
  /** How long a period is. */
  periodSeconds: number;
  /** How many there are; nothing is drawn after the last. */
  periods: number;
  /** The most from the deposit of a payment to its refund; `trust.lockSecondsMax`, or 7200, where it is left out. */
  lockSeconds?: number;
  /** Verifier and escrow, where they are not the gateway's defaults. */
  extra?: Pick<PrepareMandateRequest, 'fulfillment_verifier' | 'escrow_contract_address'>;
}

/** Where {@link Gateway.signMandate} is. */
export type MandateStep =
  | { step: 'ordered'; believed: string[]; verifiers?: VerifierSet }
  | Extract<PayStep, { what: unknown }>
  | { step: 'signing'; request: PrepareMandateRequest; prepared: PreparedMandate };

/** How {@link Gateway.signMandate} goes about it. */
export interface SignMandateOptions extends Pick<PayOptions, 'signal'> {
  /** What the payer knows by itself; who reserves is in no mandate. */
  trust?: Trust;
  /**
   * How much the wallet allows Permit2 to draw of the token where its allowance is too small, a period's `amount` at least; all periods
   * together where it is left out. It is shared by all that is paid through Permit2, so who signs several allows more. With 0 the wallet
   * sends nothing, and {@link SignedMandate.approval} says what is to be sent.
   */
  allowance?: bigint;
  /** `false` for a payer that is a contract: it signs nothing, and sends {@link SignedMandate.allow}. */
  signs?: boolean;
  /** Told of each step, before it where the name says so. What it throws ends the signing. */
  onStep?: (step: MandateStep) => void | Promise<void>;
}

/** What came of {@link Gateway.signMandate}. */
export interface SignedMandate {
  /** For the merchant, who shows it with each payment. */
  payload: MandatePayload;
  /** The address that commits to all of the mandate: what Permit2 lets draw. */
  address: string;
  /** What it was made of, as `mandateOf` of `gateway-client/evm` takes it. */
  spend: MandateSpend;
  /** The payer's own transactions that were sent before it. */
  sent: PayResult['sent'];
  /** What is to be sent before the first payment, where the wallet was to send nothing: the token's allowance for Permit2. */
  approval?: NonNullable<PreparedMandate['approval']>;
  /** The call by which a payer that signs nothing gives the mandate's allowance at Permit2. */
  allow: SentCall;
  /** How it is ended for ever: `call` by the payer or the merchant, or `message`, which the payer signs for whoever calls. */
  cancel: PreparedMandate['cancel'];
}

/** How {@link Gateway.charge} goes about it. */
export type ChargeOptions = Pick<PayOptions, 'trust' | 'until' | 'onStep' | 'signal'>;

/** What came of {@link Gateway.charge}. */
export type ChargeResult = Omit<PayResult, 'sent'>;

/** A wallet of a payer whose chains have mandates. */
type MandateWallet = Wallet & Required<Pick<Wallet, 'allow' | 'verifyMandate' | 'signMandate'>>;
/** A wallet of a merchant on such a chain. */
type MerchantWallet = Wallet & Required<Pick<Wallet, 'verifyCharge' | 'signCharge'>>;

/** What a chain's clock may be behind the gateway's: by it the time is counted for which a payment is held. */
const CLOCK_BEHIND_SECONDS = 60;
const callOf = ({ signal }: Pick<CallOptions, 'signal'>): CallOptions => (signal ? { signal } : {});

/** {@link Gateway.signMandate}, which says what it promises. */
export async function signMandate(
  gateway: Gateway,
  order: MandateOrder,
  wallet: Wallet,
  options: SignMandateOptions = {},
): Promise<SignedMandate> {
  const { trust = {}, signs = true, onStep, signal } = options;
  const fixed = requestOf(order, wallet, trust);
  const payer = payerOf(fixed, wallet);
  const all = BigInt(fixed.mandate.amount) * BigInt(order.periods);
  const allowance = allowanceOf(options, BigInt(fixed.mandate.amount), all);
  const { chainId } = splitAsset(fixed.source.asset_identifier);
  await payer.connect(chainId);
  const { source: defaults, refundDelaySeconds } = await gateway.paymentDefaults(fixed, callOf(options));
  const { lock_seconds: lockSeconds } = fixed.mandate;
  const least = refundDelaySeconds + CLOCK_BEHIND_SECONDS;
  if (lockSeconds <= least)
    throw new UsageError(`no payment is refunded in lockSeconds, ${lockSeconds}: they must be more than ${least}`);
  const { reserver: _, ...accounts } = accountsOf(fixed.source.asset_identifier, fixed, defaults, trust);
  const names = (['escrow', 'releaser'] as const).filter((name) => trust[name] === undefined);
  const shown = accounts.verifiers ? { verifiers: accounts.verifiers } : {};
  await onStep?.({ step: 'ordered', believed: names.map((name) => `${name}=${accounts[name]}`), ...shown });
  // Last of all: who knew it before could look for another mandate of the same address.
  const mandate: Mandate = { ...fixed.mandate, salt: newSalt() };
  const request: PrepareMandateRequest = { ...fixed, mandate };
  const spend: MandateSpend = { chainId, ...accounts, terms: { source: request.source, destination: request.destination }, mandate };
  const prepared = await gateway.prepareMandate(request, callOf(options));
  // What is not the payer's own costs no transaction.
  payer.verifyMandate(spend, prepared);
  const drawn = { ...spend, cap: allowance < all ? allowance : all, ...(trust.feeMax === undefined ? {} : { feeMax: trust.feeMax }) };
  const funding = { allowance, ...(signal ? { signal } : {}) };
  const sent = allowance ? await payer.allow(drawn, { ...funding, onStep: async (step) => onStep?.(step) }) : [];
  await onStep?.({ step: 'signing', request, prepared });
  signal?.throwIfAborted();
  const payload: MandatePayload = { mandate, ...(signs ? { permit: await payer.signMandate(spend, prepared) } : {}) };
  const { address, approval, allowance: allow, cancel } = prepared;
  return { payload, address: address.toLowerCase(), spend, sent, ...(approval && !allowance ? { approval } : {}), allow, cancel };
}

const newSalt = (): string => hex(crypto.getRandomValues(new Uint8Array(32)));

/** What is asked for, with zeros as the salt. */
function requestOf(order: MandateOrder, wallet: Wallet, trust: Trust): PrepareMandateRequest & { mandate: Mandate } {
  const { extra = {}, merchant, least, lockSeconds = trust.lockSecondsMax ?? LOCK_SECONDS_MAX } = order;
  if (lockSeconds > (trust.lockSecondsMax ?? lockSeconds))
    throw new UsageError(`lockSeconds is ${lockSeconds}, and trust.lockSecondsMax ${trust.lockSecondsMax}`);
  const ordered = { source: order.source, destination: order.destination, amount: order.amount, maxSource: order.amount };
  const { version, source, destination } = orderRequest(ordered, wallet.account);
  const mandate: Mandate = {
    merchant: normalAccount(familyOf(source.asset_identifier), merchant, 'merchant'),
    amount: units(order.amount, 'amount').toString(),
    ...(least === undefined ? {} : { least: units(least, 'least').toString() }),
    begins: Math.floor((order.begins?.getTime() ?? Date.now()) / 1000),
    period_seconds: order.periodSeconds,
    periods: order.periods,
    lock_seconds: lockSeconds,
    salt: `0x${'0'.repeat(64)}`,
  };
  checkMandate(mandate);
  return { ...extra, version, source, destination, mandate };
}

/** The wallet, where it can sign for this mandate. */
function payerOf({ source }: PrepareMandateRequest, wallet: Wallet): MandateWallet {
  if (!wallet.allow || !wallet.verifyMandate || !wallet.signMandate)
    throw new UsageError(`mandates are signed on EVM chains, and not by the wallet of ${wallet.account}`);
  insistToken(source.asset_identifier);
  insistAccount(wallet, source, source.account, 'pays');
  return wallet as MandateWallet;
}

function insistToken(asset: string): void {
  if (splitAsset(asset).namespace === 'slip44') throw new UsageError(`${asset} is a coin: pay with the asset that wraps it, see /v1/defaults`);
}

/** @throws {WalletError} where the wallet is not of this account on the source's chain. */
function insistAccount(wallet: Wallet, { asset_identifier: asset }: { asset_identifier: string }, account: string, does: string): void {
  if (familyOf(asset) === wallet.family && account === wallet.account) return;
  throw new WalletError('chain', `the wallet is ${wallet.account}, and ${account} on ${splitAsset(asset).chainId} ${does}`);
}

function allowanceOf({ allowance }: SignMandateOptions, period: bigint, all: bigint): bigint {
  if (allowance === undefined) return all;
  if (allowance !== 0n && allowance < period)
    throw new UsageError(`an allowance of ${allowance} is less than may be drawn in a period, ${period}`);
  return allowance;
}

/** {@link Gateway.charge}, which says what it promises. */
export async function charge(
  gateway: Gateway,
  http: Http,
  order: Order,
  payload: MandatePayload,
  wallet: Wallet,
  options: ChargeOptions = {},
): Promise<ChargeResult> {
  if (order.source.account === undefined) throw new UsageError('source.account says who pays: the payer of the mandate');
  const requestId = order.requestId ?? newRequestId();
  const request = orderRequest({ ...order, requestId });
  const merchant = merchantOf(request, payload, wallet);
  const { chainId } = splitAsset(request.source.asset_identifier);
  await merchant.connect(chainId);
  const spend = spendOf(request, await gateway.paymentDefaults(request, callOf(options)), options.trust);
  const { paymentId, verifiers } = spend;
  const shown = verifiers ? { verifiers } : {};
  await options.onStep?.({ step: 'ordered', requestId, paymentId, believed: believed(spend, options.trust), ...shown });
  const sender_auth = await signed(gateway, request, { spend, payload }, merchant, options);
  const body: PaymentRequest = { ...request, sender_auth };
  const submit = (submission: CallOptions): Promise<PaymentResponse> => gateway.submit(body, submission);
  const { sent: _, ...result } = await finish(gateway, http, { body, spend, sent: [], submit }, options);
  return result;
}

/** The wallet, where it is the merchant's who may ask for this payment. */
function merchantOf(request: PrepareRequest, payload: MandatePayload, wallet: Wallet): MerchantWallet {
  if (!wallet.verifyCharge || !wallet.signCharge)
    throw new UsageError(`mandates are on EVM chains, and the wallet of ${wallet.account} signs for none`);
  const { source } = request;
  insistToken(source.asset_identifier);
  const { mandate } = payload;
  if (typeof mandate !== 'object' || mandate === null) throw new UsageError('the payload has a mandate, as its payer signed it');
  insistAccount(wallet, source, normalAccount(familyOf(source.asset_identifier), String(mandate.merchant), 'mandate.merchant'), 'is the merchant');
  checkCharge(checkMandate(mandate), BigInt(request.fulfillment_amount), BigInt(request.max_source_amount!));
  return wallet as MerchantWallet;
}

/** The merchant's signature over what was prepared, once that was compared with what was asked for. */
async function signed(
  gateway: Gateway,
  request: PrepareRequest,
  charged: ChargeSpend,
  merchant: MerchantWallet,
  { onStep, signal }: ChargeOptions,
): Promise<PaymentRequest['sender_auth']> {
  const { mandate, permit } = charged.payload;
  const shown = { mandate, ...(permit === undefined ? {} : { permit }) };
  const asked: PrepareRequest = { ...request, message_scheme: EVM_PERMIT2_MANDATE, payload: shown };
  const { paymentId } = charged.spend;
  const prepared = await gateway.prepare(asked, signal ? { signal } : {});
  if (prepared.payment_id !== paymentId) throw anotherId(paymentId, prepared.payment_id);
  merchant.verifyCharge(charged, prepared);
  await onStep?.({ step: 'signing', request: asked, prepared });
  signal?.throwIfAborted();
  return { message_scheme: EVM_PERMIT2_MANDATE, signed_messages: await merchant.signCharge(charged, prepared) };
}
