// Message schemes of EVM chains that spare a payer the allowance by a transaction of its own.

import type { ChainDefaults, PreparedPayment } from './types.js';

/** A token's own transfer (ERC-3009). */
const BY_TOKEN = 'EVM_EIP3009';

/** Whether the gateway takes signatures for tokens, in which case it says before anything is sent what is to be signed. */
export function takesTokenSignatures({ source }: { source: ChainDefaults }): boolean {
  const schemes: readonly string[] = source.message_schemes ?? [];
  return schemes.includes(BY_TOKEN);
}

/** Whether what is to be signed needs no allowance, or has it among its messages. The wallet compares these before it signs. */
export function isAllowedBySignature({ message_scheme, signed_messages }: PreparedPayment): boolean {
  const scheme: string = message_scheme;
  return scheme === BY_TOKEN || signed_messages.length > 1;
}
