// What a payer signs for a token itself, rebuilt from the payer's own request: a transfer into the escrow (ERC-3009), or an allowance
// for Permit2 (ERC-2612). Neither needs a transaction of the payer's.

import { digest, hashStruct, hexWord, keccak, word } from '../abi.js';
import { hex } from '../bytes.js';
import { splitAsset } from '../caip.js';
import { depositHash, depositOf } from '../deposit.js';
import type { Deposit } from '../deposit.js';
import { VerificationError } from '../errors.js';
import { insistSame, members, object, read, seconds, TOKEN_DOMAIN_TYPE, tokenDomain, uint } from '../typed.js';
import type { AllowanceData, AuthorizationData, Shown } from '../typed.js';
import type { Spend } from '../types.js';
import { checkWindows } from '../windows.js';

const AUTHORIZATION_TYPE =
  'ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)';
const ALLOWANCE_TYPE = 'Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)';
/** An allowance that does not end: Permit2 draws nothing by it without a signature of the payer's for each transfer. */
const ENDLESS = 2n ** 256n - 1n;

/** What a gateway asks to be signed. */
interface Asked {
  message: string;
  message_prehash: string;
  payload?: object;
}

/** A transfer into the escrow that is signed for the token. */
export interface Authorization {
  typedData: AuthorizationData;
  digest: `0x${string}`;
  /** What the submission says beside the signature, which covers no more than the deposit's hash. */
  payload: {
    reserve_deadline: number;
    refund_after: number;
    valid_before: number;
    permitted_amount?: string;
    deposit: Deposit;
  };
}

/** An allowance for Permit2 that is signed for the token. */
export interface Allowance {
  typedData: AllowanceData;
  digest: `0x${string}`;
  /** What the submission says beside the signature. */
  payload: { function: 'permit'; contract: string; spender: string; amount: string; nonce: string; deadline: string };
}

/**
 * The typed data of a token's transfer into the escrow. Read from what the gateway prepared are the token's name and version, the
 * windows, which are bounded, and, where a quote is taken, how much from its price to the cap is deposited. Each member of the deposit
 * whose hash is the nonce has to be the payer's own.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else; `field` names it.
 */
export function rebuildAuthorization(spend: Spend, asked: Asked): Authorization {
  const shown = read(asked.message_prehash);
  const theirs = object(object(asked.payload)['deposit']);
  const reserveDeadline = seconds('deposit.reserveDeadline', theirs['reserveDeadline']);
  const refundAfter = seconds('deposit.refundAfter', theirs['refundAfter']);
  checkWindows(spend, { reserveDeadline, refundAfter });
  const deposit = depositOf(spend, { reserveDeadline, refundAfter, quoteHash: String(theirs['quoteHash']) });
  insistSame(deposit, theirs, 'deposit');
  const validBefore = lastingUntil(spend, reserveDeadline, shown);
  const value = valueOf(spend, shown);
  const nonce = hex(depositHash(deposit));
  const typedData: AuthorizationData = {
    types: { EIP712Domain: members(TOKEN_DOMAIN_TYPE), ReceiveWithAuthorization: members(AUTHORIZATION_TYPE) },
    primaryType: 'ReceiveWithAuthorization',
    domain: domainOf(spend, shown),
    message: {
      from: spend.terms.source.account,
      to: spend.escrow,
      value: value.toString(),
      validAfter: '0',
      validBefore: String(validBefore),
      nonce,
    },
  };
  const words = [hexWord(typedData.message.from), hexWord(spend.escrow), word(value), word(0), word(validBefore), hexWord(nonce)];
  const isAmountChosen = spend.terms.max_source_amount === undefined || spend.price !== undefined;
  return {
    typedData,
    digest: compared(asked, shown, typedData, hashStruct(AUTHORIZATION_TYPE, ...words)),
    payload: {
      reserve_deadline: reserveDeadline,
      refund_after: refundAfter,
      valid_before: validBefore,
      ...(isAmountChosen ? { permitted_amount: value.toString() } : {}),
      deposit,
    },
  };
}

