// Mandates: what a payer signs once, Permit2's allowance for an address that commits to all that a merchant may ask for, and what the
// merchant signs for each payment. Both are made of the signer's own order, and nothing of them but the windows is read from the gateway.

import { bytesWords, callData, digest, hashStruct, hexWord, keccak, word } from '../abi.js';
import { concatBytes, hex, unhex, utf8ToBytes } from '../bytes.js';
import { evmAddress, splitAsset } from '../caip.js';
import { proxyAt } from '../create2.js';
import type { ContractCall, ProxyRules } from '../create2.js';
import { UsageError, VerificationError } from '../errors.js';
import { aroundAmounts, onChainId } from '../ids.js';
import { checkCharge, checkMandate } from '../mandate-rules.js';
import { DOMAIN_TYPE } from '../permit2.js';
import { EVM_PERMIT2_MANDATE } from '../schemes.js';
import { insistSame, members, object, read, seconds, TOKEN_DOMAIN_TYPE } from '../typed.js';
import type { CancellationData, ChargeData, GrantData, TypedData } from '../typed.js';
import type { ChargeSpend, Mandate, MandatePayload, MandateSpend, PreparedMandate, PreparedPayment } from '../types.js';
import { checkVerifier } from '../verifiers.js';
import { checkWindows } from '../windows.js';
import { PROXIES } from './addresses.js';

/**
 * The contract that keeps mandates, and draws by them nowhere but into the escrow that the payer signed for. It is at one address on every
 * chain, which follows from its code alone; whom another contract pays is its own affair, so none is taken from the gateway.
 */
export const MANDATES = '0xdbab82e3a709c159b54e0a0d3546e0071843e727';
/** What the address of each mandate runs. */
export const MANDATE_IMPLEMENTATION = '0x0acd3c5377995bee72c2af4eb38b1b49434da8bd';

const ZERO_ADDRESS = `0x${'0'.repeat(40)}`;

const DETAILS_TYPE = 'PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)';
const SINGLE_TYPE = `PermitSingle(PermitDetails details,address spender,uint256 sigDeadline)${DETAILS_TYPE}`;
const CHARGE_TYPE =
  'Charge(address mandate,bytes32 paymentId,uint256 fulfillmentAmount,uint160 amount,address reserver,uint48 reserveDeadline,' +
  'uint48 fulfillmentDeadline,uint48 refundAfter)';
const CANCELLATION_TYPE = 'Cancellation(address mandate)';
const MANDATE = '(address,address,address,uint160,uint256,address,address,uint48,uint32,uint32,uint32,bytes32,bytes,bytes)';
/** Words of a mandate in front of its terms, where they begin among them. */
const HEAD = 14;
const RULES: ProxyRules = { ...PROXIES, implementation: () => unhex(MANDATE_IMPLEMENTATION)! };

/** A mandate, as the contract has it. */
export interface OnChainMandate {
  payer: string;
  merchant: string;
  token: string;
  /** The most that is drawn in a period, in the token's smallest unit. */
  amount: bigint;
  /** What is delivered at least for all of `amount`; zero for no bound. */
  least: bigint;
  escrow: string;
  releaser: string;
  /** First second of the first period, UNIX. */
  begins: number;
  periodSeconds: number;
  periods: number;
  lockSeconds: number;
  salt: string;
  /** A payment's terms (canonical JSON) up to what is delivered. */
  termsBefore: string;
  /** The same from behind the most that it may cost. */
  termsAfter: string;
}

/** What is signed, and its digest. */
export interface Signable<Data extends TypedData> {
  typedData: Data;
  digest: `0x${string}`;
}

/** What a payer signs for a mandate. */
export type MandatePermit = Signable<GrantData>;

/** What a merchant signs for a payment. */
export interface Charge extends Signable<ChargeData> {
  /** What the submission says beside the signature. */
  payload: MandatePayload & { reserve_deadline: number; refund_after: number };
}

/**
 * The mandate of payments by these terms, whatever their amounts.
 *
 * @throws {UsageError} where the contract has no address for it.
 */
