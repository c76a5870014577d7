// What a payer signs on Tron that gave Permit2 its allowance: Permit2's witness transfer into the escrow (TIP-712). Its digest is that
// of EVM chains, as an address counts there by its twenty bytes.

import { VerificationError } from '../errors.js';
import { rebuildTransfer } from '../permit2.js';
import type { Permit } from '../permit2.js';
import { TRON_PERMIT2_ESCROW, unknownPermit2 } from '../schemes.js';
import type { PreparedPayment, Spend } from '../types.js';
import { checkVerifier } from '../verifiers.js';
import { BASE58_ADDRESSES } from './address.js';

/** What is signed, its digest, and what the submission says beside the signature. */
export interface TronPermit extends Permit {
  payload: { reserve_deadline: number; refund_after: number; permit_deadline: number; permitted_amount?: string };
}

/**
 * The chain's Permit2, as the payer knows it.
 *
 * @throws {VerificationError} where it does not.
 */
export function permit2Of({ permit2, chainId }: Spend): string {
  if (permit2 === undefined) throw unknownPermit2(chainId);
  return permit2;
}

/**
 * Permit2's transfer into the escrow. Only the windows are read from what the gateway prepared, and bounded.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else, or for another one beside it.
 */
export function rebuildPermit(spend: Spend, prepared: PreparedPayment): TronPermit {
  const { message_scheme: scheme } = prepared;
  const [message, ...others] = prepared.signed_messages;
  if (scheme !== TRON_PERMIT2_ESCROW || !message || others.length) {
    const count = prepared.signed_messages.length;
    throw new VerificationError('message_scheme', `the gateway asks for ${count} signatures of ${scheme}`);
  }
  checkVerifier('tron', spend.releaser, prepared.fulfillment_verifier);
  const permit = rebuildTransfer({ ...spend, permit2: permit2Of(spend) }, message, BASE58_ADDRESSES);
  const { deadline, permitted, witness } = permit.typedData.message;
  return {
    ...permit,
    payload: {
      reserve_deadline: Number(witness.reserveDeadline),
      refund_after: Number(witness.refundAfter),
      permit_deadline: Number(deadline),
      ...(spend.terms.max_source_amount === undefined ? { permitted_amount: permitted.amount } : {}),
    },
  };
}
