// All that a payer on EVM chains signs for one payment, by the scheme that the gateway prepared it for.

import { VerificationError } from '../errors.js';
import { rebuildTransfer } from '../permit2.js';
import type { Permit } from '../permit2.js';
import { EVM_EIP3009, EVM_PERMIT2_ESCROW } from '../schemes.js';
import type { PreparedPayment, Spend } from '../types.js';
import { checkVerifier } from '../verifiers.js';
import { rebuildAllowance, rebuildAuthorization } from './tokens.js';
import type { Allowance, Authorization } from './tokens.js';

/** A message that was rebuilt and is to be signed. */
export type Rebuilt = Permit | Authorization | Allowance;

/**
 * The messages of a payment, in the order in which they are signed and submitted: a token's own transfer into the escrow, or Permit2's,
 * in front of which a token's allowance for Permit2 may stand.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else.
 */
export function rebuild(spend: Spend, prepared: PreparedPayment): Rebuilt[] {
  const { signed_messages: messages } = prepared;
  const { message_scheme: scheme } = prepared;
  const [first, second] = messages;
  const isKnown = scheme === EVM_EIP3009 ? messages.length === 1 : scheme === EVM_PERMIT2_ESCROW && messages.length <= 2;
  if (!isKnown || !first) {
    throw new VerificationError('message_scheme', `the gateway asks for ${messages.length} signatures of ${scheme}`);
  }
  checkVerifier('evm', spend.releaser, prepared.fulfillment_verifier);
  if (scheme === EVM_EIP3009) return [rebuildAuthorization(spend, first)];
  return second ? [rebuildAllowance(spend, first), rebuildTransfer(spend, second)] : [rebuildTransfer(spend, first)];
}

/**
 * Permit2's transfer into the escrow, where that is all that is signed.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else, or for another one beside it.
 */
export function rebuildPermit(spend: Spend, prepared: PreparedPayment): Permit {
  const [permit, ...others] = rebuild(spend, prepared);
  if (permit?.typedData.primaryType !== 'PermitWitnessTransferFrom' || others.length)
    throw new VerificationError('message_scheme', `the gateway asks for ${others.length + 1} signatures of ${prepared.message_scheme}`);
  return permit as Permit;
}
