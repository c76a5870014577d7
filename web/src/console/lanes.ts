// The events of a payment in lanes: who did what, when, and how long it took.

import table from '../../data/lanes.json';
import { shortId } from './format.js';
import type { Commit, StoredEvent } from './types.js';

export const LANES = table.lanes;

const OF_EVENTS: Record<string, string> = table.events;
const ELSEWHERE = LANES.indexOf('gateway');

export const laneOf = (type: string): number => {
  const lane = Object.hasOwn(OF_EVENTS, type) ? LANES.indexOf(OF_EVENTS[type] ?? '') : -1;
  return lane < 0 ? ELSEWHERE : lane;
};

/** Height of a mark, and the room that time takes between two, pixels. */
export const MARK_PX = 30;
const GAP_PX = 7;
const GAP_PX_MAX = 46;

export interface Mark {
  type: string;
  lane: number;
  /** When the journal stored it. */
  at: string;
  version: number | null;
  /** Since the mark before, milliseconds; `undefined` at the first and where a time cannot be read. */
  sinceMs: number | undefined;
  /** What tells it from others of its type. */
  detail: string;
  isBad: boolean;
  /** Where it begins, pixels. */
  top: number;
}

type Members = Record<string, unknown>;

const members = (value: unknown): Members => (typeof value === 'object' && value !== null ? (value as Members) : {});

const BAD = new Set([
  'Failed',
  'AwardLapsed',
  'AwardWithdrawn',
  'ReservationLapsed',
  'AttestationMissed',
  'DepositAbandoned',
  'ReassignmentAbandoned',
  'ReleaseAbandoned',
  'RefundAbandoned',
]);

function detailOf({ data }: StoredEvent): string {
  const { inclusion, attempt, failure, cause, step, choice, quotes, member } = members(data);
  const { block_number: block } = members(inclusion);
  if (typeof block === 'number') return `block ${block}`;
  if (typeof attempt === 'number' && attempt > 1) return `attempt ${attempt}`;
  const code = members(failure)['code'] ?? members(cause)['kind'] ?? step ?? choice;
  if (typeof code === 'string') return code;
  if (typeof member === 'string') return shortId(member);
  return Array.isArray(quotes) ? `${quotes.length} ${quotes.length === 1 ? 'quote' : 'quotes'}` : '';
}

/** Longer waits take more room, and an hour not much more than a minute. */
function room(ms: number | undefined): number {
  if (ms === undefined || ms <= 0) return 0;
  return Math.min(GAP_PX_MAX, Math.round(GAP_PX * Math.log2(1 + ms / 250)));
}

/** The events of these commits, from top to bottom. */
export function marksOf(commits: readonly Commit[]): Mark[] {
  const marks: Mark[] = [];
  let [top, before] = [0, Number.NaN];
  for (const { events, stored_at: at, version } of commits) {
    for (const event of events) {
      const ms = Date.parse(at);
      const sinceMs = Number.isNaN(before) || Number.isNaN(ms) ? undefined : Math.max(0, ms - before);
      if (marks.length) top += MARK_PX + room(sinceMs);
      const { type } = event;
      marks.push({ type, lane: laneOf(type), at, version, sinceMs, detail: detailOf(event), isBad: BAD.has(type), top });
      before = ms;
    }
  }
  return marks;
}

/** Verifiers of which several may attest, as the payment was submitted with them. */
export interface SeenVerifiers {
  threshold: number;
  members: string[];
  /** Those whose attestation is on record, of the settler that the escrow is reserved for. */
  attested: string[];
}

/** The payment's verifier set; `undefined` where a single verifier attests. */
export function verifiersOf(commits: readonly Commit[]): SeenVerifiers | undefined {
  const events = commits.flatMap((commit) => commit.events);
  const submitted = events.find(({ type }) => type === 'Submitted');
  const { threshold, members: listed } = members(members(members(submitted?.data)['verifier'])['set']);
  if (typeof threshold !== 'number' || !Array.isArray(listed)) return undefined;
  const accounts = (values: unknown[], name: string): string[] => values.map((value) => members(value)[name]).filter((value) => typeof value === 'string');
  // What was attested of a settler says nothing of the one that took its place.
  const since = events.findLastIndex(({ type }) => type === 'EscrowReassigned') + 1;
  const said = events.slice(since).filter(({ type }) => type === 'DeliveryAttested' || type === 'NonDeliveryAttested').map(({ data }) => data);
  return { threshold, members: accounts(listed, 'account'), attested: [...new Set(accounts(said, 'member'))] };
}

export interface SeenTransaction {
  chainId: string;
  hash: string;
  /** The event that names it last. */
  type: string;
  block: number | undefined;
  at: string;
}

/** Every transaction that the events name, in the order in which they do. */
export function transactionsOf(commits: readonly Commit[]): SeenTransaction[] {
  const found = new Map<string, SeenTransaction>();
  for (const { events, stored_at: at } of commits) {
    for (const { type, data } of events) {
      const { inclusion, deposit } = members(data);
      for (const named of [data, inclusion, deposit].map(members)) {
        const { chain_id: chainId, transaction_hash: hash, block_number: block } = named;
        if (typeof chainId !== 'string' || typeof hash !== 'string') continue;
        const key = `${chainId} ${hash}`;
        const last = found.get(key);
        found.set(key, { chainId, hash, type, block: typeof block === 'number' ? block : last?.block, at });
      }
    }
  }
  return [...found.values()];
}
