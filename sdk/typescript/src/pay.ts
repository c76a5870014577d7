// Paying one order, or one quote of it: each step up to the submission, and the way from there to the outcome.

import { familyOf, splitAsset } from './caip.js';
import { UsageError, VerificationError, WalletError } from './errors.js';
import type { Gateway } from './gateway.js';
import type { Http } from './http.js';
import { OUTCOME_SECONDS, persist, seen } from './persist.js';
import { checkAllowance, isAllowedBySignature, mayLackAllowance, paysOtherwise, schemeFor, takesTokenSignatures, TRON } from './schemes.js';
import { awardSpend, believed, newRequestId, orderRequest, spendOf } from './spend.js';
import type { PaymentDefaults } from './spend.js';
import type {
  AwardRequest,
  CallOptions,
  Order,
  PayOptions,
  PayQuoteOptions,
  PayResult,
  PaymentRequest,
  PaymentResponse,
  PrepareAwardRequest,
  PrepareRequest,
  PreparedPayment,
  QuoteBatch,
  QuoteRequest,
  Scheme,
  Spend,
  Wallet,
} from './types.js';

/** What is asked for, and all that its authorization is rebuilt from. */
interface Asked<Request> {
  request: Request;
  spend: Spend;
}

/** What came of the payer's own transactions. */
interface Funded {
  sent: PayResult['sent'];
  /** What is to be signed, where it was asked for and nothing has changed since. */
  prepared?: PreparedPayment;
}

/** What is submitted, and how. */
interface Submission extends Pick<PayResult, 'body' | 'sent'> {
  spend: Spend;
  submit: (call: CallOptions) => Promise<PaymentResponse>;
}

/** {@link Gateway.pay} and {@link Gateway.payQuote}, which say what they promise. */
export class Paying {
  constructor(
    private readonly gateway: Gateway,
    private readonly http: Http,
  ) {}

  async pay(order: Order, wallet: Wallet, options: PayOptions = {}): Promise<PayResult> {
    const isRetry = order.requestId !== undefined;
    const named: Order = { ...order, requestId: order.requestId ?? newRequestId() };
    const defaults = await this.#begin(orderRequest(named, wallet.account), wallet, options);
    const begun = (): Asked<PrepareRequest> => {
      const request = orderRequest(named, wallet.account);
      return { request, spend: spendOf(request, defaults, options.trust) };
    };
    const first = begun();
    const scheme = schemeOf(first.spend, defaults, wallet, options);
    await this.#ordered(first.spend, first.request.request_id, options);
    const funded = await this.#fund(first, scheme, defaults, wallet, options, isRetry);
    // Wrapping and allowances took the blocks that they took, and their times are counted anew.
    const asked = funded.prepared ? first : begun();
    const { request, spend, sender_auth } = await this.#signed(asked, begun, scheme, wallet, options, funded);
    const body: PaymentRequest = { ...request, sender_auth };
    const submit = (call: CallOptions): Promise<PaymentResponse> => this.gateway.submit(body, call);
    return finish(this.gateway, this.http, { body, spend, sent: funded.sent, submit }, options);
  }

  async payQuote(batch: QuoteBatch, quoteId: string, wallet: Wallet, options: PayQuoteOptions = {}): Promise<PayResult> {
    const quote = (batch.quotes ?? []).find(({ quote_id: id }) => id === quoteId);
    if (!quote) throw new UsageError(`${batch.quote_request_id} has no quote ${quoteId}`);
    const requestId = options.requestId ?? newRequestId();
    const defaults = await this.#begin(batch, wallet, options);
    const spend = awardSpend(batch, quote, requestId, defaults, options);
    const scheme = schemeOf(spend, defaults, wallet, options);
    await this.#ordered(spend, requestId, options);
    const request: PrepareAwardRequest = {
      version: '1.0',
      request_id: requestId,
      quote_request_id: batch.quote_request_id,
      quote_id: quoteId,
      ...(batch.max_source_amount === undefined ? { payload: { permitted_amount: spend.cap.toString() } } : {}),
    };
    const asked = { request, spend };
    const funded = await this.#fund(asked, scheme, defaults, wallet, options, options.requestId !== undefined);
    const { sender_auth } = await this.#signed(asked, () => asked, scheme, wallet, options, funded);
    const { version, request_id, quote_request_id, quote_id } = request;
    const body: AwardRequest = { version, request_id, quote_request_id, quote_id, sender_auth };
    const submit = (call: CallOptions): Promise<PaymentResponse> => this.gateway.award(batch.quote_request_id, body, call);
    return finish(this.gateway, this.http, { body, spend, sent: funded.sent, submit }, options);
  }

