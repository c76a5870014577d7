// The escrow's own calls, for EVM chains and Tron: the terms of a payment, read from the chain, and what may be done with them.

import { callData, hexWord, keccak, WORD, wordAt } from './abi.js';
import { concatBytes, hex, isEqual, unhex } from './bytes.js';
import { UsageError, WalletError } from './errors.js';
import { onChainId } from './ids.js';
import type { EscrowedClaim } from './types.js';

const DEPOSIT = '(bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48)';
const TERMS = `(${DEPOSIT},address,uint256,bytes32,address,uint256,uint48)`;
/** The call, as `TERMS` is its one argument. */
export const REFUND = `refund(${TERMS})`;
export const RECORD_OF = 'recordOf(bytes32)';
export const DEPOSITED = hex(keccak(`Deposited(bytes32,bytes32,address,${DEPOSIT},address,uint256)`));
export const RESERVED = hex(keccak('Reserved(bytes32,bytes32,address,uint256,uint48)'));
/** Words of the event's data. */
const DEPOSITED_WORDS = 11;
const RESERVED_WORDS = 2;
/** `refundAfter` among the words of the terms. */
const REFUND_AFTER = 8;
/** States that can be refunded. */
const STATES_OPEN = new Set([1n, 2n]);
const STATES = ['not there', 'deposited', 'reserved', 'released', 'refunded'];

/** An event of the escrow. */
export interface Log {
  topics: string[];
  data: string;
}

/** What a chain is asked, to learn the terms of a payment. */
export interface EscrowReader {
  /** The answer to a call of the escrow. */
  call(data: Uint8Array): Promise<Uint8Array>;
  /** The escrow's events of a payment with this first topic, in this block or wherever they are. */
  logs(topic: string, paymentTopic: string, block: bigint): Promise<Log[]>;
  /** Time of the newest block, UNIX seconds. */
  now(): Promise<bigint>;
}

/**
 * The arguments of `refund`: the terms that the escrow keeps a hash of, read from its events, and held against that hash.
 *
 * @throws {WalletError} where there is nothing to be refunded, or not yet.
 */
export async function refundTerms(reader: EscrowReader, paymentId: string): Promise<Uint8Array> {
  const id = onChainId(paymentId);
  const record = await reader.call(callData(RECORD_OF, hexWord(id)));
  const [state, , depositedAt, reservedAt] = [0, 1, 2, 3].map((at) => wordAt(record, at)) as [bigint, bigint, bigint, bigint];
  if (!STATES_OPEN.has(state)) {
    throw new WalletError(
      'failed',
      `the escrow has nothing of ${paymentId} to refund: it is ${STATES[Number(state)] ?? 'unknown'}`,
    );
  }
  const topic = (log: Log, at: number): Uint8Array => hexWord(log.topics[at] ?? '');
  const [deposited] = await events(reader, DEPOSITED, id, depositedAt, DEPOSITED_WORDS);
  // Of an escrow that was reassigned, a node that is asked for all blocks shows every settler that it was reserved for.
  const awards =
    reservedAt === 0n
      ? [[topic(deposited, 2), new Uint8Array(3 * WORD)]]
      : (await events(reader, RESERVED, id, reservedAt, RESERVED_WORDS)).map((log) => [topic(log, 2), topic(log, 3), unhex(log.data)!]);
  const commitment = record.slice(5 * WORD, 6 * WORD);
  const candidates = awards.map((award) => concatBytes(unhex(deposited.data)!, ...award));
  const terms = candidates.find((candidate) => isEqual(keccak(candidate), commitment));
  if (!terms) throw new WalletError('failed', `the node shows other events than those of ${paymentId}`);
  const [refundAfter, now] = [wordAt(terms, REFUND_AFTER), await reader.now()];
  if (now < refundAfter)
    throw new WalletError('failed', `${paymentId} can be refunded from ${new Date(Number(refundAfter) * 1000).toISOString()} on`);
  return terms;
}

/** The events that there are; one at least. */
async function events(reader: EscrowReader, topic: string, id: string, block: bigint, words: number): Promise<[Log, ...Log[]]> {
  const [log, ...more] = (await reader.logs(topic, id, block)).filter(({ data }) => unhex(data)?.length === words * WORD);
  if (!log) throw new WalletError('failed', `the node does not show the event of block ${block}: ask one that keeps it`);
  return [log, ...more];
}

/** The bytes of the call that takes a claim. `address` makes a word of an address of the chain. */
export function claimCall(account: string, claim: EscrowedClaim, address: (text: string, field: string) => Uint8Array): Uint8Array {
  const owner = claim.owner ?? account;
  const token = address(claim.token, 'token');
  const isOwner = isEqual(address(owner, 'owner'), address(account, 'account'));
  if (claim.to === undefined) return callData('claimFor(address,address)', address(owner, 'owner'), token);
  if (!isOwner) throw new UsageError('only its owner may send a claim elsewhere than to itself');
  return callData('claim(address,address)', token, address(claim.to, 'to'));
}

/** What waits for `owner` as a claim, by the escrow's word at its newest block. */
export function claimableCall(owner: Uint8Array, token: Uint8Array): Uint8Array {
  return callData('claimable(address,address)', owner, token);
}
