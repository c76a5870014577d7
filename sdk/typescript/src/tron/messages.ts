// All that a payer on Tron signs for one payment, by the scheme that the gateway prepared it for.

import { TRON_PERMIT2_ESCROW } from '../schemes.js';
import type { PreparedPayment, Spend } from '../types.js';
import { rebuild as rebuildTransactions } from './deposit.js';
import { rebuildPermit } from './permit2.js';
import type { TronPermit } from './permit2.js';
import type { TronTransaction } from './transaction.js';

/** A message that was rebuilt and is to be signed. */
export type Rebuilt = TronPermit | TronTransaction;

/**
 * The messages of a payment, in the order in which they are signed and submitted: Permit2's transfer into the escrow, or the payer's own
 * transactions.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else.
 */
export function rebuild(spend: Spend, prepared: PreparedPayment): Rebuilt[] {
  const isPermit = prepared.message_scheme === TRON_PERMIT2_ESCROW;
  return isPermit ? [rebuildPermit(spend, prepared)] : rebuildTransactions(spend, prepared);
}
