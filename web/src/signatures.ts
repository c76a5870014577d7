// What a payer signs, in the page's words: a token may take a signature where otherwise a transaction gives an allowance.

import { isAllowedBySignature, TRON } from '../../sdk/typescript/src/schemes.js';
import type { PreparedPayment } from '../../sdk/typescript/src/types.js';

/**
 * In the place of an allowance by a transaction: a `transfer` that the token makes by the signature, or an `allowance` that it gives by
 * one, before the payment is signed for. `none` where there is none, as on other chains.
 */
export type InPlace = 'none' | 'transfer' | 'allowance';

/** Whether what is signed are transactions of the payer's own, which the gateway sends: on Tron, where Permit2 has no allowance. */
export const areTransactions = ({ message_scheme }: PreparedPayment): boolean => message_scheme === TRON;

/** What is signed in the place of an allowance by a transaction. */
export function inPlaceOf(prepared: PreparedPayment): InPlace {
  if (!prepared.message_scheme.startsWith('EVM_') || !isAllowedBySignature(prepared)) return 'none';
  return prepared.signed_messages.length > 1 ? 'allowance' : 'transfer';
}
