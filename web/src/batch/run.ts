// What becomes of a batch that was signed: it is handed in, again for what was refused for now, and each payment is followed to its end.

import { ERROR_CODES } from '../../../sdk/typescript/src/codes.js';
import { GatewayError } from '../../../sdk/typescript/src/errors.js';
import { isResent, nextStep } from '../../../sdk/typescript/src/retry.js';
import { pause, rfc3339 } from '../../../sdk/typescript/src/time.js';
import type { PaymentBatchRequest, PaymentBatchResponse } from '../../../sdk/typescript/src/types.js';
import { gateway } from '../gateway.js';
import { isForeign, isUnknownPayment, WrongAnswer } from '../problems.js';
import { isDue, isOver, isUnderWay, type KeptBatch, keepBatch, keptBatch, type Standing, standing } from './store.js';

const QUOTE_SECONDS = 10;
/** A quote deadline that is nearer than this is put off, in milliseconds. */
const NEAR_MS = 3000;
/** How long after the last deposit a call that was under way may still have been answered. */
const LATE_MS = 30_000;
/** Between two rounds. */
const ROUND_MS = 1500;
/** Payments that are read in a round, and at a time. */
const READS = 24;
const AT_ONCE = 6;
/** First and longest pause until what was refused for now is sent again, where the gateway does not say. */
const AGAIN_MS = 1000;
const AGAIN_MS_MAX = 15_000;

type Told = (batch: KeptBatch) => void;

/** Goes on with a batch until each of its payments is over, or waits for its payer. What is sent again can take money once at most. */
export async function run(begin: KeptBatch, told: Told, signal: AbortSignal): Promise<void> {
  let batch = begin;
  let tried = 0;
  let dueAt = 0;
  let reads = 0;
  const now = (changed: ReadonlyMap<string, Standing>): void => {
    if (!changed.size) return;
    signal.throwIfAborted();
    // Another tab may know more.
    batch = standing(newer(batch), changed);
    keepBatch(batch);
    told(batch);
  };
  // Who asks for it sends what lacked money as well.
  let withUnfunded = true;
  for (;;) {
    if (isOver(batch)) return;
    const mayGo = batch.payments.some((payment) => isDue(payment) && (withUnfunded || payment.standing.is !== 'unfunded'));
    if (mayGo && Date.now() >= dueAt) {
      const { changed, waitMs = 0 } = await handIn(batch, signal).catch((error: unknown): HandedIn => {
        signal.throwIfAborted();
        if (!isResent(error)) throw error;
        return { changed: new Map(), waitMs: error.retryAfterMs };
      });
      withUnfunded = false;
      now(changed);
      dueAt = Date.now() + Math.max(waitMs, Math.min(AGAIN_MS * 2 ** tried, AGAIN_MS_MAX));
      tried = Math.min(tried + 1, 8);
    }
    reads = await follow(batch, reads, now, signal);
    const isWaiting = batch.payments.every((payment) => !isUnderWay(payment) && (!isDue(payment) || payment.standing.is === 'unfunded'));
    if (isWaiting) return;
    await pause(ROUND_MS, signal);
  }
}

/** The batch as this page or another one knows it: what is over stays over. */
function newer(batch: KeptBatch): KeptBatch {
  const kept = keptBatch(batch.root);
  const known = kept?.payments.filter((payment) => !isDue(payment) && !isUnderWay(payment)).map(({ paymentId, standing: is }) => [paymentId, is] as const);
  return known?.length ? standing(batch, new Map(known)) : batch;
}

interface HandedIn {
  changed: Map<string, Standing>;
  /** How long the gateway would have the next try wait, in milliseconds. */
  waitMs?: number | undefined;
}

async function handIn(batch: KeptBatch, signal: AbortSignal): Promise<HandedIn> {
  const late: Standing = { is: 'refused', code: 'INVALID_DEADLINE', message: '' };
  if (!batch.body || Date.now() > batch.reserveDeadline * 1000 + LATE_MS) return settled(batch, late, signal);
  try {
    return { changed: answered(batch, await gateway.submitBatch(current(batch.body), { retries: 0, signal })) };
  } catch (error) {
    signal.throwIfAborted();
    if (isResent(error)) {
      const code = error instanceof GatewayError ? error.code : '';
      const is: Standing = code ? { is: 'later', code } : { is: 'open' };
      return { changed: new Map(batch.payments.filter(isDue).map(({ paymentId }) => [paymentId, is])), waitMs: error.retryAfterMs };
    }
    // What the gateway did not say itself refuses nothing.
    if (!(error instanceof GatewayError) || isForeign(error)) throw error;
    // A refusal may be that of a repetition: whether there are payments is read, not guessed.
    return settled(batch, refusalOf(error.code, error.message, nextStep(error) === 'resend-when-funded'), signal);
  }
}

