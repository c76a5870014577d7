// Signing for a batch: the message is the gateway's, and is signed where leaves, root and sums are those of the payer's own list.

import { keccak } from '../../../sdk/typescript/src/abi.js';
import { batchRequest } from '../../../sdk/typescript/src/batches.js';
import { hex } from '../../../sdk/typescript/src/bytes.js';
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
import { isPaidBy } from '../order.js';
import { isUnknownPayment, PaidElsewhere } from '../problems.js';
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

/** A payment that the account has under the reference of one of the list. `failed`, `other`: the list's own is not paid by it. */
export interface Earlier {
  paymentId: string;
  is: 'paid' | 'failed' | 'other';
}

/** The payments among these whose references are used up: none is paid under them again. */
export async function paidBefore(payments: readonly ListedPayment[], account: string): Promise<Map<string, Earlier>> {
  const found = new Map<string, Earlier>();
  const named = payments.filter(({ reference }) => reference !== undefined);
  const look = async (listed: ListedPayment): Promise<void> => {
    const { requestId } = listed;
    const payment = await gateway.resolve({ requestId, account });
    if (!payment) return;
    const { payment_id: paymentId, status } = payment;
    const isOther = (await paysFor(listed, paymentId)) === false;
    found.set(requestId, { paymentId, is: isOther ? 'other' : status === 'failed' ? 'failed' : 'paid' });
  };
  for (let at = 0; at < named.length; at += AT_ONCE) await Promise.all(named.slice(at, at + AT_ONCE).map(look));
  return found;
}

/** Whether the payment pays what is listed; `undefined` where nothing says so yet. */
async function paysFor({ to, amount }: ListedPayment, paymentId: string): Promise<boolean | undefined> {
  try {
    const { entries } = await gateway.timeline(paymentId);
    return isPaidBy({ destinations: [to], amount: amount.toString() }, entries);
  } catch (error) {
    if (isUnknownPayment(error)) return undefined;
    throw error;
  }
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
  { batch, prepared }: Checked,
  told: (what: 'approve' | 'wrap') => void,
): Promise<Checked> {
  const [first] = batch.spends;
  if (!first) throw new Error('a batch has a payment');
  await wallet.connect(first.chainId);
  const all = batch.spends.reduce((sum, { cap }) => sum + cap, 0n);
  const onStep = ({ step, what }: { step: string; what: 'approve' | 'wrap' }): void => {
    if (step === 'sent') told(what);
  };
  const sent = await wallet.fund({ ...first, cap: all }, { wrap: first.wraps && Boolean(prepared.wraps?.length), allowance: all, onStep });
  const until = Date.now() + SEEN_MS;
  for (;;) {
    const now = await checked(plan, wallet);
    if (!isShort(now.prepared) || !sent.length || Date.now() > until) return now;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** What came of signing: `short` lacks an allowance by now, and `untold` is a list that another tab has signed for meanwhile. */
export type Signing = { signed: KeptBatch } | { short: Checked } | { untold: true };

/**
 * The signature. What was signed is kept before it is handed in, and a list is signed for in one tab at a time.
 *
 * @param isTold Whether the payer knows of every list like this one that was signed for in this browser.
 * @param told What the wallet is going to show.
 * @throws {PaidElsewhere} where another tab is at it.
 */
export async function sign(plan: Plan, wallet: Wallet, isTold: () => boolean, told: (shown: Batch) => void): Promise<Signing> {
  const locks = (navigator as { locks?: LockManager }).locks;
  if (!locks) return signed(plan, wallet, isTold, told);
  return locks.request(`batch:${hex(keccak(fingerprintOf(plan.payments)))}`, { ifAvailable: true }, (lock) => {
    if (!lock) throw new PaidElsewhere();
    return signed(plan, wallet, isTold, told);
  });
}

async function signed(plan: Plan, wallet: Wallet, isTold: () => boolean, told: (shown: Batch) => void): Promise<Signing> {
  if (!isTold()) return { untold: true };
  const own = insist(wallet);
  await own.connect(chainOf(plan.source));
  const made = await checked(plan, own);
  const { request, batch, prepared, shown } = made;
  if (isShort(prepared)) return { short: made };
  told(shown);
  const signed_messages = await own.signBatch(batch, prepared);
  const body: PaymentBatchRequest = { ...request, sender_auth: { message_scheme: EVM_PERMIT2_BATCH, signed_messages } };
  // Without locks another tab may have been faster: this signature goes to nobody.
  if (!isTold()) return { untold: true };
  const kept: KeptBatch = {
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
  keepBatch(kept);
  return { signed: kept };
}