  async #begin(of: Pick<QuoteRequest, 'source' | 'destination'>, wallet: Wallet, options: PayOptions): Promise<PaymentDefaults> {
    const { asset_identifier: asset, account } = of.source;
    const { chainId, namespace } = splitAsset(asset);
    if (namespace === 'slip44') throw new UsageError(`${asset} is a coin: pay with the asset that wraps it, see /v1/defaults`);
    checkAllowance(wallet.family, options.messageScheme, options.allowance);
    if (familyOf(asset) !== wallet.family || account !== wallet.account) {
      throw new WalletError('chain', `the wallet is ${wallet.account}, and ${account} on ${chainId} pays`);
    }
    await wallet.connect(chainId);
    return this.gateway.paymentDefaults(of, options.signal ? { signal: options.signal } : {});
  }

  async #ordered(spend: Spend, requestId: string, options: PayOptions): Promise<void> {
    const { paymentId, verifiers } = spend;
    const shown = verifiers ? { verifiers } : {};
    await options.onStep?.({ step: 'ordered', requestId, paymentId, believed: believed(spend, options.trust), ...shown });
  }

  /**
   * The payer's own transactions, but for a payment that exists already: it may have used them up. Where the gateway knows signatures in
   * the place of an allowance, or a scheme is named, it is asked first what is to be signed; that stands where nothing had to be sent.
   */
  async #fund(
    { request, spend }: Asked<PrepareRequest | PrepareAwardRequest>,
    scheme: Scheme | undefined,
    defaults: PaymentDefaults,
    wallet: Wallet,
    options: PayOptions,
    isRetry: boolean,
  ): Promise<Funded> {
    const { wrap = false, signal, onStep } = options;
    const call = signal ? { signal } : {};
    const { account, asset_identifier: asset } = spend.terms.source;
    if (isRetry && (await this.gateway.resolve({ requestId: request.request_id, account }, call))) return { sent: [] };
    if (wrap && !spend.wraps) throw new VerificationError('wrap', `the gateway does not say that ${asset} wraps coins`);
    const allowance = options.allowance ?? spend.cap;
    if (allowance < spend.cap) throw new UsageError(`an allowance of ${allowance} is less than may be drawn, ${spend.cap}`);
    const mayLack = mayLackAllowance(wallet.family, scheme);
    const isAsked = takesTokenSignatures(defaults) || (mayLack && scheme !== undefined);
    const prepared = isAsked ? await this.gateway.prepare(withScheme(request, scheme), call) : undefined;
    const isSpared = !mayLack || (prepared && isAllowedBySignature(prepared));
    const sent = await wallet.fund(spend, {
      wrap,
      allowance: isSpared ? 0n : allowance,
      onStep: async (step) => onStep?.(step),
      ...call,
    });
    return prepared && !sent.length ? { sent, prepared } : { sent };
  }

  /**
   * What is asked for, signed by this scheme; or by the payer's own transactions, as it is begun anew, where nobody named a scheme and the
   * wallet turns out to sign no typed data.
   */
  async #signed<Request extends PrepareRequest | PrepareAwardRequest>(
    asked: Asked<Request>,
    begun: () => Asked<Request>,
    scheme: Scheme | undefined,
    wallet: Wallet,
    options: PayOptions,
    funded: Funded,
  ): Promise<Asked<Request> & Pick<PaymentRequest, 'sender_auth'>> {
    const hasSent = funded.sent.length > 0;
    const prepared = funded.prepared ?? (await this.#prepared(asked, scheme, options, hasSent));
    try {
      return { ...asked, sender_auth: await this.#sign(asked, scheme, prepared, wallet, options) };
    } catch (error) {
      if (options.messageScheme !== undefined || !paysOtherwise(prepared, error)) throw error;
    }
    const again = begun();
    const transactions = await this.#prepared(again, TRON, options, hasSent);
    return { ...again, sender_auth: await this.#sign(again, TRON, transactions, wallet, options) };
  }

  #prepared(
    { request }: Asked<PrepareRequest | PrepareAwardRequest>,
    scheme: Scheme | undefined,
    options: PayOptions,
    hasSent: boolean,
  ): Promise<PreparedPayment> {
    return seen(hasSent, options, (call) => this.gateway.prepare(withScheme(request, scheme), call));
  }

  /** The signatures over what was prepared, once that was compared with what was asked for. */
  async #sign(
    { request, spend }: Asked<PrepareRequest | PrepareAwardRequest>,
    scheme: Scheme | undefined,
    prepared: PreparedPayment,
    wallet: Wallet,
    options: PayOptions,
  ): Promise<PaymentRequest['sender_auth']> {
    const { payment_id: paymentId, message_scheme } = prepared;
    if (paymentId !== spend.paymentId) throw anotherId(spend.paymentId, paymentId);
    if (scheme !== undefined && message_scheme !== scheme) throw VerificationError.mismatch('message_scheme', scheme, message_scheme);
    wallet.verify(spend, prepared);
    await options.onStep?.({ step: 'signing', request: withScheme(request, scheme), prepared });
    options.signal?.throwIfAborted();
    return { message_scheme, signed_messages: await wallet.sign(spend, prepared) };
  }
}