export function mandateOf({ terms, escrow, releaser, mandate }: Pick<MandateSpend, 'terms' | 'escrow' | 'releaser' | 'mandate'>): OnChainMandate {
  const [termsBefore, termsAfter] = aroundAmounts(terms);
  const payer = terms.source.account;
  const merchant = evmAddress(mandate.merchant, 'mandate.merchant');
  if (payer === ZERO_ADDRESS || merchant === ZERO_ADDRESS) throw new UsageError('a mandate has a payer and a merchant, and neither is zero');
  return {
    payer,
    merchant,
    token: evmAddress(splitAsset(terms.source.asset_identifier).token, 'source.asset'),
    ...checkMandate(mandate),
    escrow,
    releaser,
    begins: mandate.begins,
    periodSeconds: mandate.period_seconds,
    periods: mandate.periods,
    lockSeconds: mandate.lock_seconds,
    salt: mandate.salt,
    termsBefore,
    termsAfter,
  };
}

/** `abi.encode` of a mandate, behind the word that says where it begins. */
function encoded(of: OnChainMandate): Uint8Array {
  const [before, after] = [of.termsBefore, of.termsAfter].map((text) => bytesWords(utf8ToBytes(text))) as [Uint8Array, Uint8Array];
  return concatBytes(
    ...[of.payer, of.merchant, of.token].map(hexWord),
    word(of.amount),
    word(of.least),
    ...[of.escrow, of.releaser].map(hexWord),
    ...[of.begins, of.periodSeconds, of.periods, of.lockSeconds].map(word),
    hexWord(of.salt),
    word(HEAD * 32),
    word(HEAD * 32 + before.length),
    before,
    after,
  );
}

/** The address to which the payer gives its allowance, whether it has its code or not. */
export function mandateAddress(mandate: OnChainMandate): string {
  return proxyAt(RULES, MANDATES, keccak(concatBytes(word(32), encoded(mandate))));
}

/** The typed data of a payer's allowance in the domain of a chain's Permit2: of all periods together, up to the last second of the last. */
export function mandatePermit(mandate: OnChainMandate, { chainId, permit2 }: { chainId: string; permit2: string }): MandatePermit {
  const { token } = mandate;
  const { amount, last, spender } = grantOf(mandate);
  const typedData: GrantData = {
    types: { EIP712Domain: members(DOMAIN_TYPE), PermitDetails: members(DETAILS_TYPE), PermitSingle: members(SINGLE_TYPE) },
    primaryType: 'PermitSingle',
    domain: { name: 'Permit2', chainId: Number(numberOf(chainId)), verifyingContract: permit2 },
    message: {
      details: { token, amount: amount.toString(), expiration: String(last), nonce: '0' },
      spender,
      sigDeadline: String(last),
    },
  };
  const domain = hashStruct(DOMAIN_TYPE, keccak('Permit2'), word(numberOf(chainId)), hexWord(permit2));
  const details = hashStruct(DETAILS_TYPE, hexWord(token), word(amount), word(last), word(0));
  return { typedData, digest: hex(digest(domain, hashStruct(SINGLE_TYPE, details, hexWord(spender), word(last)))) };
}

const numberOf = (chainId: string): bigint => BigInt(chainId.split(':')[1]!);

/** How much the mandate's address may draw, up to when, and which it is. */
function grantOf(mandate: OnChainMandate): { amount: bigint; last: number; spender: string } {
  const { amount, begins, periodSeconds, periods } = mandate;
  return { amount: amount * BigInt(periods), last: begins + periodSeconds * periods - 1, spender: mandateAddress(mandate) };
}

/** Typed data in the domain of the contract that keeps mandates. */
function byContract<Data extends ChargeData | CancellationData>(
  chainId: string,
  { primaryType, message }: Pick<Data, 'primaryType' | 'message'>,
  type: string,
  ...words: Uint8Array[]
): { typedData: Pick<Data, 'primaryType' | 'message'> & Pick<TypedData, 'types' | 'domain'>; digest: `0x${string}` } {
  const [name, version] = ['GatewayMandates', '1'];
  const domain = hashStruct(TOKEN_DOMAIN_TYPE, keccak(name), keccak(version), word(numberOf(chainId)), hexWord(MANDATES));
  return {
    typedData: {
      types: { EIP712Domain: members(TOKEN_DOMAIN_TYPE), [primaryType]: members(type) },
      primaryType,
      domain: { name, version, chainId: Number(numberOf(chainId)), verifyingContract: MANDATES },
      message,
    },
    digest: hex(digest(domain, hashStruct(type, ...words))),
  };
}

