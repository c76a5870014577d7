// Paying many orders with one signature. Each is a payment of its own from then on; what is of the batch is what the payer signs, and
// that the bodies of many go in one.

import { familyOf, splitAsset } from './caip.js';
import { ERROR_CODES } from './codes.js';
import { GatewayError, UsageError, VerificationError, WalletError } from './errors.js';
import type { Gateway } from './gateway.js';
import type { Http } from './http.js';
import { OUTCOME_SECONDS, persist, seen } from './persist.js';
import { isResent, nextStep } from './retry.js';
import { EVM_PERMIT2_BATCH } from './schemes.js';
import { believed, chainsOf, newRequestId, orderRequest, spendOf } from './spend.js';
import type { PaymentDefaults } from './spend.js';
import type {
  BatchPaid,
  BatchResult,
  BatchSpend,
  CallOptions,
  ErrorBody,
  Order,
  PayBatchOptions,
  PaymentBatchRequest,
  PaymentBatchResponse,
  PrepareRequest,
  PreparePaymentBatchRequest,
  PreparedPaymentBatch,
  SignedMessage,
  Spend,
  Wallet,
} from './types.js';

/** Most payments of a batch. */
const PAYMENTS_MAX = 256;
/** Payments that are looked for at a time. */
const AT_ONCE = 16;
/** What no payment of a batch has: its originator is its payer, and the batch has one deadline. */
const NOT_OF_ONE = ['sender_auth', 'reserve_deadline', 'originator_auth', 'proof', 'originator'];

/** An order that has its id. */
type Named = Order & { requestId: string };

/** What is asked for, and all that its authorization is rebuilt from. */
interface Asked {
  request: PreparePaymentBatchRequest;
  batch: BatchSpend;
}

/** A wallet whose chains have batches. */
type BatchWallet = Wallet & Required<Pick<Wallet, 'verifyBatch' | 'signBatch'>>;

/** {@link Gateway.payBatch}, which says what it promises. */
export async function payBatch(
  gateway: Gateway,
  http: Http,
  orders: readonly Order[],
  wallet: Wallet,
  options: PayBatchOptions = {},
): Promise<BatchResult> {
  const named = orders.map((order): Named => ({ ...order, requestId: order.requestId ?? newRequestId() }));
  const payer = checked(named, wallet);
  const call = options.signal ? { signal: options.signal } : {};
  await payer.connect(chainOf(named[0]!));
  const isRetry = orders.every(({ requestId }) => requestId !== undefined);
  const known = isRetry ? await accepted(gateway, named, payer, call) : new Map<string, BatchPaid>();
  const missing = named.filter(({ requestId }) => !known.has(requestId));
  const { payments, ...others } = missing.length
    ? await new Paying(gateway, http, missing, payer, options).pay()
    : { payments: [], sent: [] };
  payments.forEach((payment) => known.set(payment.requestId, payment));
  return { payments: named.map(({ requestId }) => known.get(requestId)!), ...others };
}

const chainOf = ({ source }: Order): string => splitAsset(source.asset).chainId;

/** The wallet, where it can pay these orders together. */
function checked(orders: readonly Named[], wallet: Wallet): BatchWallet {
  if (!orders.length || orders.length > PAYMENTS_MAX)
    throw new UsageError(`a batch has 1 to ${PAYMENTS_MAX} payments, and not ${orders.length}`);
  if (!wallet.verifyBatch || !wallet.signBatch) throw new UsageError(`batches are paid on EVM chains, and not by the wallet of ${wallet.account}`);
  const [first] = orders as [Named];
  const ids = new Set<string>();
  for (const [at, { requestId, extra = {}, source }] of orders.entries()) {
    if (ids.has(requestId)) throw new UsageError(`payments[${at}]: another payment of the batch has the requestId ${requestId}`);
    ids.add(requestId);
    const foreign = NOT_OF_ONE.find((name) => name in extra);
    if (foreign) throw new UsageError(`payments[${at}]: ${foreign} is nothing of one payment of a batch`);
    const { chainId, namespace } = splitAsset(source.asset);
    if (namespace === 'slip44')
      throw new UsageError(`payments[${at}]: ${source.asset} is a coin: pay with the asset that wraps it, see /v1/defaults`);
    if (chainId !== chainOf(first)) throw new UsageError(`payments[${at}]: all payments of a batch are paid on one chain, ${chainOf(first)}`);
    const { account } = orderRequest(orders[at]!, wallet.account).source;
    if (familyOf(source.asset) !== wallet.family || account !== wallet.account)
      throw new WalletError('chain', `the wallet is ${wallet.account}, and ${account} on ${chainId} pays`);
  }
  return wallet as BatchWallet;
}

/**
 * The payments that exist already, where the first does: a gateway accepts it before the others, so where it is missing an earlier
 * try came to nothing.
 */