/** What was signed, with a time for quotes that is still to come: it is not signed for. */
function current(body: PaymentBatchRequest): PaymentBatchRequest {
  const until = Date.parse(String(body.quote_deadline ?? ''));
  return until > Date.now() + NEAR_MS ? body : { ...body, quote_deadline: rfc3339(Date.now() + QUOTE_SECONDS * 1000) };
}

const refusalOf = (code: string, message: string, lacksMoney: boolean): Standing =>
  lacksMoney ? { is: 'unfunded', code } : { is: 'refused', code, message: message.replace(`${code}: `, '') };

/** What the answer says of the payments, in their order. */
function answered(batch: KeptBatch, { payments }: PaymentBatchResponse): Map<string, Standing> {
  const changed = new Map<string, Standing>();
  for (const [at, { paymentId, standing: before }] of batch.payments.entries()) {
    const answer = payments[at];
    if (answer?.payment_id !== paymentId) throw new WrongAnswer(`payments[${at}].payment_id`);
    const { payment, error } = answer;
    // What ended meanwhile is not made younger by an answer of before.
    if (payment && (before.is !== 'accepted' || isUnderWay({ ...batch.payments[at]!, standing: before }))) {
      changed.set(paymentId, acceptedAs(payment));
    } else if (error && before.is !== 'accepted') {
      const status = (ERROR_CODES as Record<string, { status: number | null } | undefined>)[error.code]?.status ?? 200;
      const refusal = new GatewayError(status, error);
      const lacksMoney = nextStep(refusal) === 'resend-when-funded';
      changed.set(paymentId, isResent(refusal) ? { is: 'later', code: error.code } : refusalOf(error.code, error.message, lacksMoney));
    }
  }
  return changed;
}

function acceptedAs({ status, error }: { status: Extract<Standing, { is: 'accepted' }>['status']; error?: { code: string } | undefined }): Standing {
  return { is: 'accepted', status, ...(error ? { code: error.code } : {}) };
}

/** What is due, as the gateway has it; `missing` is what becomes of a payment that it does not have. */
async function settled(batch: KeptBatch, missing: Standing, signal: AbortSignal): Promise<HandedIn> {
  const changed = new Map<string, Standing>();
  await each(batch.payments.filter(isDue), async ({ paymentId }) => {
    changed.set(paymentId, (await read(paymentId, signal)) ?? missing);
  });
  return { changed };
}

/** A payment as it stands; `undefined` where there is none. */
async function read(paymentId: string, signal: AbortSignal): Promise<Standing | undefined> {
  try {
    return acceptedAs(await gateway.status(paymentId, { signal }));
  } catch (error) {
    if (isUnknownPayment(error)) return undefined;
    throw error;
  }
}

/** Reads so many of the payments that are under way, from the `from`-th on, and says where the next round begins. */
async function follow(batch: KeptBatch, from: number, now: (changed: ReadonlyMap<string, Standing>) => void, signal: AbortSignal): Promise<number> {
  const open = batch.payments.filter(isUnderWay);
  if (!open.length) return 0;
  const start = from < open.length ? from : 0;
  const some = open.slice(start, start + READS);
  const changed = new Map<string, Standing>();
  await each(some, async ({ paymentId, standing: before }) => {
    try {
      const status = acceptedAs(await gateway.status(paymentId, { signal, retries: 0 }));
      if (JSON.stringify(status) !== JSON.stringify(before)) changed.set(paymentId, status);
    } catch {
      // The next round reads it.
      signal.throwIfAborted();
    }
  });
  now(changed);
  return start + some.length;
}

async function each<T>(items: readonly T[], does: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += AT_ONCE) await Promise.all(items.slice(at, at + AT_ONCE).map(does));
}
