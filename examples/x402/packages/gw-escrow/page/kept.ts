// What this browser keeps of a purchase before it is sent: a page that is loaded again goes on with the same payment.

import { lapsesAt as lapsesAtOf } from '../src/client.js';
import { decoded } from './wire.js';

const PREFIX = 'x402-gw-escrow:v1:';
/** What was signed or paid this long ago is kept no more. */
const KEPT_MS = 7 * 86_400_000;

/** A payment that was signed for this address. */
export interface Kept {
  paymentId: string;
  /** UNIX seconds, as it was signed: from then on nobody can take it any more. Older versions kept it in the header alone. */
  fulfillmentDeadline?: number;
  /** `PAYMENT-SIGNATURE`. It may be sent as often as one likes: money is taken once. */
  header: string;
  /** The shop has opened the page for it. */
  paid?: true;
  /** When it was given to loads of the page, UNIX milliseconds. */
  loads?: number[];
}

/** What is bought: one address of this shop. */
const KEY = `${PREFIX}${location.pathname}${location.search}`;
export const LOCK = KEY;

export const kept = (): Kept | undefined => read(KEY);

function read(key: string): Kept | undefined {
  try {
    const value = JSON.parse(localStorage.getItem(key) ?? 'null') as Kept | null;
    if (typeof value?.header !== 'string' || typeof value.paymentId !== 'string') return undefined;
    const { paymentId, fulfillmentDeadline, header, paid, loads } = value;
    return {
      paymentId,
      header,
      ...(Number.isFinite(fulfillmentDeadline) ? { fulfillmentDeadline } : {}),
      ...(paid === true ? { paid } : {}),
      ...(Array.isArray(loads) ? { loads: loads.filter(Number.isFinite) } : {}),
    };
  } catch {
    return undefined;
  }
}

/** Drops what was kept for other addresses, where what was signed ended long ago. */
export function tidy(): void {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX) && key !== KEY);
    for (const key of keys) {
      const payment = read(key);
      if (!payment || Date.now() > lapsesAt(payment) + KEPT_MS) localStorage.removeItem(key);
    }
  } catch {
    // There is nothing to drop where nothing is kept.
  }
}

/** Keeps it; `false` where the browser does not. */
export function keep(payment: Kept): boolean {
  try {
    const text = JSON.stringify(payment);
    localStorage.setItem(KEY, text);
    return localStorage.getItem(KEY) === text;
  } catch {
    return false;
  }
}

/** Forgets this payment. Another one's, as of another tab, stays. */
export function forget(paymentId: string): void {
  if (kept()?.paymentId === paymentId) localStorage.removeItem(KEY);
}

/** Whether this browser keeps anything for the page. */
export function canKeep(): boolean {
  try {
    localStorage.setItem(`${PREFIX}probe`, '1');
    localStorage.removeItem(`${PREFIX}probe`);
    return true;
  } catch {
    return false;
  }
}

/** Tells when another tab keeps a payment for this address; resolves to what ends it. */
export function onKept(told: (payment: Kept) => void): () => void {
  const listener = ({ key }: StorageEvent): void => {
    const payment = key === KEY ? kept() : undefined;
    if (payment) told(payment);
  };
  window.addEventListener('storage', listener);
  return () => window.removeEventListener('storage', listener);
}

/** From when on nobody can take a payment that the gateway has not, in UNIX milliseconds; `NaN` where it does not say. */
export const lapsesAt = ({ header, fulfillmentDeadline }: Kept): number => {
  const payload = decoded(header)?.['payload'] as Record<string, unknown> | undefined;
  return lapsesAtOf({ ...(fulfillmentDeadline === undefined ? {} : { fulfillmentDeadline }), ...(payload ? { payload } : {}) });
};