/** The typed data of a payment that a merchant asks for, on a chain (CAIP-2); numbers are decimal texts. */
export function chargeMessage(chainId: string, message: ChargeData['message']): Signable<ChargeData> {
  const { mandate, paymentId, fulfillmentAmount, amount, reserver, reserveDeadline, fulfillmentDeadline, refundAfter } = message;
  const numbers = (...texts: string[]): Uint8Array[] => texts.map((text) => word(BigInt(text)));
  return byContract<ChargeData>(
    chainId,
    { primaryType: 'Charge', message },
    CHARGE_TYPE,
    ...[mandate, paymentId].map(hexWord),
    ...numbers(fulfillmentAmount, amount),
    hexWord(reserver),
    ...numbers(reserveDeadline, fulfillmentDeadline, refundAfter),
  );
}

/** The typed data of a mandate's end, on a chain (CAIP-2): with the payer's signature over it anyone can send {@link cancelMandateCall}. */
export function mandateCancellation(mandate: OnChainMandate, { chainId }: { chainId: string }): Signable<CancellationData> {
  const at = mandateAddress(mandate);
  return byContract<CancellationData>(chainId, { primaryType: 'Cancellation', message: { mandate: at } }, CANCELLATION_TYPE, hexWord(at));
}

/**
 * The call that ends a mandate for ever: by its payer or its merchant, or by anyone with the payer's signature, hex, over
 * {@link mandateCancellation}. What is in escrow by then stays there for its payment.
 */
export function cancelMandateCall(mandate: OnChainMandate, signature = '0x'): ContractCall {
  const bytes = unhex(signature);
  if (!bytes) throw new UsageError('a signature is 0x and digits');
  const struct = encoded(mandate);
  const data = callData(`cancel(${MANDATE},bytes)`, word(2 * 32), word(2 * 32 + struct.length), struct, bytesWords(bytes));
  return { to: MANDATES, data: hex(data) };
}

/**
 * The call by which anyone has sent to the payer what strangers sent to the mandate's address: all of `token`, or of the chain's coin by the
 * zero address.
 */
export function giveBackMandateCall(mandate: OnChainMandate, token: string): ContractCall {
  const data = callData(`giveBack(${MANDATE},address)`, word(2 * 32), hexWord(evmAddress(token, 'token')), encoded(mandate));
  return { to: MANDATES, data: hex(data) };
}

/** The call of Permit2 by which a payer that is a contract gives the mandate's allowance, and signs nothing. */
export function allowMandateCall(mandate: OnChainMandate, permit2: string): ContractCall {
  const { amount, last, spender } = grantOf(mandate);
  const words = [hexWord(mandate.token), hexWord(spender), word(amount), word(last)];
  return { to: permit2, data: hex(callData('approve(address,address,uint160,uint48)', ...words)) };
}

/**
 * The typed data of a payer's mandate, from its own order and the accounts that it trusts. Nothing in it is the gateway's to choose, and the
 * calls that the gateway shows have to be the mandate's own.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else, or shows another call; `field` names it.
 * @throws {UsageError} where the contract has no address for the mandate.
 */
