// Calls that are made again for longer than HTTP alone would: until a payment's windows have passed, or the gateway's node has seen what
// the payer has just sent.

import type { Http } from './http.js';
import { isResent, nextStep } from './retry.js';
import { pause } from './time.js';
import type { CallOptions } from './types.js';

/** How long the gateway's node may take to see what the payer's own transactions did. */
const SEEN_MS = 30_000;
const POLL_MS = 500;

/** How long after every window has passed the gateway is still asked for an outcome. */
export const OUTCOME_SECONDS = 60;

/** Until there is an answer, at most until `end`: a time-out or a 503 says nothing. */
export async function persist<T>(http: Http, end: number, signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
  for (let tried = 0; ; tried += 1) {
    try {
      return await call();
    } catch (error) {
      const waitMs = http.pauseAfter(isResent(error) ? error : undefined, tried);
      if (!isResent(error) || Date.now() + waitMs > end) throw error;
      await pause(waitMs, signal);
    }
  }
}

/** Calls until the gateway's node has seen what was just sent. */
export async function seen<T>(
  hasSent: boolean,
  { signal }: Pick<CallOptions, 'signal'>,
  call: (call: CallOptions) => Promise<T>,
): Promise<T> {
  const end = Date.now() + (hasSent ? SEEN_MS : 0);
  for (;;) {
    try {
      return await call(signal ? { signal } : {});
    } catch (error) {
      if (nextStep(error) !== 'resend-when-funded' || Date.now() > end) throw error;
      await pause(POLL_MS, signal);
    }
  }
}