async function accepted(gateway: Gateway, orders: readonly Named[], { account }: Wallet, call: CallOptions): Promise<Map<string, BatchPaid>> {
  const found = new Map<string, BatchPaid>();
  const look = async ({ requestId }: Named): Promise<void> => {
    const payment = await gateway.resolve({ requestId, account }, call);
    if (payment) found.set(requestId, { requestId, paymentId: payment.payment_id, payment });
  };
  const [first, ...others] = orders as [Named];
  await look(first);
  if (!found.size) return found;
  for (let at = 0; at < others.length; at += AT_ONCE) await Promise.all(others.slice(at, at + AT_ONCE).map(look));
  return found;
}

/**
 * The body of a batch: what several payments have in common stands once, beside them, because bodies have a limit.
 *
 * @param requests Of each payment, without `sender_auth`.
 */
export function batchRequest(requests: readonly PrepareRequest[], reserveDeadline: number): PreparePaymentBatchRequest {
  // As they are sent, without what is undefined.
  const members = requests.map((request) => JSON.parse(JSON.stringify(request)) as Record<string, unknown>);
  // What one payment lacks it must not be given.
  const names = Object.keys(members[0] ?? {}).filter((name) => name !== 'request_id' && members.every((one) => name in one));
  const shared = Object.fromEntries(
    names.flatMap((name) => {
      const value = commonest(members.map((one) => JSON.stringify(one[name])));
      return value === undefined ? [] : [[name, value]];
    }),
  );
  const isOwn = ([name, value]: [string, unknown]): boolean => !(name in shared) || shared[name] !== JSON.stringify(value);
  const payments = members.map((one) => Object.fromEntries(Object.entries(one).filter(isOwn)));
  const beside = Object.fromEntries(Object.entries(shared).map(([name, value]) => [name, JSON.parse(value) as unknown]));
  return { ...beside, reserve_deadline: reserveDeadline, payments } as PreparePaymentBatchRequest;
}

/** The value that stands most often; `undefined` where none of several stands twice. */
function commonest(values: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const [[value, count] = []] = [...counts].sort(([, one], [, other]) => other - one);
  return values.length > 1 && count === 1 ? undefined : value;
}

class Paying {
  readonly #call: CallOptions;

  constructor(
    private readonly gateway: Gateway,
    private readonly http: Http,
    private readonly orders: readonly Named[],
    private readonly wallet: BatchWallet,
    private readonly options: PayBatchOptions,
  ) {
    this.#call = options.signal ? { signal: options.signal } : {};
  }

