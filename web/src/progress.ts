// How far a payment has come, by the entries of its timeline.

import type { OwnedAsset, PaymentStatus, TimelineEntry } from '../../sdk/typescript/src/types.js';
import table from '../data/stages.json';
import type { TextName } from './texts.js';

export type StageState = 'done' | 'running' | 'failed' | 'open';

export interface Stage {
  stage: string;
  state: StageState;
  /** The last entry that belongs to it. */
  entry?: TimelineEntry;
}

interface Step {
  stage?: string;
  state?: string;
  waiting: string;
}

const STEPS: Record<string, Step> = table.events;

const stepOf = (entry: TimelineEntry): Step | undefined => (Object.hasOwn(STEPS, entry.event) ? STEPS[entry.event] : undefined);

const data = (entry: TimelineEntry | undefined): Record<string, unknown> => entry?.data ?? {};

function lastOf(entries: readonly TimelineEntry[], event: string): TimelineEntry | undefined {
  return entries.findLast((entry) => entry.event === event);
}

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

function owned(value: unknown): OwnedAsset | undefined {
  const { asset_identifier, account } = (value ?? {}) as Record<string, unknown>;
  return typeof asset_identifier === 'string' && typeof account === 'string' ? { asset_identifier, account } : undefined;
}

/** Verifiers of which several may attest. */
export interface VerifiersShown {
  threshold: number;
  members: string[];
  /** How many have attested, that it was delivered or that it was not. */
  attested: number;
}

/** The order of a payment, as its timeline has it. */
export interface OrderShown {
  requestId: string;
  source: OwnedAsset;
  destinations: OwnedAsset[];
  amount: string;
  /** What is taken: the price once a quote was awarded, before that the most. */
  cost?: { units: string; isPrice: boolean };
  requestedAt: string;
  fulfillmentDeadline?: string;
  /** From when on money can be sent back that was not paid out. */
  refundAfter?: string;
  escrow?: string;
  verifier?: string;
  /** Where it is the id of a set: who is in it. */
  verifiers?: VerifiersShown;
  quoteId?: string;
  settler?: string;
}

/** The verifiers of a payment; `undefined` where a single one attests, or an older gateway does not say. */
function verifiersOf(verifier: Record<string, unknown>, entries: readonly TimelineEntry[]): VerifiersShown | undefined {
  const { threshold, members } = verifier;
  if (typeof threshold !== 'number' || !Array.isArray(members) || members.length < 2) return undefined;
  const accounts = members.map((member: Record<string, unknown> | null) => text(member?.['account']) ?? '');
  // What was attested of a settler says nothing of the one that took its place.
  const since = entries.findLastIndex(({ event }) => event === 'EscrowReassigned') + 1;
  const said = entries.slice(since).filter(({ event }) => event === 'DeliveryAttested' || event === 'NonDeliveryAttested');
  const attested = said.map((entry) => data(entry)['verifier']);
  return { threshold, members: accounts, attested: new Set(attested).size };
}

export function orderOf(entries: readonly TimelineEntry[]): OrderShown | undefined {
  const first = lastOf(entries, 'Submitted');
  const order = data(first);
  const source = owned(order['source']);
  const amount = text(order['fulfillment_amount']);
  if (!first || !source || !amount) return undefined;
  const awarded = data(lastOf(entries, 'QuoteAwarded'));
  const chosen = owned(awarded['destination']);
  const asked = Array.isArray(order['destination']) ? order['destination'].map(owned) : [];
  const price = text(awarded['source_amount']);
  const most = text(order['max_source_amount']);
  const escrow = (order['escrow'] ?? {}) as Record<string, unknown>;
  const verifier = (order['fulfillment_verifier'] ?? {}) as Record<string, unknown>;
  const verifiers = verifiersOf(verifier, entries);
  const shown: Record<string, string | undefined> = {
    fulfillmentDeadline: text(order['fulfillment_deadline']),
    // What is at a deposit address is not in escrow.
    refundAfter: text(escrow[isByAddress(entries) && !lastOf(entries, 'EscrowSecured') ? 'reserve_deadline' : 'refund_after']),
    escrow: text(escrow['contract_address']),
    verifier: text(verifier['account']),
    quoteId: text(awarded['quote_id']),
    settler: text(awarded['settler']),
  };
  return {
    requestId: text(order['request_id']) ?? '',
    source,
    destinations: chosen ? [chosen] : asked.filter((it) => it !== undefined),
    amount,
    ...(price ? { cost: { units: price, isPrice: true } } : most ? { cost: { units: most, isPrice: false } } : {}),
    requestedAt: first.at,
    ...(verifiers ? { verifiers } : {}),
    ...Object.fromEntries(Object.entries(shown).filter(([, value]) => value !== undefined)),
  };
}

export const statusOf = (entries: readonly TimelineEntry[]): PaymentStatus => entries.at(-1)?.status ?? 'pending';

const BY_ADDRESS: readonly unknown[] = ['EVM_DEPOSIT_ADDRESS', 'SOLANA_DEPOSIT_ADDRESS', 'TRON_DEPOSIT_ADDRESS'];

