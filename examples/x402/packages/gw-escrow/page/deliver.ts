// What was signed is sent to the shop, again and again, until it is known what became of it; then what was bought is shown.

import { paymentStatus } from '../src/gateway.js';
import { SEND_AGAIN } from '../src/reasons.js';
import type { PaymentRequired } from '../src/x402.js';
import { type Answer, answerOf, isAttachment, keepAnswer } from './answer.js';
import { keep, type Kept } from './kept.js';
import { gatewayUrl } from './offer.js';
import { decoded } from './wire.js';

const MISMATCH = 'No matching payment requirements';
const COOKIE = 'payment-signature';
/** For the one load of the page that follows. */
const COOKIE_SECONDS = 60;
const COOKIE_CHARS_MAX = 4000;
/** A page that was given its payment so often in so short a time does not open by it. */
const LOADS_MAX = 3;
const LOADS_MS = 20_000;

export type Outcome =
  | { kind: 'paid'; response: Response }
  | { kind: 'again'; why: 'pending' | 'busy' | 'away' }
  | { kind: 'used'; status: string }
  | { kind: 'failed'; reason: string }
  | { kind: 'refused'; reason: string; required?: PaymentRequired; isChanged: boolean }
  | { kind: 'disputed'; reason: string; status: string }
  | { kind: 'broken'; code: number; status: string };

/** Sends it once. What a shop says about money is held against what the gateway says. */
export async function send(payment: Kept): Promise<Outcome> {
  let response: Response;
  try {
    response = await fetch(location.href, {
      cache: 'no-store',
      credentials: 'same-origin',
      redirect: 'manual',
      headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8', 'payment-signature': payment.header },
    });
  } catch {
    return { kind: 'again', why: 'away' };
  }
  // A page that redirects to what was bought is one that was paid.
  if (response.ok || response.type === 'opaqueredirect') return { kind: 'paid', response };
  if (response.status === 429 || response.status >= 500) return { kind: 'again', why: 'away' };
  const settled = decoded(response.headers.get('payment-response'));
  const required = decoded(response.headers.get('payment-required')) as PaymentRequired | undefined;
  const reason = String(settled?.['errorReason'] ?? required?.error ?? response.status);
  if (response.status === 402 && SEND_AGAIN.includes(reason)) {
    return { kind: 'again', why: reason === 'payment_in_use' ? 'busy' : reason === 'settlement_pending' ? 'pending' : 'away' };
  }
  let status: string;
  try {
    status = await paymentStatus(gatewayUrl, payment.paymentId);
  } catch {
    return { kind: 'again', why: 'away' };
  }
  if (status === 'failed') return { kind: 'failed', reason };
  if (response.status !== 402) return { kind: 'broken', code: response.status, status };
  if (reason === 'payment_used' && status === 'completed') return { kind: 'used', status };
  if (status !== 'unknown') return { kind: 'disputed', reason, status };
  return { kind: 'refused', reason, ...(required ? { required } : {}), isChanged: reason === MISMATCH };
}

const cookie = (value: string, seconds: number): void => {
  const secure = location.protocol === 'https:' ? '; Secure' : '';
  document.cookie = `${COOKIE}=${value}; Path=${location.pathname}; Max-Age=${seconds}; SameSite=Strict${secure}`;
};

const hasCookie = (): boolean => document.cookie.split('; ').some((entry) => entry.startsWith(`${COOKIE}=`));

/** Whether the shop left a payment lie that this page had given its last load: it does not read such cookies. */
export function isLeft(): boolean {
  if (!hasCookie()) return false;
  cookie('', 0);
  return true;
}

/** The payment as a cookie of the next load: what was bought comes as a page of its own. `false` where it does not fit. */
async function handOver(payment: Kept): Promise<boolean> {
  const { header } = payment;
  const now = Date.now();
  const loads = (payment.loads ?? []).filter((at) => now - at < LOADS_MS);
  if (loads.length >= LOADS_MAX || location.pathname.includes(';')) return false;
  // Without its Base64 it is half as long, and one of two signatures fits.
  const json = Uint8Array.from(atob(header), (character) => character.charCodeAt(0));
  const compressed = new Blob([json]).stream().pipeThrough(new CompressionStream('deflate'));
  const bytes = new Uint8Array(await new Response(compressed).arrayBuffer());
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
  const value = text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  if (value.length > COOKIE_CHARS_MAX) return false;
  cookie(value, COOKIE_SECONDS);
  return hasCookie() && keep({ ...payment, paid: true, loads: [...loads, now] });
}

/** A file that was bought. */
export interface Bought {
  name: string;
  type: string;
  href: string;
}

/**
 * Shows what was bought. `undefined` where the page gives way to it; else a file to be saved.
 *
 * @param isPlain The shop reads no cookies: the document is replaced where it stands, under the policy of this page.
 * @throws {TypeError} where the shop leads to where this page may not go.
 */
export async function show(payment: Kept, response: Response, isPlain: boolean): Promise<Bought | undefined> {
  if (response.type === 'opaqueredirect') {
    if (!isPlain && (await handOver(payment))) {
      location.reload();
      return undefined;
    }
    response = await fetch(location.href, {
      cache: 'no-store',
      credentials: 'same-origin',
      headers: { 'payment-signature': payment.header },
    });
    if (!response.ok) throw new TypeError(`the shop answers ${response.status}`);
  }
  const answer = answerOf(response, await response.blob());
  // A load that downloads leaves this page where it is. What cannot be kept is not risked for one either.
  if (!isPlain && !isAttachment(response) && (await keepAnswer(payment.paymentId, answer)) && (await handOver(payment))) {
    location.reload();
    return undefined;
  }
  return inPlace(answer);
}

/** Shows an answer where this page stands. What is meant to be saved never becomes a document of this origin. */
export async function inPlace({ type, name, isAttachment: isFile, blob }: Answer): Promise<Bought | undefined> {
  if (type === 'text/html' && !isFile) {
    const text = await blob.text();
    document.open();
    document.write(text);
    document.close();
    return undefined;
  }
  const last = location.pathname.split('/').findLast(Boolean);
  return { name: name ?? last ?? 'page', type, href: URL.createObjectURL(blob) };
}