  async pay(): Promise<BatchResult> {
    const { gateway, wallet } = this;
    const { onStep } = this.options;
    const defaults = await this.#defaults();
    const first = this.#asked(defaults);
    await this.#ordered(first.batch);
    // What is not the payer's own, or what the gateway refuses, costs no transaction.
    const prepared = await gateway.prepareBatch(first.request, this.#call);
    wallet.verifyBatch(first.batch, prepared);
    const sent = await this.#fund(first.batch);
    // Wrapping and allowances took the blocks that they took, and times are counted anew.
    const { request, batch } = sent.length ? this.#asked(defaults) : first;
    const signing = sent.length ? await seen(true, this.#call, (call) => gateway.prepareBatch(request, call)) : prepared;
    const body: PaymentBatchRequest = { ...request, sender_auth: await this.#sign({ request, batch }, signing) };
    await onStep?.({ step: 'submitting', body });
    // By then every window has passed.
    const windows = batch.spends.map(({ fulfillmentDeadline, refundDelaySeconds }) => fulfillmentDeadline + refundDelaySeconds);
    const end = (Math.max(...windows) + OUTCOME_SECONDS) * 1000;
    const payments = await this.#submit(body, batch, end, sent.length > 0);
    await onStep?.({ step: 'accepted', payments });
    return { payments, body, batch, sent };
  }

  /** What is asked for, by the order of now. */
  #asked(defaults: (request: PrepareRequest) => PaymentDefaults): Asked {
    const nowMs = Date.now();
    const requests = this.orders.map((order) => orderRequest(order, this.wallet.account, nowMs));
    const spends = requests.map((request) => spendOf(request, defaults(request), this.options.trust, nowMs));
    const elsewhere = spends.findIndex(({ escrow }) => escrow !== spends[0]?.escrow);
    if (elsewhere > 0) throw new UsageError(`payments[${elsewhere}]: a batch has one escrow, that of its first payment`);
    const latest = Math.min(...spends.map(({ fulfillmentDeadline }) => fulfillmentDeadline));
    const { reserveDeadline: wanted } = this.options;
    const reserveDeadline = wanted ? Math.floor(wanted.getTime() / 1000) : latest;
    if (!(reserveDeadline <= latest)) throw new UsageError(`reserveDeadline is after the earliest fulfillment deadline, ${latest}`);
    return { request: batchRequest(requests, reserveDeadline), batch: { spends, reserveDeadline } };
  }

  /** What the gateway uses on each chain of the batch, as a payment has it. */
  async #defaults(): Promise<(request: PrepareRequest) => PaymentDefaults> {
    const chains = (order: Named): string[] => chainsOf(orderRequest(order, this.wallet.account));
    const ids = [...new Set(this.orders.flatMap(chains))];
    const all = new Map(await Promise.all(ids.map(async (id) => [id, await this.gateway.defaults(id, this.#call)] as const)));
    return (request) => {
      const [source, ...others] = chainsOf(request).map((id) => all.get(id)!) as [PaymentDefaults['source']];
      return { source, refundDelaySeconds: Math.max(...[source, ...others].map(({ refund_delay_seconds: seconds }) => seconds)) };
    };
  }

  async #ordered({ spends }: BatchSpend): Promise<void> {
    const payments = spends.map(({ paymentId, verifiers }, at) => {
      const shown = verifiers ? { verifiers } : {};
      return { requestId: this.orders[at]!.requestId, paymentId, ...shown };
    });
    const accounts = new Set(spends.flatMap((spend) => believed(spend, this.options.trust)));
    await this.options.onStep?.({ step: 'ordered', payments, believed: [...accounts] });
  }

  /** The payer's own transactions, of each token for all payments together. */
  async #fund({ spends }: BatchSpend): Promise<BatchResult['sent']> {
    const { wrap = false, allowance, onStep } = this.options;
    const tokens = new Map<string, Spend>();
    for (const spend of spends) {
      const { asset_identifier: asset } = spend.terms.source;
      tokens.set(asset, { ...spend, cap: spend.cap + (tokens.get(asset)?.cap ?? 0n) });
    }
    const drawn = [...tokens.values()];
    if (wrap && !drawn.some(({ wraps }) => wraps))
      throw new VerificationError('wrap', `the gateway does not say that one of ${[...tokens.keys()].join(', ')} wraps coins`);
    const short = drawn.find(({ cap }) => allowance !== undefined && allowance < cap);
    if (short) throw new UsageError(`an allowance of ${allowance} is less than may be drawn, ${short.cap}`);
    const sent: BatchResult['sent'] = [];
    for (const spend of drawn) {
      const funding = { wrap: wrap && spend.wraps, allowance: allowance ?? spend.cap, ...this.#call };
      sent.push(...(await this.wallet.fund(spend, { ...funding, onStep: async (step) => onStep?.(step) })));
    }
    return sent;
  }

  /** The signature over what was prepared, once that was compared with what was asked for. */
  async #sign({ request, batch }: Asked, prepared: PreparedPaymentBatch): Promise<PaymentBatchRequest['sender_auth']> {
    this.wallet.verifyBatch(batch, prepared);
    await this.options.onStep?.({ step: 'signing', request, prepared });
    this.options.signal?.throwIfAborted();
    const signed: SignedMessage[] = await this.wallet.signBatch(batch, prepared);
    return { message_scheme: EVM_PERMIT2_BATCH, signed_messages: signed };
  }

  /**
   * What became of each payment. Where nothing is known of one, or it lacks what was just sent, the same body is submitted again, which
   * finds the others as they are.
   */
  async #submit(body: PaymentBatchRequest, batch: BatchSpend, end: number, hasSent: boolean): Promise<BatchPaid[]> {
    const { signal } = this.options;
    let payments: BatchPaid[] | undefined;
    const submit = async (call: CallOptions): Promise<BatchPaid[]> => {
      payments = this.#paid(await this.gateway.submitBatch(body, { ...call, retries: 0 }), batch);
      const again = payments.find(({ error }) => isResent(error) || nextStep(error) === 'resend-when-funded');
      if (again) throw again.error;
      return payments;
    };
    try {
      return await persist(this.http, end, signal, () => seen(hasSent, this.#call, submit));
    } catch (error) {
      // What was answered before says more.
      if (!payments || signal?.aborted || error instanceof VerificationError) throw error;
      return payments;
    }
  }

  /** The answer for each payment, which is about these payments. */
  #paid({ payments }: PaymentBatchResponse, { spends }: BatchSpend): BatchPaid[] {
    return spends.map(({ paymentId }, at) => {
      const { requestId } = this.orders[at]!;
      const answer = payments[at];
      const found = answer?.payment?.payment_id ?? answer?.payment_id;
      if (payments.length !== spends.length || answer?.payment_id !== paymentId || found !== paymentId) {
        const rule = `the payment has another id, ${found}, and not ${paymentId}`;
        throw new VerificationError(`payments[${at}].payment_id`, rule, paymentId, found);
      }
      if (answer.payment) return { requestId, paymentId, payment: answer.payment };
      return { requestId, paymentId, error: refusalOf(answer.error ?? { code: 'OUTCOME_UNKNOWN', message: 'the gateway does not say' }) };
    });
  }
}

/** The refusal of one payment, with the status that it would have had alone. */
function refusalOf(body: ErrorBody): GatewayError {
  const known = (ERROR_CODES as Record<string, { status: number | null } | undefined>)[body.code];
  return new GatewayError(known?.status ?? 200, body);
}
