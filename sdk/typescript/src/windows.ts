// Bounds of what a gateway chooses in an authorization, alike on every chain: its windows, and the quote that it is for.

import { VerificationError } from './errors.js';
import type { Spend } from './types.js';

/** UNIX seconds. */
export interface Windows {
  /** The last second in which the escrow takes the deposit. */
  reserveDeadline: number;
  /** From here on anyone can send the refund. */
  refundAfter: number;
  /** The last second in which the signature holds, where that is signed, too. */
  deadline?: number;
}

/**
 * @throws {VerificationError} where money could be taken, or would stay locked, for longer than was asked for, or could be refunded
 *   while the delivery is still due.
 */
export function checkWindows(spend: Spend, { reserveDeadline, refundAfter, deadline }: Windows): void {
  const { fulfillmentDeadline: fulfilled, refundDelaySeconds } = spend;
  const latest = (field: string, rule: string, limit: number, found: number): void => {
    if (found > limit)
      throw new VerificationError(field, `${rule}: ${found}, and ${limit} is the latest`, `at most ${limit}`, String(found));
  };
  latest('reserveDeadline', 'the deposit would be taken too late', fulfilled, reserveDeadline);
  if (deadline !== undefined) latest('deadline', 'the signature would hold for too long', fulfilled, deadline);
  latest('refundAfter', 'the refund would come too late', fulfilled + refundDelaySeconds, refundAfter);
  if (refundAfter <= fulfilled) {
    const rule = `the refund would come before the delivery is due: ${refundAfter}`;
    throw new VerificationError('refundAfter', rule, `more than ${fulfilled}`, String(refundAfter));
  }
}

/**
 * The hash of the quote that is signed for: zeros before the auction; in an award that which the caller computed, or, where it has
 * not, the gateway's, which has to be one.
 */
export function quoteHashOf(spend: Spend, named: string): string {
  if (spend.quoteHash !== undefined) return spend.quoteHash;
  const hash = named.toLowerCase();
  if (!/^0x[0-9a-f]{64}$/.test(hash) || /^0x0*$/.test(hash)) {
    throw new VerificationError('quoteHash', `the gateway names a quote hash that is none: ${named}`);
  }
  return hash;
}
