// Verifier sets: n verifiers of which k release an escrow, and the hash by which the payer signs for them.

import { keccak_256 } from '@noble/hashes/sha3.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { base58 } from '@scure/base';

import { bytesToHex, concatBytes, hex, isEqual, unhex, utf8ToBytes } from './bytes.js';
import { evmAddress, normalAccount, solanaKey, tronAddress, tronText } from './caip.js';
import { UsageError, VerificationError } from './errors.js';
import type { Family, ShownVerifier, VerifierSet } from './types.js';

/** What begins the hashed bytes: the name of the form, and its version. */
const DOMAIN = utf8ToBytes('gw-verifier-set\x01');
const MEMBERS_MAX = 16;
/** Bytes of an address, which are the last of its hash. */
const ADDRESS_BYTES = 20;

function bytesOf(family: Family, account: string): Uint8Array {
  switch (family) {
    case 'evm':
      return unhex(evmAddress(account, 'member'))!;
    case 'solana':
      return solanaKey(account, 'member');
    case 'tron':
      return tronAddress(account, 'member');
  }
}

/**
 * The account that stands for a set on chain, whatever the order of its members: of Keccak-256 the last 20 bytes on EVM chains and
 * Tron, SHA-256 on Solana. {@link releaserOf} has the rule for a verifier that is the only one.
 *
 * @throws {UsageError} where these are not 1 to 16 different accounts of the family, or the threshold is not from 1 to their number.
 */
export function verifierSetId(family: Family, { threshold, members }: VerifierSet): string {
  const count = members.length;
  if (count < 1 || count > MEMBERS_MAX)
    throw new UsageError(`a verifier set has 1 to ${MEMBERS_MAX} members, and not ${count}`);
  if (!Number.isInteger(threshold) || threshold < 1 || threshold > count)
    throw new UsageError(`of ${count} verifiers ${threshold} cannot be needed`);
  const accounts = members.map(({ account }) => bytesOf(family, account));
  accounts.sort((one, other) => (bytesToHex(one) < bytesToHex(other) ? -1 : 1));
  if (accounts.some((account, at) => at > 0 && isEqual(account, accounts[at - 1]!)))
    throw new UsageError('a verifier is twice in its set');
  const preimage = concatBytes(DOMAIN, Uint8Array.of(threshold, count), ...accounts);
  if (family === 'solana') return base58.encode(sha256(preimage));
  const address = keccak_256(preimage).slice(-ADDRESS_BYTES);
  return family === 'evm' ? hex(address) : tronText(address);
}

/** The releaser that a payer signs for: the account of a verifier that is the only one, the id of a set of several. */
export function releaserOf(family: Family, set: VerifierSet): string {
  const id = verifierSetId(family, set);
  return set.members.length === 1 ? normalAccount(family, set.members[0]!.account) : id;
}

/**
 * Whether who is shown as verifiers is whom the payer signs for; gives back who was shown.
 * Gateways that do not show threshold and members leave nothing to be compared but the account.
 *
 * @throws {VerificationError} where somebody else could release the money.
 */
export function checkVerifier(family: Family, releaser: string, shown: ShownVerifier | null | undefined): VerifierSet | undefined {
  const { account, threshold, members } = shown ?? {};
  const refuse = (rule: string, expected?: string): never => {
    throw new VerificationError('fulfillment_verifier', `the releaser is ${releaser}, and ${rule}`, expected, releaser);
  };
  const read = (what: string, value: () => string): string => {
    try {
      return value();
    } catch (cause) {
      return refuse(`the gateway shows ${what} that cannot be: ${cause instanceof Error ? cause.message : String(cause)}`);
    }
  };
  let set: VerifierSet | undefined;
  if (threshold !== undefined || members !== undefined) {
    const seen = (set = { threshold, members } as VerifierSet);
    const named = read('verifiers', () => releaserOf(family, seen));
    if (named !== releaser)
      refuse(`the ${seen.threshold} of ${seen.members.length} verifiers that the gateway shows are ${named}`, named);
  }
  if (account) {
    const named = read('a verifier', () => normalAccount(family, account, 'account'));
    if (named !== releaser) refuse(`the gateway shows ${named} as its verifier`, named);
  }
  return set;
}
