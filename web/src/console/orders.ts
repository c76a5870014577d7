// What an operator orders: asked for once more, sent, and answered for. And the record of all orders.

import { apiError, ask } from './api.js';
import { store } from './store.js';

export type ActName = 'pause' | 'resume' | 'rebuild' | 'acknowledge' | 'replay';

/** Most ids that one order may name. */
const IDS_MAX = 1000;

export interface Outcome {
  outcome: string;
  details?: string;
  error?: string;
}

/** What became of one of several: `replayed` or `failed`. */
export interface ActResult extends Outcome {
  id: string;
}

export interface ActAnswer {
  act_id: string;
  outcome: Outcome;
  results?: ActResult[];
}

/** An order that waits for its confirmation. */
export interface Intent {
  act: ActName;
  /** Of `rebuild` and `acknowledge`: whom it is for; all where there is none. */
  gateway?: string;
  /** Of `replay`. */
  ids?: readonly string[];
  /** Told once the order has ended, whatever came of it. */
  done?: (answers: readonly ActAnswer[]) => void;
}

export const intent = store<Intent | undefined>(undefined);

export const isDone = ({ outcome }: Outcome): boolean => outcome === 'done' || outcome === 'replayed';

/** Gives the order. More ids than one order may name are several, of which a failure ends the rest. */
export async function give({ act, gateway, ids }: Intent, reason: string): Promise<{ answers: ActAnswer[]; error?: Error }> {
  const bodies: unknown[] = [];
  if (ids) for (let at = 0; at < ids.length; at += IDS_MAX) bodies.push({ ids: ids.slice(at, at + IDS_MAX) });
  else bodies.push({ ...(gateway === undefined ? {} : { gateway }), ...(reason ? { reason } : {}) });
  const answers: ActAnswer[] = [];
  for (const body of bodies) {
    try {
      answers.push(await ask<ActAnswer>(`acts/${act}`, { body }));
    } catch (error) {
      return { answers, error: apiError(error) };
    }
  }
  return { answers };
}

/** An order as it is recorded. */
export interface Order {
  id: string;
  at: string;
  by: string;
  origin: string;
  gateway?: string;
  act: { act: string; [member: string]: unknown };
}

/** An entry of the record, the entry's members inside of `entry`. */
export interface Recorded {
  sequence: number;
  stored_at: string;
  entry: { entry: string; id?: string; at?: string; reason?: string; outcome?: Outcome } & Partial<Omit<Order, 'id' | 'at'>>;
}

export interface ActsPage {
  acts: Recorded[];
  next_before: number | null;
}

/** An order and how it ended, as far as that is known. */
export interface Told {
  sequence: number;
  at: string;
  /** Absent where the order lies further back than what is loaded, or this page does not know the entry. */
  order: Order | undefined;
  end: { at: string; outcome: Outcome } | undefined;
  unknown: string | undefined;
  id: string;
}

/** The orders of these entries, newest first, each with its end. */
export function toldOf(entries: readonly Recorded[]): Told[] {
  const ends = new Map<string, Told['end']>();
  const told: Told[] = [];
  const sorted = [...entries].sort((a, b) => b.sequence - a.sequence);
  for (const { entry } of sorted) {
    if (entry.entry === 'ended' && entry.id && entry.outcome) ends.set(entry.id, { at: entry.at ?? '', outcome: entry.outcome });
  }
  for (const { sequence, stored_at, entry } of sorted) {
    const id = entry.id ?? '';
    if (entry.entry === 'ended') continue;
    const { at = stored_at, by = '', origin = '', gateway, act } = entry;
    const order = entry.entry === 'ordered' && act ? { id, at, by, origin, act, ...(gateway === undefined ? {} : { gateway }) } : undefined;
    told.push({ sequence, at, id, order, end: ends.get(id), unknown: order ? undefined : (entry.reason ?? entry.entry) });
  }
  return told;
}
