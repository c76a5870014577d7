// What the contract that keeps mandates takes, alike for who signs one and for who asks for payments under it.

import { UsageError } from './errors.js';
import type { Mandate } from './types.js';

const UINT32_MAX = 2 ** 32 - 1;
const UINT48_MAX = 2 ** 48 - 1;
const UINT160_MAX = 2n ** 160n - 1n;
const UINT256_MAX = 2n ** 256n - 1n;

/** The numbers of a mandate: amounts in the smallest unit, `least` zero where there is no bound. */
export interface MandateAmounts {
  amount: bigint;
  least: bigint;
}

/**
 * The amounts of a mandate that the contract has an address for.
 *
 * @throws {UsageError} where it has none.
 */
export function checkMandate(mandate: Mandate): MandateAmounts {
  const { begins, period_seconds, periods, lock_seconds, salt } = mandate;
  for (const [name, value] of Object.entries({ period_seconds, periods, lock_seconds }))
    if (!isWhole(value, 1, UINT32_MAX)) throw new UsageError(`mandate.${name} must be 1 to ${UINT32_MAX}, and not ${value}`);
  if (!isWhole(begins, 0, UINT48_MAX)) throw new UsageError(`mandate.begins is not a time in seconds: ${begins}`);
  if (mandateEnds(mandate) > UINT48_MAX) throw new UsageError('a mandate must end within the times that contracts hold, 48 bits');
  if (typeof salt !== 'string' || !/^0x[0-9a-f]{64}$/.test(salt))
    throw new UsageError(`mandate.salt must be 0x and 64 digits, drawn at random by the payer: ${salt}`);
  const amount = above('amount', mandate.amount);
  if (amount * BigInt(periods) >= UINT160_MAX) throw new UsageError('mandate.amount times periods must be less than 160 bits hold');
  return { amount, least: mandate.least === undefined ? 0n : above('least', mandate.least) };
}

const isWhole = (value: number, least: number, most: number): boolean =>
  Number.isSafeInteger(value) && value >= least && value <= most;

function above(name: 'amount' | 'least', text: string): bigint {
  const value = typeof text === 'string' && /^\d{1,78}$/.test(text) ? BigInt(text) : 0n;
  if (value === 0n || value > UINT256_MAX)
    throw new UsageError(`mandate.${name} is not a number of smallest units above zero: ${text}`);
  return value;
}

/** First second behind the last period, UNIX. */
export const mandateEnds = (mandate: Pick<Mandate, 'begins' | 'period_seconds' | 'periods'>): number =>
  mandate.begins + mandate.period_seconds * mandate.periods;

/**
 * Whether a payment's amounts are within its mandate, by the contract's reckoning: no more is drawn than in a whole period, and
 * no less delivered for it than was agreed.
 *
 * @throws {UsageError} where they are not.
 */
export function checkCharge({ amount, least }: MandateAmounts, delivered: bigint, drawn: bigint): void {
  if (drawn > amount) throw new UsageError(`maxSource is ${drawn}, and the mandate allows ${amount} in a period`);
  const [given, asked] = [delivered * amount, least * drawn] as const;
  if (given >= asked && given <= UINT256_MAX) return;
  const rule = given < asked ? `asks for ${least} for ${amount} at least, and so in proportion` : 'reckons with 256 bits at most';
  throw new UsageError(`amount is ${delivered} for ${drawn}, and the mandate ${rule}`);
}
