// Paying, with what is needed to go on kept before anything has an effect.

import { GatewayError, NoAnswer } from '../../sdk/typescript/src/errors.js';
import { schemeFor } from '../../sdk/typescript/src/schemes.js';
import { spendOf } from '../../sdk/typescript/src/spend.js';
import { knownPermit2 } from '../../sdk/typescript/src/trust.js';
import type { AwardRequest, Defaults, PreparedPayment, QuoteBatch, Scheme, Trust, Wallet } from '../../sdk/typescript/src/types.js';
import { chainOf } from './chains.js';
import { servedAsset } from './format.js';
import { gateway } from './gateway.js';
import type { Source } from './link.js';
import { isPaidBy, type Purchase, quotesOf, requestOf } from './order.js';
import { isForeign, isUnknownPayment, PaidElsewhere } from './problems.js';
import { inPlaceOf } from './signatures.js';
import { forget, keep, kept, type Kept, noteAccepted, noteSent, sentUntil } from './store.js';
import type { OpenWallet } from './wallets/index.js';

const PAUSE_MS = 1500;

export type PayPhase = 'approve' | 'wrap' | 'signing' | 'signing.two' | 'submitting';

/** What the payer has to send first, as the gateway sees its account, and what it is going to sign. */
export async function needed(purchase: Purchase, source: Source, defaults: Defaults, wallet: Wallet): Promise<PreparedPayment> {
  const { batch, requestId } = purchase;
  const wanted = schemeOn(chainOf(source.asset_identifier), defaults, wallet);
  const scheme = wanted ? { message_scheme: wanted } : {};
  if (!batch) return gateway.prepare({ ...requestOf(purchase, source, wallet.account), request_id: requestId, ...scheme });
  const [best] = quotesOf(batch, purchase);
  const quoteId = best?.quoteId ?? '';
  return gateway.prepare({ version: '1.0', request_id: requestId, quote_request_id: batch.quote_request_id, quote_id: quoteId, ...scheme });
}

/** On networks of which the SDK does not know where Permit2 is, it is where the gateway that serves the page says, as the escrow is. */
function trustOn(chainId: string, defaults: Defaults): Trust {
  const permit2 = defaults.chains[chainId]?.permit2;
  return permit2 !== undefined && knownPermit2(chainId) === undefined ? { permit2 } : {};
}

/** The scheme that the gateway is asked for, as the SDK asks when it pays. */
function schemeOn(chainId: string, defaults: Defaults, wallet: Wallet): Scheme | undefined {
  const own = knownPermit2(chainId, trustOn(chainId, defaults));
  return schemeFor(wallet, { chainId, own, named: defaults.chains[chainId]?.permit2 });
}

/**
 * The same, once what this browser has sent before has had its time to be seen: nobody is asked to send it twice because a page was
 * loaded again.
 */