/**
 * The typed data of an endless allowance for Permit2, and for nothing else. Read from what the gateway prepared are the token's name,
 * version and nonce, and the deadline, which is bounded.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else; `field` names it.
 */
export function rebuildAllowance(spend: Spend, asked: Asked): Allowance {
  const shown = read(asked.message_prehash);
  const deadline = seconds('deadline', shown.message['deadline']);
  insistAtMost('deadline', 'the allowance could be given too late', spend.fulfillmentDeadline, deadline);
  const nonce = uint('nonce', shown.message['nonce']);
  const { token } = splitAsset(spend.terms.source.asset_identifier);
  const [owner, spender] = [spend.terms.source.account, spend.permit2!];
  const typedData: AllowanceData = {
    types: { EIP712Domain: members(TOKEN_DOMAIN_TYPE), Permit: members(ALLOWANCE_TYPE) },
    primaryType: 'Permit',
    domain: domainOf(spend, shown),
    message: { owner, spender, value: ENDLESS.toString(), nonce: nonce.toString(), deadline: String(deadline) },
  };
  const struct = hashStruct(ALLOWANCE_TYPE, hexWord(owner), hexWord(spender), word(ENDLESS), word(nonce), word(deadline));
  return {
    typedData,
    digest: compared(asked, shown, typedData, struct),
    payload: { function: 'permit', contract: token, spender, amount: ENDLESS.toString(), nonce: nonce.toString(), deadline: String(deadline) },
  };
}

function domainOf(spend: Spend, shown: Shown): { name: string; version: string; chainId: number; verifyingContract: string } {
  const { reference, token } = splitAsset(spend.terms.source.asset_identifier);
  return { ...tokenDomain(shown), chainId: Number(reference), verifyingContract: token };
}

/** The digest of what was rebuilt, where the gateway asks for a signature over the same. */
function compared(
  asked: Asked,
  shown: Shown,
  { primaryType, domain, message }: AuthorizationData | AllowanceData,
  struct: Uint8Array,
): `0x${string}` {
  insistSame({ primaryType, domain }, shown);
  insistSame(message, shown.message);
  const { name, version, chainId, verifyingContract } = domain;
  const separator = hashStruct(TOKEN_DOMAIN_TYPE, keccak(name), keccak(version ?? ''), word(chainId), hexWord(verifyingContract));
  const own = hex(digest(separator, struct));
  if (asked.message !== own) throw VerificationError.mismatch('message', own, asked.message);
  return own;
}

/** `validBefore`: the first second in which the token does not take the signature any more. */
function lastingUntil(spend: Spend, reserveDeadline: number, { message }: Shown): number {
  const validBefore = seconds('validBefore', message['validBefore']);
  insistAtMost('validBefore', 'the signature would hold for too long', spend.fulfillmentDeadline + 1, validBefore);
  if (validBefore <= reserveDeadline) {
    const rule = `the signature would end before the deposit has to be made: ${validBefore}`;
    throw new VerificationError('validBefore', rule, `more than ${reserveDeadline}`, String(validBefore));
  }
  return validBefore;
}

/** What is deposited: the cap, or, where a quote is taken, as much from its price on as the gateway asks for. */
function valueOf(spend: Spend, { message }: Shown): bigint {
  const value = uint('value', message['value']);
  const least = spend.price ?? spend.cap;
  if (value < least || value > spend.cap) {
    const expected = least === spend.cap ? String(least) : `from ${least} to ${spend.cap}`;
    throw VerificationError.mismatch('value', expected, value);
  }
  return value;
}

function insistAtMost(field: string, rule: string, limit: number, found: number): void {
  if (found > limit)
    throw new VerificationError(field, `${rule}: ${found}, and ${limit} is the latest`, `at most ${limit}`, String(found));
}
