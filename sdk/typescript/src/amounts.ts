// Amounts as people write them, and as chains count: exact integers of the smallest unit, never floating point.

import { UsageError } from './errors.js';

/** Most decimal places of an asset. */
const DECIMALS_MAX = 77;
const WRITTEN = /^(\d+)(?:\.(\d+))?$/;

function places(decimals: number): number {
  if (!Number.isInteger(decimals) || decimals < 0 || decimals > DECIMALS_MAX) {
    throw new UsageError(`an asset cannot have ${decimals} decimal places`);
  }
  return decimals;
}

/**
 * The smallest units in an amount as it is written, with a point: `parseAmount('25.5', 6)` is `25500000n`. `decimals` is that
 * of the asset in `/v1/defaults`.
 *
 * @throws {UsageError} where it is not a number, or has more places than the asset.
 */
export function parseAmount(text: string, decimals: number): bigint {
  const [, whole, fraction = ''] = WRITTEN.exec(text) ?? [];
  if (whole === undefined)
    throw new UsageError(`${JSON.stringify(text)} is not an amount: digits, and a point where it has a fraction`);
  if (fraction.length > places(decimals)) throw new UsageError(`${text} has more than the ${decimals} decimal places of the asset`);
  return BigInt(whole + fraction.padEnd(decimals, '0'));
}

/** An amount as it is written, without zeros at its end: `formatAmount(25500000n, 6)` is `'25.5'`. */
export function formatAmount(amount: bigint, decimals: number): string {
  if (amount < 0n) throw new UsageError(`${amount} is not an amount`);
  const digits = amount.toString().padStart(places(decimals) + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '');
  return fraction ? `${whole}.${fraction}` : whole;
}

/** A whole number of smallest units, above zero, as requests write it. */
export function units(value: string | bigint, field: string): bigint {
  const isWritten = typeof value === 'bigint' || (typeof value === 'string' && /^\d{1,78}$/.test(value));
  const amount = isWritten ? BigInt(value) : 0n;
  if (amount <= 0n) throw new UsageError(`${field} is not a number of smallest units above zero: ${String(value)}`);
  return amount;
}
