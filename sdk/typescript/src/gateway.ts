// The gateway's API, one method for each call, and a few calls on top.

import { payBatch } from './batches.js';
import { GatewayError, NoAnswer, TimedOut, UsageError, VerificationError } from './errors.js';
import { Http } from './http.js';
import type { Call } from './http.js';
import { charge, signMandate } from './mandates.js';
import type { ChargeOptions, ChargeResult, MandateOrder, SignedMandate, SignMandateOptions } from './mandates.js';
import { Paying } from './pay.js';
import { isResent } from './retry.js';
import { chainsOf, checkTerms, requestOf } from './spend.js';
import type { PaymentDefaults } from './spend.js';
import { deadline, events, read } from './sse.js';
import { pause } from './time.js';
import type {
  AwardRequest,
  BatchResult,
  CallOptions,
  ChainDefaults,
  Defaults,
  DepositAddressRequest,
  GatewayOptions,
  MandatePayload,
  Order,
  PayBatchOptions,
  PayOptions,
  PayQuoteOptions,
  PayResult,
  PaymentBatchRequest,
  PaymentBatchResponse,
  PaymentRequest,
  PaymentResponse,
  PaymentStatusRead,
  PaymentTimeline,
  PrepareAwardRequest,
  PrepareMandateRequest,
  PreparePaymentBatchRequest,
  PrepareRequest,
  PreparedMandate,
  PreparedPayment,
  PreparedPaymentBatch,
  QuoteBatch,
  QuoteRequest,
  TimelineEntry,
  Verification,
  Wallet,
} from './types.js';

const POLL_MS = 500;
const POLL_MS_MAX = 3000;
/** How long after `quote_deadline` a batch may still be collecting. */
const COLLECTING_MS = 30_000;
/** The gateway says something every 15 seconds, so a stream that is silent for this long is dead. */
const SILENCE_MS = 45_000;
/** How many payments' positions are remembered. */
const POSITIONS_MAX = 256;

/** A call that shows who opened a batch. */
export interface SecretOptions extends CallOptions {
  /**
   * 16 to 128 visible characters, best those of `newCallerSecret`: nobody who does not know them can open the batch first, or ask for
   * its deposit address. They are part of the batch's id, so keep them with the `requestId`: without them a retry is another batch.
   */
  callerSecret?: string;
}

/** How {@link Gateway.quote} goes about it. */
export interface QuoteOptions extends SecretOptions {
  /** Come back at once, with a batch that is `collecting`. */
  waitForQuotes?: boolean;
}

/** How {@link Gateway.wait} goes about it. */
export interface WaitOptions {
  /**
   * What is waited for: the outcome (`final`, where it is left out), that nothing more will happen to the money (`rest`), or
   * whatever this function is true of.
   */
  until?: 'final' | 'rest' | ((status: PaymentStatusRead) => boolean);
  /** Give up after so many milliseconds, with {@link TimedOut}; never where it is left out. */
  timeoutMs?: number;
  /** First pause between two reads in milliseconds, which grows to 3 seconds; 500 where it is left out. */
  pollMs?: number;
  signal?: AbortSignal;
  /** Told of every status that is read. What it throws ends the waiting. */
  onStatus?: (status: PaymentStatusRead) => void | Promise<void>;
}

/** How {@link Gateway.watch} goes about it. */
export interface WatchOptions {
  /** Begin behind the entry with this id. */
  lastEventId?: string;
  signal?: AbortSignal;
}

/** A gateway, by its address. */
export class Gateway {
  readonly #http: Http;
  readonly #positions = new Map<string, string>();

  /** @param baseUrl Its address, such as `https://pay.example`. */
  constructor(baseUrl: string, options: GatewayOptions = {}) {
    this.#http = new Http(baseUrl, options);
  }

  /** The gateway's address, without a slash at its end. */
  get baseUrl(): string {
    return this.#http.base;
  }

