// What a payer knows by itself of Permit2, which may draw whatever it was allowed: no gateway's word says which contract that is.

import { familyOf, normalAccount } from './caip.js';
import type { Family, Trust } from './types.js';

/** Where Uniswap's Permit2 is on every EVM chain but few. */
const ON_EVM = '0x000000000022d473030f116ddee9f6b43ac78ba3';
/** On networks of Tron, by their CAIP-2 ids: SUN.io's on the main one. */
const ON_TRON: Readonly<Record<string, string>> = { 'tron:728126428': 'TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9' };
/** How addresses of the other family begin. A pin for its chains says nothing on those of this one. */
const FOREIGN: Readonly<Record<Exclude<Family, 'solana'>, RegExp>> = { evm: /^T/, tron: /^0x/i };

/**
 * Permit2 on a chain (CAIP-2), by the payer's own word or as it is known everywhere; `undefined` where it is not, as on Tron's other
 * networks than the main one.
 *
 * @throws {UsageError} where the pin is not an address.
 */
export function knownPermit2(chainId: string, { permit2: pin }: Pick<Trust, 'permit2'> = {}): string | undefined {
  const family = familyOf(chainId);
  if (family === 'solana') return undefined;
  if (pin !== undefined && !FOREIGN[family].test(pin)) return normalAccount(family, pin, 'permit2');
  return family === 'evm' ? ON_EVM : ON_TRON[chainId];
}
