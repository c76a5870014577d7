// The record of what operators ordered, as far back as it is loaded, without a gap.

import type { Outcome } from './orders.js';
import type { Pause } from './types.js';

/** An order as it is recorded. */
export interface Order {
  id: string;
  /** By the clock of whoever carried it out, which on a command line is anybody's. */
  at: string;
  by: string;
  origin: string;
  gateway?: string;
  act: { act: string; [member: string]: unknown };
}

/** An entry of the record, the entry's members inside of `entry`. */
export interface Recorded {
  sequence: number;
  /** When the stream stored it. */
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
  storedAt: string;
  /** Absent where the order lies further back than what is loaded, or this page does not know the entry. */
  order: Order | undefined;
  end: { storedAt: string; outcome: Outcome } | undefined;
  unknown: string | undefined;
  id: string;
}

/** The orders of these entries, newest first, each with its end. */
export function toldOf(entries: readonly Recorded[]): Told[] {
  const ends = new Map<string, Told['end']>();
  const told: Told[] = [];
  const sorted = [...entries].sort((a, b) => b.sequence - a.sequence);
  for (const { stored_at: storedAt, entry } of sorted) {
    if (entry.entry === 'ended' && entry.id && entry.outcome) ends.set(entry.id, { storedAt, outcome: entry.outcome });
  }
  for (const { sequence, stored_at: storedAt, entry } of sorted) {
    const id = entry.id ?? '';
    if (entry.entry === 'ended') continue;
    const { at = '', by = '', origin = '', gateway, act } = entry;
    const order = entry.entry === 'ordered' && act ? { id, at, by, origin, act, ...(gateway === undefined ? {} : { gateway }) } : undefined;
    told.push({ sequence, storedAt, id, order, end: ends.get(id), unknown: order ? undefined : (entry.reason ?? entry.entry) });
  }
  return told;
}

/** Who paused: the order that was being carried out when it began, by the one clock of both. */
export function whoPaused(entries: readonly Recorded[], { since, reason }: Pause): Order | undefined {
  const ms = Date.parse(since);
  const ends = new Map(entries.map(({ entry }) => [entry.entry === 'ended' ? entry.id : undefined, Date.parse(entry.at ?? '')]));
  const meant = toldOf(entries).filter(({ id, order }) => {
    if (order?.act.act !== 'pause' || (order.act['reason'] ?? null) !== (reason ?? null)) return false;
    return Date.parse(order.at) <= ms && ms <= (ends.get(id) ?? Infinity);
  });
  // Of two at once nobody can tell which it was.
  return meant.length === 1 ? meant[0]?.order : undefined;
}

/** Asks for a page of the record, the newest or that before a sequence. */
export type AskActs = (before: number | undefined) => Promise<ActsPage>;

/** Newest pages that are followed down to what is known. Beyond, the record is loaded anew. */
const BETWEEN_MAX = 50;

export class ActsRecord {
  #entries = new Map<number, Recorded>();
  #newest = 0;
  /** Where the next older page begins; `null` where there is none. */
  next: number | null = null;

  get entries(): Recorded[] {
    return [...this.#entries.values()];
  }

  /** Loads what is new, down to what is known. */
  async update(ask: AskActs): Promise<void> {
    const came: Recorded[] = [];
    let isMet = false;
    let next: number | null | undefined;
    for (let pages = 0; !isMet && next !== null && pages < BETWEEN_MAX; pages += 1) {
      const page = await ask(next);
      came.push(...page.acts);
      next = page.next_before;
      // The first look is at one page.
      isMet = this.#newest === 0 || page.acts.some(({ sequence }) => sequence <= this.#newest);
    }
    // What is loaded is without a gap: where what is known was not met, it is left.
    if (!isMet || this.#newest === 0) {
      this.#entries = new Map();
      this.next = next ?? null;
    }
    this.#add(came);
  }

  /** Loads an older page. */
  async older(ask: AskActs): Promise<void> {
    const { next } = this;
    if (next === null) return;
    const page = await ask(next);
    // It may have been loaded anew meanwhile.
    if (this.next !== next) return;
    this.next = page.next_before;
    this.#add(page.acts);
  }

  #add(acts: readonly Recorded[]): void {
    for (const act of acts) {
      this.#entries.set(act.sequence, act);
      this.#newest = Math.max(this.#newest, act.sequence);
    }
  }
}