export function rebuildMandate(spend: MandateSpend, prepared: PreparedMandate): MandatePermit {
  const { chainId, mandate, releaser } = spend;
  const permit2 = spend.permit2!;
  const own = mandateOf(spend);
  const { message_scheme: scheme, permit, approval } = prepared;
  const cancel = object(prepared.cancel);
  if (scheme !== EVM_PERMIT2_MANDATE) throw new VerificationError('message_scheme', `the gateway asks for a signature of ${scheme}`);
  checkVerifier('evm', releaser, prepared.fulfillment_verifier);
  insistSame({ contract: MANDATES }, prepared);
  // A bound that the order has not is one more member.
  insistSame({ ...mandate, least: mandate.least } satisfies Record<keyof Mandate, unknown>, prepared.mandate, 'mandate');
  insistSame({ address: mandateAddress(own) }, prepared);
  const rebuilt = mandatePermit(own, { chainId, permit2 });
  insistSigned(rebuilt, permit);
  insistCall('allowance', allowMandateCall(own, permit2), prepared.allowance);
  insistCall('cancel.call', cancelMandateCall(own), cancel['call']);
  insistSigned(mandateCancellation(own, spend), cancel['message'], 'cancel.message');
  if (approval) insistApproval(own, permit2, approval);
  return rebuilt;
}

/** @throws {VerificationError} where what is asked to be signed is something else. */
function insistSigned({ typedData, digest: own }: Signable<TypedData>, asked: unknown, path = ''): void {
  const { primaryType, domain, message } = typedData;
  const { message: found, message_prehash: text } = object(asked);
  const shown = read(String(text));
  insistSame({ primaryType, domain }, shown, path);
  insistSame(message, shown.message, path);
  if (found !== own) throw VerificationError.mismatch(path ? `${path}.message` : 'message', own, found);
}

function insistCall(path: string, { to, data }: ContractCall, shown: unknown): void {
  insistSame({ to, data, value: '0x0' }, shown, path);
}

/** @throws {VerificationError} where the payer would send anything but an allowance for Permit2 of all periods together. */
function insistApproval(own: OnChainMandate, permit2: string, shown: NonNullable<PreparedMandate['approval']>): void {
  const { amount } = grantOf(own);
  insistSame({ spender: permit2, amount }, shown, 'approval');
  const data = hex(callData('approve(address,uint256)', hexWord(permit2), word(amount)));
  insistCall('approval.call', { to: own.token, data }, shown.call);
}

/**
 * The typed data of a payment that a merchant asks for, from its own order, its payer's mandate and the accounts that it trusts. Only the
 * windows are read from what the gateway prepared, and bounded.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else; `field` names it.
 * @throws {UsageError} where the mandate does not allow the payment's amounts.
 */
export function rebuildCharge({ spend, payload }: ChargeSpend, prepared: PreparedPayment): Charge {
  const { signed_messages: messages, message_scheme: scheme } = prepared;
  const [asked] = messages;
  if (scheme !== EVM_PERMIT2_MANDATE || messages.length !== 1 || !asked)
    throw new VerificationError('message_scheme', `the gateway asks for ${messages.length} signatures of ${scheme}`);
  checkVerifier('evm', spend.releaser, prepared.fulfillment_verifier);
  // A charge is signed before there are quotes.
  if (spend.quoteHash === undefined || BigInt(spend.quoteHash) !== 0n) throw new UsageError('a payment under a mandate is for no quote');
  const own = mandateOf({ ...spend, mandate: payload.mandate });
  checkCharge(own, BigInt(spend.terms.fulfillment_amount), spend.cap);
  const shown = read(asked.message_prehash).message;
  const reserveDeadline = seconds('reserveDeadline', shown['reserveDeadline']);
  const refundAfter = seconds('refundAfter', shown['refundAfter']);
  const rebuilt = chargeMessage(spend.chainId, {
    mandate: mandateAddress(own),
    paymentId: onChainId(spend.paymentId),
    fulfillmentAmount: spend.terms.fulfillment_amount,
    amount: spend.cap.toString(),
    reserver: spend.reserver,
    reserveDeadline: String(reserveDeadline),
    fulfillmentDeadline: String(spend.fulfillmentDeadline),
    refundAfter: String(refundAfter),
  });
  insistSigned(rebuilt, asked);
  checkWindows(spend, { reserveDeadline, refundAfter });
  const { mandate, permit } = payload;
  const shownWith = { mandate, ...(permit === undefined ? {} : { permit }) };
  return { ...rebuilt, payload: { reserve_deadline: reserveDeadline, refund_after: refundAfter, ...shownWith } };
}
