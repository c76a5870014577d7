// What this browser keeps of a payment before it has an effect: with it a page that is loaded again goes on where it was.

import type { AwardRequest, OwnedAsset } from '../../sdk/typescript/src/types.js';

const PREFIX = 'gateway-pay:v1:';
const SENT_PREFIX = 'gateway-sent:v1:';
const PROBE = 'gateway-probe';
/** How long a transaction of the payer's own is waited for before another one is offered, in milliseconds. */
const SENT_MS = 180_000;

/** A payment that was signed in this browser, and of which nobody knows yet whether the gateway has it. */
export interface Signed {
  /** The account that pays, with its asset. */
  source: OwnedAsset;
  /** Who pays: the name of the wallet. */
  wallet: string;
  quoteRequestId: string;
  quoteId: string;
  /** What the payment is going to be known by. */
  paymentId: string;
  /** What was signed. It may be sent as often as one likes: money is taken once. */
  body: AwardRequest;
  accepted?: never;
}

/** A payment that the gateway is known to have. */
export interface Accepted {
  paymentId: string;
  accepted: true;
  /** Its money is sent to a deposit address. */
  byAddress?: true;
}

/** A payment of this browser. */
export type Kept = Signed | Accepted;

/** What is kept under `subject`: the request id of a link, or the id of a quote-request. */
export function kept(subject: string): Kept | undefined {
  try {
    const text = localStorage.getItem(PREFIX + subject);
    return text === null ? undefined : (JSON.parse(text) as Kept);
  } catch {
    return undefined;
  }
}

/** Keeps it; `false` where the browser does not. */
export function keep(subject: string, payment: Kept): boolean {
  try {
    const text = JSON.stringify(payment);
    localStorage.setItem(PREFIX + subject, text);
    return localStorage.getItem(PREFIX + subject) === text;
  } catch {
    return false;
  }
}

/** The gateway has the payment: what was signed for it is kept no longer, where it is this payment's. */
export function noteAccepted(subject: string, paymentId: string): void {
  if (kept(subject)?.paymentId === paymentId) keep(subject, { paymentId, accepted: true });
}

/** Forgets this payment. Another one's, as of another tab, stays. */
export function forget(subject: string, paymentId: string): void {
  if (kept(subject)?.paymentId !== paymentId) return;
  try {
    localStorage.removeItem(PREFIX + subject);
  } catch {
    // Nothing was kept.
  }
}

/** Tells when another tab keeps a payment under `subject`; resolves to what ends it. */
export function onKept(subject: string, told: (payment: Kept) => void): () => void {
  const listener = ({ key }: StorageEvent): void => {
    const payment = key === PREFIX + subject ? kept(subject) : undefined;
    if (payment) told(payment);
  };
  window.addEventListener('storage', listener);
  return () => window.removeEventListener('storage', listener);
}

/** Whether this browser keeps so many characters for the page. */
export function canKeep(chars = 1): boolean {
  try {
    localStorage.setItem(PROBE, '1'.repeat(chars));
    localStorage.removeItem(PROBE);
    return true;
  } catch {
    return false;
  }
}

/** Notes that the account has sent what is missing for this purchase: a page that is loaded again waits for it. */
export function noteSent(subject: string, account: string): void {
  try {
    localStorage.setItem(SENT_PREFIX + subject, JSON.stringify([account, Date.now()]));
  } catch {
    // It is offered once more, which costs a fee and no more.
  }
}

/** Until when what the account has sent is waited for, in UNIX milliseconds; 0 where it has sent nothing. */
export function sentUntil(subject: string, account: string): number {
  try {
    const [of, at] = JSON.parse(localStorage.getItem(SENT_PREFIX + subject) ?? '[]') as [string?, number?];
    return of === account && typeof at === 'number' ? at + SENT_MS : 0;
  } catch {
    return 0;
  }
}