/** Whether nobody signs for the payment: its money is sent to a deposit address. */
export const isByAddress = (entries: readonly TimelineEntry[]): boolean =>
  BY_ADDRESS.includes(data(lastOf(entries, 'Submitted'))['message_scheme']);

/** Whether its money is still waited for. */
export const isAwaited = (entries: readonly TimelineEntry[]): boolean =>
  isByAddress(entries) && statusOf(entries) === 'pending' && !lastOf(entries, 'AddressFunded');

/** Whether money went into escrow, or to the payment's address, and has to come back. */
function isOwedBack(entries: readonly TimelineEntry[]): boolean {
  const isAtAddress = lastOf(entries, 'AddressHeld') ?? lastOf(entries, 'AddressFunded');
  if (isAtAddress && !lastOf(entries, 'DepositRuledOut')) return true;
  const refund = data(lastOf(entries, 'Failed'))['refund'];
  return (refund !== undefined && refund !== 'nothing_due') || entries.some(({ event }) => event.startsWith('Refund') || event === 'EscrowRefunded');
}

export function stagesOf(entries: readonly TimelineEntry[]): Stage[] {
  const isFailed = statusOf(entries) === 'failed';
  const refund = isFailed && isOwedBack(entries) ? [table.after_failure] : [];
  const stages: Stage[] = [];
  let hasStopped = false;
  const awaited = isAwaited(entries) ? 'received' : undefined;
  for (const stage of [...(isByAddress(entries) ? table.by_address : table.stages), ...refund]) {
    const entry = entries.findLast((entry) => stepOf(entry)?.stage === stage);
    const reached = entry && stepOf(entry)?.state;
    let state: StageState = reached === 'done' ? 'done' : reached || stage === awaited ? 'running' : 'open';
    if (isFailed && state !== 'done' && stage !== table.after_failure) {
      // The first stage that was not reached is the one that failed; those behind it were not tried.
      if (hasStopped) continue;
      hasStopped = true;
      state = 'failed';
    }
    stages.push(entry ? { stage, state, entry } : { stage, state });
  }
  return stages;
}

/** What is waited for; `undefined` once nothing is. */
export function waitingFor(entries: readonly TimelineEntry[]): TextName | undefined {
  if (entries.at(-1)?.event === 'Failed') return isOwedBack(entries) ? 'waiting.refund' : undefined;
  if (isAwaited(entries)) return 'waiting.address';
  const last = entries.findLast((entry) => stepOf(entry));
  const waiting = last && stepOf(last)?.waiting;
  return waiting === undefined || waiting === 'nothing' ? undefined : (`waiting.${waiting}` as TextName);
}

/** What the status means for the money. `asked` is what was to come to a deposit address, where the order has no limit that says so. */
export function meaningOf(entries: readonly TimelineEntry[], asked?: string): TextName {
  const status = statusOf(entries);
  if (isAwaited(entries)) return 'status.awaited.text';
  if (status !== 'failed') return `status.${status}.text`;
  if (failureOf(entries)?.code === 'DEPOSIT_NOT_RECEIVED') return unpaidOf(entries, asked);
  if (entries.some(({ event }) => event === 'EscrowRefunded')) return 'status.refunded.text';
  return isOwedBack(entries) ? 'status.failed.text' : 'status.untouched.text';
}

/** What became of the money that was to come to the payment's address: too little, too late, or nothing. */
function unpaidOf(entries: readonly TimelineEntry[], amount?: string): TextName {
  const held = text(data(lastOf(entries, 'AddressHeld'))['amount']);
  if (held === undefined) return lastOf(entries, 'DepositRuledOut') ? 'status.unpaid.none' : 'status.unpaid.text';
  const asked = text(data(lastOf(entries, 'Submitted'))['max_source_amount']) ?? amount;
  const came = asked !== undefined && BigInt(held) >= BigInt(asked) ? 'late' : 'short';
  return lastOf(entries, 'EscrowRefunded') ? `status.unpaid.${came}.back` : `status.unpaid.${came}`;
}

/** Why it failed, as the API says it. */
export function failureOf(entries: readonly TimelineEntry[]): { code: string; message: string; docsUrl?: string } | undefined {
  const error = data(lastOf(entries, 'Failed'))['error'] as Record<string, unknown> | undefined;
  const code = text(error?.['code']);
  if (!error || !code) return undefined;
  const docsUrl = text(error['docs_url']);
  return { code, message: text(error['message']) ?? '', ...(docsUrl && /^https?:\/\//.test(docsUrl) ? { docsUrl } : {}) };
}

export interface ClaimShown {
  owner: string;
  amount: string;
  asset: string;
  escrow: string;
  call: string;
}

/** Money that waits in the escrow for its owner. */
export function claimsOf(entries: readonly TimelineEntry[]): ClaimShown[] {
  const claims = entries.flatMap((entry) => (Array.isArray(data(entry)['claims']) ? (data(entry)['claims'] as unknown[]) : []));
  return claims.map((claim) => {
    const members = claim as Record<string, unknown>;
    const word = (name: string): string => text(members[name]) ?? '';
    return { owner: word('owner'), amount: word('amount'), asset: word('asset'), escrow: word('escrow_contract'), call: word('call') };
  });
}
