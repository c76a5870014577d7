// Signing for a batch: the message is the gateway's, and is signed where leaves, root and sums are those of the payer's own list.

import { batchRequest } from '../../../sdk/typescript/src/batches.js';
import { VerificationError } from '../../../sdk/typescript/src/errors.js';
import { type Batch, batchOf } from '../../../sdk/typescript/src/evm/batches.js';
import { EVM_PERMIT2_BATCH } from '../../../sdk/typescript/src/schemes.js';
import { orderRequest, spendOf } from '../../../sdk/typescript/src/spend.js';
import type {
  BatchSpend,
  Defaults,
  PaymentBatchRequest,
  PreparedPaymentBatch,
  PreparePaymentBatchRequest,
  Wallet,
} from '../../../sdk/typescript/src/types.js';
import { chainOf } from '../chains.js';
import { gateway } from '../gateway.js';
import { fingerprintOf, type ListedPayment } from './list.js';
import { keepBatch, type KeptBatch } from './store.js';

const QUOTE_SECONDS = 10;
/** By when payments have to be there: so long for the first wave of deposits, and so much longer for each further one. */
const FULFILLMENT_SECONDS = 1200;
const WAVE = 64;
const WAVE_SECONDS = 600;
const PAUSE_MS = 1500;
/** How long the gateway may take to see what the payer has sent, in milliseconds. */
const SEEN_MS = 120_000;
/** Payments that are looked for at a time. */
const AT_ONCE = 8;

/** What is paid, by whom, and with what. */
export interface Plan {
  payments: readonly ListedPayment[];
  source: string;
  account: string;
}

/** What was prepared, once it was held against the plan. */
export interface Checked {
  request: PreparePaymentBatchRequest;
  batch: BatchSpend;
  prepared: PreparedPaymentBatch;
  /** What the wallet is going to show: root, sums, deadline. */
  shown: Batch;
}

/** The payments among these that the account has already, by their references: they are not paid again. */
export async function paidBefore(payments: readonly ListedPayment[], account: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const named = payments.filter(({ reference }) => reference !== undefined);
  const look = async ({ requestId }: ListedPayment): Promise<void> => {
    const payment = await gateway.resolve({ requestId, account });
    if (payment) found.set(requestId, payment.payment_id);
  };
  for (let at = 0; at < named.length; at += AT_ONCE) await Promise.all(named.slice(at, at + AT_ONCE).map(look));
  return found;
}

/** What is asked for by this plan, and all that its authorization is rebuilt from; times are counted from now on. */
export function askedFor({ payments, source, account }: Plan, defaults: Defaults, nowMs = Date.now()): Pick<Checked, 'request' | 'batch'> {
  const waves = Math.ceil(payments.length / WAVE);
  const seconds = FULFILLMENT_SECONDS + (waves - 1) * WAVE_SECONDS;
  const requests = payments.map(({ requestId, to, amount, most }) =>
    orderRequest(
      {
        requestId,
        source: { asset: source, account },
        destination: { asset: to.asset_identifier, account: to.account },
        amount,
        maxSource: most,
        quoteDeadline: new Date(nowMs + QUOTE_SECONDS * 1000),
        fulfillmentDeadline: new Date(nowMs + seconds * 1000),
      },
      account,
      nowMs,
    ),
  );
  const served = (asset: string) => defaults.chains[chainOf(asset)];
  const spends = requests.map((request, at) => {
    const own = served(source);
    const delays = [own, served(payments[at]?.to.asset_identifier ?? '')].map((chain) => chain?.refund_delay_seconds);
    if (!own || delays.includes(undefined)) throw new VerificationError('chain', 'the gateway does not serve a chain of the list any more');
    return spendOf(request, { source: own, refundDelaySeconds: Math.max(...delays.map(Number)) }, {}, nowMs);
  });
  const reserveDeadline = Math.min(...spends.map(({ fulfillmentDeadline }) => fulfillmentDeadline));
  return { request: batchRequest(requests, reserveDeadline), batch: { spends, reserveDeadline } };
}

/**
 * The message for this plan, compared with what the plan makes.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else.
 */
export async function checked(plan: Plan, wallet: Wallet): Promise<Checked> {
  const asked = askedFor(plan, await gateway.defaults());
  const prepared = await gateway.prepareBatch(asked.request);
  insist(wallet).verifyBatch(asked.batch, prepared);
  return { ...asked, prepared, shown: batchOf(asked.batch) };
}

type BatchWallet = Wallet & Required<Pick<Wallet, 'verifyBatch' | 'signBatch'>>;

function insist(wallet: Wallet): BatchWallet {
  if (!wallet.verifyBatch || !wallet.signBatch) throw new Error(`${wallet.account} signs for no batches`);
  return wallet as BatchWallet;
}

/** Whether the payer has to send something first. */
export const isShort = ({ approvals, wraps }: PreparedPaymentBatch): boolean => Boolean(approvals?.length || wraps?.length);

/**
 * Sends what is missing, for all payments together, and waits until the gateway sees what it did. Something is missing still where the
 * account holds too little.
 */
export async function fund(
  plan: Plan,
  wallet: Wallet,
  { batch }: Checked,
  told: (what: 'approve' | 'wrap') => void,
): Promise<Checked> {
  const [first] = batch.spends;
  if (!first) throw new Error('a batch has a payment');
  await wallet.connect(first.chainId);
  const all = batch.spends.reduce((sum, { cap }) => sum + cap, 0n);
  const onStep = ({ step, what }: { step: string; what: 'approve' | 'wrap' }): void => {
    if (step === 'sent') told(what);
  };
  const sent = await wallet.fund({ ...first, cap: all }, { wrap: first.wraps, allowance: all, onStep });
  const until = Date.now() + SEEN_MS;
  for (;;) {
    const now = await checked(plan, wallet);
    if (!isShort(now.prepared) || !sent.length || Date.now() > until) return now;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/**
 * The signature. What was signed is kept before it is handed in; `told` is what the wallet is going to show. A batch that lacks an allowance by
 * now comes back as it was prepared.
 */
export async function sign(plan: Plan, wallet: Wallet, told: (shown: Batch) => void): Promise<{ signed: KeptBatch } | { short: Checked }> {
  const own = insist(wallet);
  await own.connect(chainOf(plan.source));
  const made = await checked(plan, own);
  const { request, batch, prepared, shown } = made;
  if (isShort(prepared)) return { short: made };
  told(shown);
  const signed_messages = await own.signBatch(batch, prepared);
  const body: PaymentBatchRequest = { ...request, sender_auth: { message_scheme: EVM_PERMIT2_BATCH, signed_messages } };
  const signed: KeptBatch = {
    root: shown.payments,
    at: new Date().toISOString(),
    source: { asset_identifier: plan.source, account: plan.account },
    reserveDeadline: batch.reserveDeadline,
    fingerprint: fingerprintOf(plan.payments),
    payments: plan.payments.map(({ requestId, line, reference, to, amount, most }, at) => ({
      requestId,
      paymentId: batch.spends[at]?.paymentId ?? '',
      line,
      ...(reference === undefined ? {} : { reference }),
      to,
      amount: amount.toString(),
      most: most.toString(),
      standing: { is: 'open' },
    })),
    body,
  };
  keepBatch(signed);
  return { signed };
}
