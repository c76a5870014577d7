// What this browser keeps of a batch: from before it is handed in, so that a page that is loaded again goes on where it was.

import type { OwnedAsset, PaymentBatchRequest, PaymentStatus } from '../../../sdk/typescript/src/types.js';

const PREFIX = 'gateway-batch:v1:';

/** Where a payment of a batch is. */
export type Standing =
  /** Nothing is known of it. */
  | { is: 'open' }
  /** It was refused for now, and goes again by itself. */
  | { is: 'later'; code: string }
  /** The account held, or allowed, too little for it: it goes again when the payer says so. */
  | { is: 'unfunded'; code: string }
  /** It was refused for good, or never handed in in time. Nothing is taken for it. */
  | { is: 'refused'; code: string; message: string }
  /** The gateway has it. */
  | { is: 'accepted'; status: PaymentStatus; code?: string };

export interface KeptPayment {
  requestId: string;
  paymentId: string;
  /** The line of the list that it stood on. */
  line: number;
  reference?: string;
  to: OwnedAsset;
  /** Smallest units, decimal. */
  amount: string;
  most: string;
  standing: Standing;
}

export interface KeptBatch {
  /** Root of its payments, which names it. */
  root: string;
  /** When it was signed. */
  at: string;
  source: OwnedAsset;
  /** Last second of its deposits, UNIX: what is not accepted by then never is. */
  reserveDeadline: number;
  /** See `fingerprintOf`. */
  fingerprint: string;
  payments: KeptPayment[];
  /** What was signed, for as long as a payment may be accepted by it. It may be sent as often as one likes. */
  body?: PaymentBatchRequest;
}

export function keptBatch(root: string): KeptBatch | undefined {
  try {
    const text = localStorage.getItem(PREFIX + root);
    return text === null ? undefined : (JSON.parse(text) as KeptBatch);
  } catch {
    return undefined;
  }
}

/** Every batch that this browser keeps, the latest first. */
export function keptBatches(): KeptBatch[] {
  try {
    const roots = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX)).map((key) => key.slice(PREFIX.length));
    const found = roots.map(keptBatch).filter((batch) => batch !== undefined);
    return found.sort((one, other) => (one.at < other.at ? 1 : -1));
  } catch {
    return [];
  }
}

/** Keeps it; `false` where the browser does not. */
export function keepBatch(batch: KeptBatch): boolean {
  try {
    const text = JSON.stringify(batch);
    localStorage.setItem(PREFIX + batch.root, text);
    return localStorage.getItem(PREFIX + batch.root) === text;
  } catch {
    return false;
  }
}

export function forgetBatch(root: string): void {
  try {
    localStorage.removeItem(PREFIX + root);
  } catch {
    // Nothing was kept.
  }
}

/** Whether the payment may be handed in again. */
export const isDue = ({ standing: { is } }: KeptPayment): boolean => is === 'open' || is === 'later' || is === 'unfunded';

/** Whether the gateway has the payment and has not ended it. */
export const isUnderWay = ({ standing }: KeptPayment): boolean =>
  standing.is === 'accepted' && standing.status !== 'completed' && standing.status !== 'failed';

/** Whether nothing more becomes of the batch. */
export const isOver = ({ payments }: KeptBatch): boolean => !payments.some((payment) => isDue(payment) || isUnderWay(payment));

/** The batch with payments that stand otherwise now; what was signed is kept no longer once no payment needs it. */
export function standing(batch: KeptBatch, changed: ReadonlyMap<string, Standing>): KeptBatch {
  const payments = batch.payments.map((payment) => ({ ...payment, standing: changed.get(payment.paymentId) ?? payment.standing }));
  const { body, ...others } = batch;
  return { ...others, payments, ...(body && payments.some(isDue) ? { body } : {}) };
}
