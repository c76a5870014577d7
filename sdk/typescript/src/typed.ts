// EIP-712 typed data: what wallets are given, and where a gateway's differs from the payer's own.

import { HEX_ADDRESSES } from './abi.js';
import type { Deposit } from './deposit.js';
import { VerificationError } from './errors.js';

/** Typed data as `eth_signTypedData_v4` takes it; every number but the chain's is a decimal text. */
interface Typed<Primary extends string, Message> {
  types: Record<string, { name: string; type: string }[]>;
  primaryType: Primary;
  domain: { name: string; version?: string; chainId: number; verifyingContract: string };
  message: Message;
}

/** Permit2's transfer into the escrow. */
export type TransferData = Typed<
  'PermitWitnessTransferFrom',
  {
    permitted: { token: string; amount: string };
    spender: string;
    nonce: string;
    deadline: string;
    witness: Deposit;
  }
>;

/** Permit2's transfer for a batch of payments. */
export type BatchData = Typed<
  'PermitBatchWitnessTransferFrom',
  {
    permitted: { token: string; amount: string }[];
    spender: string;
    nonce: string;
    deadline: string;
    witness: { escrow: string; payments: string };
  }
>;

/** A token's own transfer into the escrow (ERC-3009). */
export type AuthorizationData = Typed<
  'ReceiveWithAuthorization',
  { from: string; to: string; value: string; validAfter: string; validBefore: string; nonce: string }
>;

/** A token's allowance for Permit2 (ERC-2612). */
export type AllowanceData = Typed<
  'Permit',
  { owner: string; spender: string; value: string; nonce: string; deadline: string }
>;

/** Permit2's allowance for the address of a mandate. */
export type GrantData = Typed<
  'PermitSingle',
  {
    details: { token: string; amount: string; expiration: string; nonce: string };
    spender: string;
    sigDeadline: string;
  }
>;

/** What a merchant asks for under a mandate. */
export type ChargeData = Typed<
  'Charge',
  {
    mandate: string;
    paymentId: string;
    fulfillmentAmount: string;
    amount: string;
    reserver: string;
    reserveDeadline: string;
    fulfillmentDeadline: string;
    refundAfter: string;
  }
>;

/** The end of a mandate. */
export type CancellationData = Typed<'Cancellation', { mandate: string }>;

/** What a payer on EVM chains signs, or the merchant of its mandate. */
export type TypedData = TransferData | BatchData | AuthorizationData | AllowanceData | GrantData | ChargeData | CancellationData;

/** The domain of tokens that take signatures. */
export const TOKEN_DOMAIN_TYPE = 'EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)';
/** Characters of the longest name and version that a token's domain may have. */
const DOMAIN_CHARS_MAX = 256;
/** Digits of the greatest `uint256`. */
const DIGITS_MAX = 78;
const UINT256_MAX = 2n ** 256n - 1n;

/** The members of a type string, `Name(type name,…)`. */
export const members = (type: string): { name: string; type: string }[] =>
  type
    .slice(type.indexOf('(') + 1, type.indexOf(')'))
    .split(',')
    .map((member) => {
      const [kind = '', name = ''] = member.split(' ');
      return { name, type: kind };
    });

/** Typed data of a gateway, of which nothing is believed. */
export interface Shown {
  domain: Record<string, unknown>;
  message: Record<string, unknown>;
  primaryType: unknown;
}

/** Reads typed data of a gateway; what is not there is empty. */
export function read(text: string): Shown {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    // Refused below, as what it should say is missing.
  }
  const { domain, message, primaryType } = object(data);
  return { domain: object(domain), message: object(message), primaryType };
}

/** A value as an object; an empty one where it is something else. */
export function object(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** Name and version of a token's domain. The token alone knows them: with others a signature counts nowhere. */
export function tokenDomain({ domain }: Shown): { name: string; version: string } {
  const text = (member: 'name' | 'version'): string => {
    const value = domain[member];
    const field = `domain.${member}`;
    if (typeof value !== 'string' || value.length > DOMAIN_CHARS_MAX)
      throw new VerificationError(field, `the gateway names a ${field} that is none: ${String(value).slice(0, 100)}`);
    return value;
  };
  return { name: text('name'), version: text('version') };
}

/** A time in UNIX seconds. */
export function seconds(field: string, value: unknown): number {
  const number = typeof value === 'number' || (typeof value === 'string' && /^\d{1,15}$/.test(value)) ? Number(value) : NaN;
  if (!Number.isSafeInteger(number) || number < 0) throw new VerificationError(field, `${field} is not a time: ${String(value)}`);
  return number;
}

/** A `uint256`. */
export function uint(field: string, value: unknown): bigint {
  const isWhole = Number.isSafeInteger(value) || (typeof value === 'string' && /^\d+$/.test(value) && value.length <= DIGITS_MAX);
  const number = isWhole ? BigInt(value as string | number) : -1n;
  if (number < 0n || number > UINT256_MAX)
    throw new VerificationError(field, `${field} is not a uint256: ${String(value).slice(0, 100)}`);
  return number;
}

/** A member that differs. */
export interface Difference {
  field: string;
  expected: string;
  found: string;
}

/** Where `theirs` differs first from `mine`; `undefined` where it does not. Whatever stands for one address is the same. */
export function difference(mine: unknown, theirs: unknown, path = '', form = HEX_ADDRESSES): Difference | undefined {
  if (typeof mine !== 'object' || mine === null) {
    const [expected, found] = [String(mine), String(theirs)];
    return form.normalized(expected) === form.normalized(found) ? undefined : { field: path, expected, found: found.slice(0, 100) };
  }
  for (const [name, value] of Object.entries(mine)) {
    const found = difference(value, object(theirs)[name], path ? `${path}.${name}` : name, form);
    if (found) return found;
  }
  return undefined;
}

/** @throws {VerificationError} that names the first member in which `theirs` differs from `mine`. */
export function insistSame(mine: unknown, theirs: unknown, path = ''): void {
  const found = difference(mine, theirs, path);
  if (found) throw VerificationError.mismatch(found.field, found.expected, found.found);
}
