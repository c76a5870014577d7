// Message schemes: which one a gateway is asked for, and the allowances that they need or spare a payer.

import { UsageError, VerificationError, WalletError } from './errors.js';
import type { ChainDefaults, Family, PreparedPayment, Scheme, Wallet } from './types.js';

/** Permit2's transfer into the escrow. */
export const EVM_PERMIT2_ESCROW = 'EVM_PERMIT2_ESCROW' satisfies Scheme;
/** Permit2's transfer for a batch of payments. */
export const EVM_PERMIT2_BATCH = 'EVM_PERMIT2_BATCH' satisfies Scheme;
/** What a merchant asks for, by an allowance of Permit2's for its payer's mandate. */
export const EVM_PERMIT2_MANDATE = 'EVM_PERMIT2_MANDATE' satisfies Scheme;
/** A token's own transfer into the escrow (ERC-3009). */
export const EVM_EIP3009 = 'EVM_EIP3009' satisfies Scheme;
/** The terms of a deposit, for which an allowance was given before. */
export const SOLANA = 'SOLANA' satisfies Scheme;
/** Permit2's transfer into the escrow, on Tron. */
export const TRON_PERMIT2_ESCROW = 'TRON_PERMIT2_ESCROW' satisfies Scheme;
/** Transactions of the payer's own, which the gateway sends: an allowance for the escrow where it has none, and the deposit. */
export const TRON = 'TRON' satisfies Scheme;

/** What is known of a chain's Permit2. */
export interface Permit2Known {
  /** CAIP-2. */
  chainId: string;
  /** As the payer knows it. */
  own?: string | undefined;
  /** As the gateway names it. */
  named?: string | undefined;
}

/**
 * The scheme that a gateway is asked for; `undefined` where the one that it chooses will do. On Tron nobody signs for a Permit2 that the
 * payer does not know, so a gateway that names another, or none, is asked for transactions.
 *
 * @param wanted The scheme that the caller named.
 * @throws {UsageError} where the wallet signs by another one than was named.
 * @throws {VerificationError} where Permit2's was named on Tron, and payer and gateway do not know the same one.
 */
export function schemeFor(
  { family, account, messageScheme: only }: Pick<Wallet, 'family' | 'account' | 'messageScheme'>,
  known: Permit2Known,
  wanted: Scheme | undefined = only,
): Scheme | undefined {
  if (only !== undefined && wanted !== only) throw new UsageError(`the wallet of ${account} signs by ${only}, and not by ${wanted}`);
  if (family !== 'tron') return wanted;
  if (wanted === TRON_PERMIT2_ESCROW) insistKnown(known);
  const isKnown = known.own !== undefined && known.own === known.named;
  return wanted ?? (isKnown ? undefined : TRON);
}

function insistKnown({ chainId, own, named }: Permit2Known): void {
  if (named === undefined) throw new VerificationError('permit2', `the gateway names no Permit2 on ${chainId}`, own);
  if (own === undefined) throw unknownPermit2(chainId);
  if (named !== own) throw new VerificationError('permit2', `the gateway names another Permit2, ${named}`, own, named);
}

/** The refusal to sign for a Permit2 of which nobody else than the gateway speaks. */
export function unknownPermit2(chainId: string): VerificationError {
  const rule = `nothing but the gateway's word says where Permit2 is on ${chainId}`;
  const remedy = `look at its deployment, and name it (trust.permit2), or pay by ${TRON}`;
  return new VerificationError('permit2', `${rule}: ${remedy}`);
}

/**
 * Whether a wallet that did not sign this is asked for transactions instead: one that has a function for typed data and cannot use it, as
 * with a hardware key. Who declined is asked for nothing else.
 */
export function paysOtherwise({ message_scheme }: PreparedPayment, error: unknown): boolean {
  return message_scheme === TRON_PERMIT2_ESCROW && error instanceof WalletError && error.reason === 'failed';
}

/** Whether the gateway takes signatures for tokens, in which case it says before anything is sent what is to be signed. */
export function takesTokenSignatures({ source }: { source: ChainDefaults }): boolean {
  return (source.message_schemes ?? []).includes(EVM_EIP3009);
}

/** Whether what is to be signed needs no allowance, or has it among its messages. The wallet compares these before it signs. */
export function isAllowedBySignature({ message_scheme, signed_messages }: PreparedPayment): boolean {
  return message_scheme === EVM_EIP3009 || signed_messages.length > 1;
}

/**
 * Whether an allowance may have to be given by a transaction of the payer's own before it signs by this scheme, or by the gateway's
 * choice. On Tron a gateway chooses one without: Permit2's where that has its allowance, or else transactions, which hold it.
 */
export function mayLackAllowance(family: Family, scheme: Scheme | undefined): boolean {
  return family !== 'tron' || scheme === TRON_PERMIT2_ESCROW;
}

/** @throws {UsageError} where a caller says how much is to be allowed, and by this scheme the wallet is not asked for an allowance. */
export function checkAllowance(family: Family, scheme: Scheme | undefined, allowance: bigint | undefined): void {
  if (allowance === undefined || mayLackAllowance(family, scheme)) return;
  throw new UsageError(`on Tron an allowance is for Permit2: it is given where messageScheme: '${TRON_PERMIT2_ESCROW}' is named`);
}