  /** Contracts, accounts, windows and assets of every chain, or of one (CAIP-2). `GET /v1/defaults`. */
  defaults(): Promise<Defaults>;
  defaults(chainId: string, options?: CallOptions): Promise<ChainDefaults>;
  async defaults(chainId?: string, options: CallOptions = {}): Promise<Defaults | ChainDefaults> {
    const query = chainId === undefined ? '' : `?chain_id=${encodeURIComponent(chainId)}`;
    return (await this.#http.call<Defaults | ChainDefaults>({ ...options, method: 'GET', path: `/v1/defaults${query}` })).body;
  }

  /**
   * Opens a quote-request, and waits for its quotes: best first, empty where nobody offered any (`decline_summary` says why). What
   * comes back is for what was asked, or it is a {@link VerificationError}. `POST /v1/payments/quote-requests`.
   */
  async quote(order: Order | QuoteRequest, options: QuoteOptions = {}): Promise<QuoteBatch> {
    const request = requestOf(order);
    const { callerSecret, waitForQuotes = true, ...call } = options;
    const opened = await this.#http.call<QuoteBatch>({
      ...call,
      method: 'POST',
      path: `/v1/payments/quote-requests${waitForQuotes ? '?wait=true' : ''}`,
      body: request,
      ...secretHeader(callerSecret),
    });
    let batch = opened.body;
    checkTerms(request, batch);
    const until = Date.parse(batch.quote_deadline) + COLLECTING_MS;
    const id = batch.quote_request_id;
    for (let tried = 0; waitForQuotes && batch.status === 'collecting'; tried += 1) {
      if (Date.now() > until) throw new TimedOut(`${id} is still collecting quotes`);
      await pause(growing(POLL_MS, tried), options.signal);
      batch = await this.quotes(id, call);
      checkTerms(request, batch);
      if (batch.quote_request_id !== id) throw VerificationError.mismatch('quote_request_id', id, batch.quote_request_id);
    }
    return batch;
  }

  /** A batch of quotes as it stands. `GET /v1/payments/quote-requests/{id}`. */
  async quotes(quoteRequestId: string, options: CallOptions = {}): Promise<QuoteBatch> {
    const path = `/v1/payments/quote-requests/${encodeURIComponent(quoteRequestId)}`;
    return (await this.#http.call<QuoteBatch>({ ...options, method: 'GET', path })).body;
  }

  /** Awards a quote, signed by the payer, which makes a payment. `POST /v1/payments/quote-requests/{id}/award`. */
  async award(quoteRequestId: string, body: AwardRequest, options: CallOptions = {}): Promise<PaymentResponse> {
    return this.#accepted(`/v1/payments/quote-requests/${encodeURIComponent(quoteRequestId)}/award`, body, options);
  }

  /**
   * Asks for the deposit address of a batch, which makes a payment that nobody signs for; the same again finds the same. What comes
   * back is the gateway's word: hold it against your own order before you send money there (`checkAddress` of `gateway-client/evm`
   * or `/tron`; `openAddress` there does all of it). `POST /v1/payments/quote-requests/{id}/address`.
   *
   * @param options.callerSecret That with which the batch was opened; without it the gateway refuses such a batch, `INVALID_PROOF`.
   */
  async depositAddress(
    quoteRequestId: string,
    body: DepositAddressRequest = {},
    options: SecretOptions = {},
  ): Promise<PaymentResponse> {
    const { callerSecret, ...call } = options;
    const path = `/v1/payments/quote-requests/${encodeURIComponent(quoteRequestId)}/address`;
    return this.#accepted(path, body, { ...call, ...secretHeader(callerSecret) });
  }

  /** What to sign for a payment, or for an award. Nothing is accepted by it. `POST /v1/payments/prepare`. */
  async prepare(request: PrepareRequest | PrepareAwardRequest, options: CallOptions = {}): Promise<PreparedPayment> {
    return (await this.#http.call<PreparedPayment>({ ...options, method: 'POST', path: '/v1/payments/prepare', body: request }))
      .body;
  }

  /** All checks of a submission; nothing is accepted. Every refusal is a {@link GatewayError}. `POST /v1/payments/verify`. */
  async verify(body: PaymentRequest, options: CallOptions = {}): Promise<Verification> {
    return (await this.#http.call<Verification>({ ...options, method: 'POST', path: '/v1/payments/verify', body })).body;
  }

  /**
   * Submits a signed payment, and again while nothing is known of it. After a {@link NoAnswer} the same body may be submitted again
   * at any time, by this or by another process: it is accepted once. `POST /v1/payments`.
   */
  async submit(body: PaymentRequest, options: CallOptions = {}): Promise<PaymentResponse> {
    return this.#accepted('/v1/payments', body, options);
  }

  /** What to sign for a batch of payments. Nothing is accepted by it. `POST /v1/payments/batches/prepare`. */
  async prepareBatch(request: PreparePaymentBatchRequest, options: CallOptions = {}): Promise<PreparedPaymentBatch> {
    const path = '/v1/payments/batches/prepare';
    return (await this.#http.call<PreparedPaymentBatch>({ ...options, method: 'POST', path, body: request })).body;
  }

  /**
   * Submits a signed batch, and again while nothing is known of it. Each of its payments is accepted or refused by itself. The same body
   * may be submitted again at any time, as after {@link Gateway.submit}. `POST /v1/payments/batches`.
   */
  async submitBatch(body: PaymentBatchRequest, options: CallOptions = {}): Promise<PaymentBatchResponse> {
    return (await this.#http.call<PaymentBatchResponse>({ ...options, method: 'POST', path: '/v1/payments/batches', body })).body;
  }

  /** What a payer signs for a mandate. Nothing is kept. `POST /v1/payments/mandates/prepare`. */
  async prepareMandate(request: PrepareMandateRequest, options: CallOptions = {}): Promise<PreparedMandate> {
    const path = '/v1/payments/mandates/prepare';
    return (await this.#http.call<PreparedMandate>({ ...options, method: 'POST', path, body: request })).body;
  }

  /** A payment as it stands. `GET /v1/payments/{id}/status`. */
  async status(paymentId: string, options: CallOptions = {}): Promise<PaymentStatusRead> {
    const position = this.#positions.get(paymentId);
    const answer = await this.#http.call<PaymentStatusRead>({
      ...options,
      method: 'GET',
      path: `/v1/payments/${encodeURIComponent(paymentId)}/status`,
      ...(position === undefined ? {} : { headers: { 'x-position': position } }),
    });
    this.#remember(paymentId, answer.headers);
    return answer.body;
  }

  /** Everything that happened to a payment. `GET /v1/payments/{id}/timeline`. */
  async timeline(paymentId: string, options: CallOptions = {}): Promise<PaymentTimeline> {
    const path = `/v1/payments/${encodeURIComponent(paymentId)}/timeline`;
    return (await this.#http.call<PaymentTimeline>({ ...options, method: 'GET', path })).body;
  }

  /** The payment of a request id; `undefined` where there is none. `GET /v1/payments/resolve`. */
  async resolve(
    of: { requestId: string } & ({ account: string } | { originator: string }),
    options: CallOptions = {},
  ): Promise<PaymentStatusRead | undefined> {
    const who = 'account' in of ? `account=${encodeURIComponent(of.account)}` : `originator=${encodeURIComponent(of.originator)}`;
    const path = `/v1/payments/resolve?request_id=${encodeURIComponent(of.requestId)}&${who}`;
    try {
      const answer = await this.#http.call<PaymentStatusRead>({ ...options, method: 'GET', path });
      this.#remember(answer.body.payment_id, answer.headers);
      return answer.body;
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'PAYMENT_NOT_FOUND') return undefined;
      throw error;
    }
  }

  /**
   * Reads a payment until it has come to what is waited for. That nobody answers for a while ends nothing.
   *
   * @throws {TimedOut} after `timeoutMs`.
   */
  async wait(paymentId: string, options: WaitOptions = {}): Promise<PaymentStatusRead> {
    const { until = 'final', timeoutMs = Infinity, pollMs = POLL_MS, signal, onStatus } = options;
    const end = Date.now() + timeoutMs;
    const call = { retries: 0, ...(signal ? { signal } : {}) };
    let silent = 0;
    for (let tried = 0; ; tried += 1) {
      let waitMs = growing(pollMs, tried);
      try {
        const status = await this.status(paymentId, call);
        silent = 0;
        await onStatus?.(status);
        const isFinal = status.status === 'completed' || status.status === 'failed';
        if (typeof until === 'function' ? until(status) : isFinal) {
          if (until !== 'rest' || (await this.timeline(paymentId, call)).at_rest) return status;
        }
      } catch (error) {
        if (!isResent(error)) throw error;
        waitMs = Math.max(waitMs, this.#http.pauseAfter(error, silent));
        silent += 1;
      }
      if (Date.now() + waitMs > end) throw new TimedOut(`${paymentId} was not waited for any longer`);
      await pause(waitMs, signal);
    }
  }

  /**
   * What happened to a payment, then what happens, as it happens; ends by itself once nothing more will. A connection that breaks
   * is opened again behind the last entry, so that none comes twice or is missed. `GET /v1/payments/{id}/events`.
   *
   * @throws {GatewayError} where there is no such payment.
   */
  async *watch(paymentId: string, options: WatchOptions = {}): AsyncGenerator<TimelineEntry, void, undefined> {
    const { signal } = options;
    const path = `/v1/payments/${encodeURIComponent(paymentId)}/events`;
    let last = options.lastEventId;
    let retryMs = this.#http.pauseMs;
    for (let failed = 0; ;) {
      const over = new AbortController();
      const both = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
      let waitMs = 0;
      try {
        const headers = { accept: 'text/event-stream', ...(last === undefined ? {} : { 'last-event-id': last }) };
        const silence = deadline(SILENCE_MS, over);
        try {
          const response = await this.#http.open({ method: 'GET', path, headers, signal: both }, undefined, undefined);
          // The answer to a client that has everything.
          if (response.status === 204 || !response.body) return;
          const chunks = read(response.body, silence.restart);
          for await (const { id, data } of events(chunks, (ms) => (retryMs = Math.min(ms, this.#http.pauseMsMax)))) {
            silence.stop();
            yield JSON.parse(data) as TimelineEntry;
            silence.restart();
            last = id ?? last;
            failed = 0;
          }
        } finally {
          silence.stop();
          over.abort();
        }
        // Ended by the gateway, or by a proxy in between; only the gateway can say which, by 204.
        waitMs = retryMs;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof GatewayError && !isResent(error)) throw error;
        if (error instanceof SyntaxError) throw error;
        waitMs = Math.max(
          retryMs,
          this.#http.pauseAfter(error instanceof GatewayError || error instanceof NoAnswer ? error : undefined, failed),
        );
        failed += 1;
      }
      await pause(waitMs, signal);
    }
  }

  /**
   * Pays: allowance where one is missing, prepare, rebuild and compare, sign, submit, wait. It comes back with `completed` or
   * `failed` ({@link PaymentFailed.unlessCompleted} throws for the latter).
   *
   * With the `requestId` of an earlier try it is the same payment: whatever became of that try, money is taken once.
   *
   * @throws {VerificationError} where the gateway would have the payer sign something else; nothing was signed.
   * @throws {NoAnswer} where nobody answers until every window has passed; {@link Gateway.submit} takes the same body at any time.
   */
  pay(order: Order, wallet: Wallet, options: PayOptions = {}): Promise<PayResult> {
    return new Paying(this, this.#http).pay(order, wallet, options);
  }

  /**
   * Takes a quote out of a batch that {@link Gateway.quote} gave, and pays for it as {@link Gateway.pay} does. The signature is for
   * that quote and no other. A batch that came in another way is the gateway's word: `options.order` is what it is held against.
   */
  payQuote(batch: QuoteBatch, quoteId: string, wallet: Wallet, options: PayQuoteOptions = {}): Promise<PayResult> {
    return new Paying(this, this.#http).payQuote(batch, quoteId, wallet, options);
  }

  /**
   * Pays up to 256 orders from one account on an EVM chain with one signature: prepare, rebuild and compare, allowances where they are
   * missing, sign, submit. It comes back when each payment is accepted or refused, in the order of `orders`; from then on they are payments
   * as any other, and {@link Gateway.wait} and {@link Gateway.watch} tell of each by its id. What is drawn is the sum of `maxSource` of
   * each token, once, and what a payment leaves of its part comes back.
   *
   * With the `requestId`s of an earlier try the payments that it made are found, and the others are paid.
   *
   * @throws {VerificationError} where the gateway would have the payer sign something else; nothing was signed.
   * @throws {NoAnswer} where nobody answers until every window has passed; {@link Gateway.submitBatch} takes the same body at any time.
   */
  payBatch(orders: readonly Order[], wallet: Wallet, options: PayBatchOptions = {}): Promise<BatchResult> {
    return payBatch(this, this.#http, orders, wallet, options);
  }

  /**
   * Signs once what a merchant may ask for, so much in each period, on an EVM chain: prepare, rebuild and compare, allowance where one is
   * missing, sign. What comes back is for the merchant, by whatever way; the gateway keeps none of it. The payer ends the mandate at any
   * time, by the call that comes back with it.
   *
   * @throws {VerificationError} where the gateway would have the payer sign something else; nothing was signed.
   */
  signMandate(order: MandateOrder, wallet: Wallet, options: SignMandateOptions = {}): Promise<SignedMandate> {
    return signMandate(this, order, wallet, options);
  }

  /**
   * Asks for a payment as the merchant of a mandate: prepare, rebuild and compare, sign, submit, wait. `order.source.account` is the payer, the
   * wallet's account the merchant, and `order.maxSource` what is drawn; what it does not cost goes back to the payer.
   *
   * With the `requestId` of an earlier try it is the same payment: whatever became of that try, money is drawn once. The payer, and all of
   * its merchants, share the `requestId`s of its account: who has taken one for another payment has it refused here.
   *
   * @throws {VerificationError} where the gateway would have the merchant sign something else; nothing was signed.
   * @throws {GatewayError} `INSUFFICIENT_ALLOWANCE` where the period, or what the payer allows, has too little left.
   * @throws {NoAnswer} where nobody answers until every window has passed; {@link Gateway.submit} takes the same body at any time.
   */
  charge(order: Order, payload: MandatePayload, wallet: Wallet, options: ChargeOptions = {}): Promise<ChargeResult> {
    return charge(this, this.#http, order, payload, wallet, options);
  }

  /** The defaults of all chains of a payment. */
  async paymentDefaults(
    request: Pick<QuoteRequest, 'source' | 'destination'>,
    options: CallOptions = {},
  ): Promise<PaymentDefaults> {
    const all = await Promise.all(chainsOf(request).map((id) => this.defaults(id, options)));
    const [source] = all;
    if (!source) throw new UsageError('a request has a source');
    return { source, refundDelaySeconds: Math.max(...all.map(({ refund_delay_seconds: seconds }) => seconds)) };
  }

  async #accepted(
    path: string,
    body: PaymentRequest | AwardRequest | DepositAddressRequest,
    options: CallOptions & Pick<Call, 'headers'>,
  ): Promise<PaymentResponse> {
    const answer = await this.#http.call<PaymentResponse>({ ...options, method: 'POST', path, body });
    this.#remember(answer.body.payment_id, answer.headers);
    return answer.body;
  }

  /** What the next read of the payment must show at least (ADR 124). */
  #remember(paymentId: string, headers: Headers): void {
    const position = headers.get('x-position');
    if (position === null || !/^\d{1,15}$/.test(position)) return;
    const known = this.#positions.get(paymentId);
    if (known !== undefined && Number(known) >= Number(position)) return;
    this.#positions.delete(paymentId);
    this.#positions.set(paymentId, position);
    const [oldest] = this.#positions.keys();
    if (this.#positions.size > POSITIONS_MAX && oldest !== undefined) this.#positions.delete(oldest);
  }
}

const secretHeader = (secret: string | undefined): Pick<Call, 'headers'> =>
  secret === undefined ? {} : { headers: { 'caller-secret': secret } };

const growing = (ms: number, tried: number): number => Math.min(ms * 1.25 ** Math.min(tried, 32), Math.max(ms, POLL_MS_MAX));
