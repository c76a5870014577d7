// What a payer signs for many payments at once: Permit2's batch transfer, whose witness is their escrow and their Merkle root. Whoever
// signs it agrees to what is under the root, so the root is made of the payer's own orders, and nothing of it is read from the gateway.

import { callData, digest, hashStruct, hexWord, keccak, word } from '../abi.js';
import type { AddressTerms } from '../addresses.js';
import { concatBytes, hex, unhex } from '../bytes.js';
import { splitAsset } from '../caip.js';
import { proxyAt, termsWords } from '../create2.js';
import type { ContractCall, ProxyRules } from '../create2.js';
import { depositOf } from '../deposit.js';
import { UsageError, VerificationError } from '../errors.js';
import { DOMAIN_TYPE, TOKEN_TYPE } from '../permit2.js';
import { EVM_PERMIT2_BATCH } from '../schemes.js';
import { difference, members, read } from '../typed.js';
import type { BatchData, Difference, Shown } from '../typed.js';
import type { BatchSpend, PreparedPaymentBatch, Spend } from '../types.js';
import { checkWindows } from '../windows.js';
import { PROXIES } from './addresses.js';

/**
 * The contract that draws batches, and brings what it draws nowhere but into the escrow that was signed, or back. It is at one
 * address on every chain, which follows from its code alone; whom another spender pays is its own affair, so none is taken from the gateway.
 */
export const PAYMENT_BATCHES = '0xd435ce48aea0b68f80bc2fe11a245f4c29d2260d';
/** What the address of each batch runs. */
export const BATCH_IMPLEMENTATION = '0xe1ed4548784b2d88277776246fcdc0d2af959a87';
/** Most tokens of a batch. */
const TOKENS_MAX = 8;

const PAYMENTS_TYPE = 'PaymentBatch(address escrow,bytes32 payments)';
const BATCH_TYPE =
  'PermitBatchWitnessTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline,PaymentBatch witness)' +
  PAYMENTS_TYPE +
  TOKEN_TYPE;
const TYPES = {
  EIP712Domain: members(DOMAIN_TYPE),
  TokenPermissions: members(TOKEN_TYPE),
  PaymentBatch: members(PAYMENTS_TYPE),
  PermitBatchWitnessTransferFrom: members(BATCH_TYPE),
};
const GIVE_BACK = 'giveBack((address,(address,uint256)[],address,uint256,uint256,bytes32),address)';
const RULES: ProxyRules = { ...PROXIES, implementation: () => unhex(BATCH_IMPLEMENTATION)! };

/** What is signed for a batch, and its digest. */
export interface BatchPermit {
  typedData: BatchData;
  digest: `0x${string}`;
}

/** A batch, as the contract has it. */
export interface Batch {
  payer: string;
  /** The tokens in ascending order, and how much of each is drawn, in its smallest unit. */
  permitted: { token: string; amount: bigint }[];
  /** Where all payments are deposited: once it is drawn the money goes there or back. */
  escrow: string;
  nonce: bigint;
  /** Last second of the deposits, UNIX: from the next on what is left is given back. */
  deadline: number;
  /** Root of the payments. */
  payments: `0x${string}`;
}

/** A payment under the root of its batch: all of the cap goes into escrow, and what a payer who signs for it alone would sign. */
function termsOf(spend: Spend, reserveDeadline: number): AddressTerms {
  const refundAfter = spend.fulfillmentDeadline + spend.refundDelaySeconds;
  checkWindows(spend, { reserveDeadline, refundAfter });
  // A batch is signed before there are quotes.
  if (spend.quoteHash === undefined || BigInt(spend.quoteHash) !== 0n) throw new UsageError('a payment of a batch is for no quote');
  const deposit = depositOf(spend, { reserveDeadline, refundAfter, quoteHash: spend.quoteHash });
  const { token } = splitAsset(spend.terms.source.asset_identifier);
  return { escrow: spend.escrow, token, amount: spend.cap, deposit };
}

/** The leaf of a payment. It is hashed twice, so that no pair of hashes is one. */
export function paymentLeaf(terms: AddressTerms): Uint8Array {
  return keccak(keccak(concatBytes(...termsWords(RULES, terms))));
}

/**
 * The root of a tree with these leaves: neighbours are hashed as pairs, the lesser one first, level by level; who has no neighbour goes
 * up as it is.
 */
export function paymentRoot(leaves: readonly Uint8Array[]): `0x${string}` {
  let level = leaves.map(hex);
  if (!level.length) throw new UsageError('a batch has a payment');
  while (level.length > 1) {
    const above: typeof level = [];
    for (let at = 0; at < level.length; at += 2) {
      const pair = level.slice(at, at + 2);
      above.push(pair.length === 1 ? pair[0]! : hex(keccak(concatBytes(...pair.sort().map(hexWord)))));
    }
    level = above;
  }
  return level[0]!;
}

/**
 * The batch of these payments. Its nonce is its root, so that one batch is drawn once, whoever signs it again.
 *
 * @throws {UsageError} where the payments have not one payer, chain and escrow, or too many tokens.
 */