export async function stillNeeded(
  purchase: Purchase,
  source: Source,
  defaults: Defaults,
  wallet: Wallet,
  waiting: () => void,
): Promise<PreparedPayment> {
  for (;;) {
    const prepared = await needed(purchase, source, defaults, wallet);
    const isMissing = prepared.approval !== undefined || prepared.wrap !== undefined;
    if (!isMissing || Date.now() > sentUntil(purchase.subject, wallet.account)) return prepared;
    waiting();
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** Sends the payer's own transactions that are missing, and waits until the gateway sees what they did. */
export async function fund(
  purchase: Purchase,
  source: Source,
  defaults: Defaults,
  { wallet, lookAt }: OpenWallet,
  told: (what: 'approve' | 'wrap') => void,
  first: PreparedPayment,
): Promise<void> {
  const cap = source.max_source_amount ?? first.approval?.amount;
  if (cap === undefined) return;
  const request = requestOf(purchase, { ...source, max_source_amount: cap }, wallet.account);
  const spend = spendOf({ ...request, request_id: purchase.requestId }, await gateway.paymentDefaults(request));
  // The wallet may have been changed to another chain since it was connected.
  await wallet.connect(spend.chainId);
  lookAt?.(() => needed(purchase, source, defaults, wallet));
  await wallet.fund(spend, {
    wrap: spend.wraps,
    allowance: inPlaceOf(first) === 'none' ? spend.cap : 0n,
    onStep: (step) => {
      if (step.step !== 'sent') return;
      noteSent(purchase.subject, wallet.account);
      told(step.what);
    },
  });
}

/**
 * Takes a quote: signs for it and hands it in. What was signed is kept before it is handed in, so that a page that is loaded again
 * can hand in the same. What another tab has signed meanwhile is handed in instead. Resolves to the payment's id.
 *
 * @throws {PaidElsewhere} where another tab is at it.
 */
export async function pay(...of: Parameters<typeof signed>): Promise<string> {
  const [purchase] = of;
  const work = async (): Promise<string> => {
    const known = kept(purchase.subject);
    return (known && (await resume(purchase, known))) ?? signed(...of);
  };
  // Pages that came without TLS have no locks; what is kept is looked at once more before anything is handed in.
  const locks = (navigator as { locks?: LockManager }).locks;
  if (!locks) return work();
  return locks.request(`pay:${purchase.subject}`, { ifAvailable: true }, (lock) => {
    if (!lock) throw new PaidElsewhere();
    return work();
  });
}

async function signed(
  purchase: Purchase,
  source: Source,
  { wallet, found }: OpenWallet,
  batch: QuoteBatch,
  quoteId: string,
  defaults: Defaults,
  told: (phase: PayPhase, toSign?: PreparedPayment) => void,
): Promise<string> {
  const { subject } = purchase;
  let paymentId: string | undefined;
  let isKept = false;
  // Where nobody set a limit, the price that was chosen is one.
  const most = source.max_source_amount ?? quotesOf(batch, purchase).find((quote) => quote.quoteId === quoteId)?.price;
  // The batch writes the account as who opened it did.
  const named: QuoteBatch = { ...batch, source: { ...batch.source, account: wallet.account } };
  try {
    const paid = await gateway.payQuote(named, quoteId, wallet, {
      requestId: purchase.requestId,
      order: requestOf(purchase, source, wallet.account),
      until: 'accepted',
      wrap: servedAsset(defaults, source.asset_identifier)?.wraps !== undefined,
      trust: trustOn(chainOf(source.asset_identifier), defaults),
      ...(most === undefined ? {} : { maxSource: BigInt(most) }),
      onStep: (step) => {
        if (step.step === 'ordered') paymentId = step.paymentId;
        if (step.step === 'sent') told(step.what);
        if (step.step === 'signing') told(step.prepared.signed_messages.length > 1 ? 'signing.two' : 'signing', step.prepared);
        if (step.step === 'submitting' && paymentId !== undefined) {
          if (kept(subject)) throw new PaidElsewhere();
          told('submitting');
          const { source: payer } = named;
          const body = step.body as AwardRequest;
          isKept = keep(subject, { source: payer, wallet: found.id, quoteRequestId: batch.quote_request_id, quoteId, paymentId, body });
        }
      },
    });
    noteAccepted(subject, paid.paymentId);
    return paid.paymentId;
  } catch (error) {
    // A refusal may be that of a repetition: whether there is a payment is read, not guessed.
    if (error instanceof GatewayError && paymentId !== undefined && isKept) {
      if ((await existing(purchase, paymentId)) === 'same') {
        noteAccepted(subject, paymentId);
        return paymentId;
      }
      if (!isForeign(error)) forget(subject, paymentId);
    }
    throw error;
  }
}

/**
 * Whether the gateway has the payment, and whether it pays the purchase: `other` where the account has paid something else under
 * the same request id.
 *
 * @throws {NoAnswer} where that cannot be said.
 */
export async function existing(purchase: Purchase, paymentId: string): Promise<'same' | 'other' | undefined> {
  try {
    await gateway.status(paymentId);
  } catch (error) {
    if (isUnknownPayment(error)) return undefined;
    throw error;
  }
  let isSame: boolean | undefined;
  try {
    isSame = isPaidBy(purchase, (await gateway.timeline(paymentId)).entries);
  } catch (error) {
    if (!isUnknownPayment(error)) throw error;
  }
  if (isSame === undefined) throw new NoAnswer(`the timeline of ${paymentId} does not show its order yet`);
  return isSame ? 'same' : 'other';
}

/** Whether a payment ended because nobody sent its money to its address. */
export async function hasLapsed(paymentId: string): Promise<boolean> {
  const { error } = await gateway.status(paymentId);
  return error?.code === 'DEPOSIT_NOT_RECEIVED';
}

/**
 * What became of a payment that this browser signed for: the gateway is asked, and handed the same once more where it has none.
 * `undefined` where it refuses it for good, so that nothing will be taken.
 */
export async function resume(purchase: Purchase, payment: Kept): Promise<string | undefined> {
  const { subject } = purchase;
  const { paymentId } = payment;
  if (payment.accepted && payment.byAddress) {
    if (!(await hasLapsed(paymentId))) return paymentId;
    // Nothing was paid, so that it can be paid after all.
    forget(subject, paymentId);
    return undefined;
  }
  if (payment.accepted) {
    noteAccepted(subject, paymentId);
    return paymentId;
  }
  const taken = async (): Promise<boolean> => {
    const found = await existing(purchase, paymentId);
    if (found === 'same') noteAccepted(subject, paymentId);
    if (found === 'other') forget(subject, paymentId);
    return found === 'same';
  };
  if (await taken()) return paymentId;
  try {
    await gateway.award(payment.quoteRequestId, payment.body, { waitSeconds: 0 });
    noteAccepted(subject, paymentId);
    return paymentId;
  } catch (error) {
    if (!(error instanceof GatewayError) || error.status === 429 || error.status >= 500 || isForeign(error)) throw error;
    if (await taken()) return paymentId;
    forget(subject, paymentId);
    return undefined;
  }
}