/**
 * Submits the same body until there is an answer, and waits for the outcome where that is asked for.
 *
 * @throws {VerificationError} where the answer is about another payment.
 * @throws {NoAnswer} where nobody answers until every window has passed.
 */
export async function finish(
  gateway: Gateway,
  http: Http,
  { body, spend, sent, submit }: Submission,
  options: Pick<PayOptions, 'until' | 'onStep' | 'signal'>,
): Promise<PayResult> {
  const { onStep, signal, until = 'final' } = options;
  await onStep?.({ step: 'submitting', body });
  // By then every window has passed.
  const end = (spend.fulfillmentDeadline + spend.refundDelaySeconds + OUTCOME_SECONDS) * 1000;
  const accepted = await persist(http, end, signal, () =>
    seen(sent.length > 0, options, (call) => submit({ ...call, waitSeconds: 0, retries: 0 })),
  );
  if (accepted.payment_id !== spend.paymentId) throw anotherId(spend.paymentId, accepted.payment_id);
  await onStep?.({ step: 'status', status: accepted });
  let status: PayResult['status'] = accepted;
  if (until === 'final' && accepted.status !== 'completed' && accepted.status !== 'failed') {
    status = await gateway.wait(accepted.payment_id, {
      timeoutMs: Math.max(0, end - Date.now()),
      onStatus: (seen) => onStep?.({ step: 'status', status: seen }),
      ...(signal ? { signal } : {}),
    });
  }
  return { paymentId: accepted.payment_id, requestId: body.request_id, body, sent, accepted, status };
}

/** The refusal of an answer that is about another payment. */
export const anotherId = (expected: string, found: string): VerificationError =>
  new VerificationError('payment_id', `the payment has another id, ${found}, and not ${expected}`, expected, found);

/** The scheme that the gateway is asked for. */
function schemeOf(
  { chainId, permit2: own }: Spend,
  { source }: PaymentDefaults,
  wallet: Wallet,
  { messageScheme }: PayOptions,
): Scheme | undefined {
  return schemeFor(wallet, { chainId, own, named: source.permit2 }, messageScheme);
}

const withScheme = <Request extends PrepareRequest | PrepareAwardRequest>(request: Request, scheme: Scheme | undefined): Request =>
  scheme === undefined ? request : { ...request, message_scheme: scheme };
