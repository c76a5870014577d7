// What this browser keeps of a purchase before it is sent: a page that is loaded again goes on with the same payment.

const PREFIX = 'x402-gw-escrow:v1:';
/** Clocks differ by this much before a deadline is taken to be past for everyone. */
const CLOCK_MARGIN_MS = 60_000;

/** A payment that was signed for this address. */
export interface Kept {
  paymentId: string;
  /** UNIX seconds; from then on the gateway takes it no more. */
  quoteDeadline: number;
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

export function kept(): Kept | undefined {
  try {
    const text = localStorage.getItem(KEY);
    const value = text === null ? undefined : (JSON.parse(text) as Kept);
    return typeof value?.header === 'string' && typeof value.paymentId === 'string' && Number.isFinite(value.quoteDeadline)
      ? value
      : undefined;
  } catch {
    return undefined;
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

/** From when on nobody can take a payment that the gateway has not, in UNIX milliseconds. */
export const lapsesAt = ({ quoteDeadline }: Kept): number => quoteDeadline * 1000 + CLOCK_MARGIN_MS;