export function batchOf({ spends, reserveDeadline }: BatchSpend): Batch {
  const [first] = spends;
  if (!first) throw new UsageError('a batch has a payment');
  const payer = first.terms.source.account;
  const sums = new Map<string, bigint>();
  for (const { chainId, escrow, permit2, terms, cap } of spends) {
    const isAlike = chainId === first.chainId && escrow === first.escrow && permit2 === first.permit2;
    if (terms.source.account !== payer || !isAlike) throw new UsageError('the payments of a batch have one payer, chain, escrow and Permit2');
    const { token } = splitAsset(terms.source.asset_identifier);
    sums.set(token, (sums.get(token) ?? 0n) + cap);
  }
  if (sums.size > TOKENS_MAX) throw new UsageError(`a batch draws ${TOKENS_MAX} tokens at most, and not ${sums.size}`);
  // Addresses are in lower case, whose order is that of their numbers.
  const permitted = [...sums].sort(([one], [other]) => (one < other ? -1 : 1)).map(([token, amount]) => ({ token, amount }));
  const payments = paymentRoot(spends.map((spend) => paymentLeaf(termsOf(spend, reserveDeadline))));
  return { payer, permitted, escrow: first.escrow, nonce: BigInt(payments), deadline: reserveDeadline, payments };
}

/**
 * The typed data of a batch, from the payer's orders and the accounts that it trusts. Nothing in it is the gateway's to choose.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else; `field` names it.
 */
export function rebuildBatch(batch: BatchSpend, prepared: PreparedPaymentBatch): BatchPermit {
  const { signed_messages: messages, message_scheme: scheme } = prepared;
  const [asked] = messages;
  if (scheme !== EVM_PERMIT2_BATCH || messages.length !== 1 || !asked)
    throw new VerificationError('message_scheme', `the gateway asks for ${messages.length} signatures of ${scheme}`);
  if (!batch.spends.length) throw new UsageError('a batch has a payment');
  insist('payments.length', batch.spends.length, prepared.payments.length);
  batch.spends.forEach(({ paymentId }, at) => insist(`payments[${at}].payment_id`, paymentId, prepared.payments[at]?.payment_id));
  insist('reserve_deadline', batch.reserveDeadline, prepared.reserve_deadline);
  const [{ chainId, permit2 }] = batch.spends as [Spend];
  const rebuilt = batchPermit(batchOf(batch), { chainId, permit2: permit2! });
  const shown = read(asked.message_prehash);
  const found = differs(rebuilt.typedData, shown);
  if (found) throw VerificationError.mismatch(found.field, found.expected, found.found);
  if (asked.message !== rebuilt.digest) throw VerificationError.mismatch('message', rebuilt.digest, asked.message);
  return rebuilt;
}

function insist(field: string, own: unknown, theirs: unknown): void {
  if (own !== theirs) throw VerificationError.mismatch(field, own, theirs);
}

/** The typed data of a batch in the domain of a chain's Permit2, whatever anybody asks to be signed. */
export function batchPermit(batch: Batch, { chainId, permit2 }: { chainId: string; permit2: string }): BatchPermit {
  const id = BigInt(chainId.split(':')[1]!);
  const typedData: BatchData = {
    types: TYPES,
    primaryType: 'PermitBatchWitnessTransferFrom',
    domain: { name: 'Permit2', chainId: Number(id), verifyingContract: permit2 },
    message: {
      permitted: batch.permitted.map(({ token, amount }) => ({ token, amount: amount.toString() })),
      spender: PAYMENT_BATCHES,
      nonce: batch.nonce.toString(),
      deadline: String(batch.deadline),
      witness: { escrow: batch.escrow, payments: batch.payments },
    },
  };
  const domain = hashStruct(DOMAIN_TYPE, keccak('Permit2'), word(id), hexWord(permit2));
  const struct = hashStruct(
    BATCH_TYPE,
    keccak(concatBytes(...batch.permitted.map(({ token, amount }) => hashStruct(TOKEN_TYPE, hexWord(token), word(amount))))),
    hexWord(PAYMENT_BATCHES),
    word(batch.nonce),
    word(batch.deadline),
    hashStruct(PAYMENTS_TYPE, hexWord(batch.escrow), hexWord(batch.payments)),
  );
  return { typedData, digest: hex(digest(domain, struct)) };
}

/** The first member in which what the gateway shows is something else. */
function differs({ primaryType, domain, message }: BatchData, shown: Shown): Difference | undefined {
  const { permitted, ...others } = message;
  const theirs = shown.message['permitted'];
  const tokens = (list: unknown): string => (Array.isArray(list) ? `${list.length} tokens` : 'no list');
  return (
    difference({ primaryType, domain }, shown) ??
    // Of their list only so many members are compared as there are in the own one.
    difference({ permitted: tokens(permitted) }, { permitted: tokens(theirs) }) ??
    difference({ permitted }, { permitted: theirs }) ??
    difference(others, shown.message)
  );
}

/** `abi.encode` of a batch, behind the word that says where it begins. */
function batchWords({ payer, permitted, escrow, nonce, deadline, payments }: Batch): Uint8Array[] {
  const head = [hexWord(payer), word(6 * 32), hexWord(escrow), word(nonce), word(deadline), hexWord(payments)];
  return [...head, word(permitted.length), ...permitted.flatMap(({ token, amount }) => [hexWord(token), word(amount)])];
}

/** Where the money of a batch is between its first deposit and its last, whether the address has its code or not. */
export function batchAddress(batch: Batch): string {
  return proxyAt(RULES, PAYMENT_BATCHES, keccak(concatBytes(word(32), ...batchWords(batch))));
}

/**
 * The call by which anyone has sent to the payer what is left at the batch's address after its `deadline`: all of `token`, or of the chain's
 * coin by the zero address. The gateway does it by itself.
 */
export function giveBackBatchCall(batch: Batch, token: string): ContractCall {
  const data = callData(GIVE_BACK, word(2 * 32), hexWord(hex(RULES.bytes(token, 'token'))), ...batchWords(batch));
  return { to: PAYMENT_BATCHES, data: hex(data) };
}
