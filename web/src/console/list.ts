// The list of payments as it is loaded: from the newest back, and what comes new on top of it.

import type { Page, Row } from './types.js';

/** A row, which may be known anew. */
export interface Line {
  row: Row;
  /** Whether a newer page, filtered in the same way, lacks it. */
  isGone: boolean;
}

/** Texts that many rows share. */
const shared = new Map<string, string>();
const SHARED_MAX = 20_000;

function once(text: string): string {
  const known = shared.get(text);
  if (known !== undefined) return known;
  if (shared.size >= SHARED_MAX) shared.clear();
  shared.set(text, text);
  return text;
}

/** What the list shows of a row. A hundred thousand of them are to fit in the memory of a tab. */
function slim(row: Row): Row {
  const { source, destination, settler, overdue, failure_code } = row;
  return {
    payment_id: row.payment_id,
    request_id: '',
    originator: '',
    submitted_at: row.submitted_at,
    status: once(row.status),
    stage: once(row.stage),
    source: { ...source, asset_identifier: once(source.asset_identifier), account: once(source.account) },
    ...(destination
      ? { destination: { ...destination, asset_identifier: once(destination.asset_identifier), account: once(destination.account) } }
      : {}),
    ...(settler === undefined ? {} : { settler: once(settler) }),
    ...(overdue ? { overdue } : {}),
    ...(failure_code === undefined ? {} : { failure_code: once(failure_code) }),
    verifier: '',
    transactions: NONE,
    shard: row.shard,
    parked: row.parked,
    version: row.version,
  };
}

const NONE: Row['transactions'] = {};

export class PaymentList {
  /** What is shown, newest first. */
  #lines: Line[] = [];
  /** What came since, newest first. */
  #fresh: Line[] = [];
  readonly #known = new Map<string, Line>();
  /** Where the next older page begins: `null` where there is none, `undefined` before the first. */
  next: string | null | undefined;
  /** Payments that were looked at for what is loaded. */
  lookedAt = 0;
  /** Shards of which payments may be missing. */
  uncertain: readonly number[] = [];
  /** Whether nobody can tell which of them are parked. */
  isParkingUnknown = false;
  /** Whether more came than was followed, so that something between is missing. */
  hasGap = false;

  get length(): number {
    return this.#lines.length;
  }

  get freshCount(): number {
    return this.#fresh.length;
  }

  at(index: number): Line | undefined {
    return this.#lines[index];
  }

  indexOf(paymentId: string): number {
    return this.#lines.findIndex(({ row }) => row.payment_id === paymentId);
  }

  /** When the newest that is known was submitted. */
  get newestAt(): string | undefined {
    return (this.#fresh[0] ?? this.#lines[0])?.row.submitted_at;
  }

  /** The oldest that is loaded. */
  get oldestAt(): string | undefined {
    return this.#lines.at(-1)?.row.submitted_at;
  }

  /** An older page, the first one included. */
  older({ payments, next_cursor, looked_at, uncertain_shards }: Page): void {
    for (const row of payments) {
      const line = this.#learn(row);
      if (line) this.#lines.push(line);
    }
    this.next = next_cursor;
    this.lookedAt += looked_at;
    this.#note(payments, uncertain_shards);
  }

  /** The newest page once more. Returns whether something between it and what is known is missing. */
  newest({ payments, next_cursor, uncertain_shards }: Page): boolean {
    this.#note(payments, uncertain_shards);
    let isMet = this.#known.size === 0 || payments.length === 0 || next_cursor === null;
    const seen = new Set<string>();
    for (const row of payments) {
      seen.add(row.payment_id);
      const line = this.#learn(row);
      if (line) insert(this.#fresh, line);
      else isMet = true;
    }
    this.#markGone(seen, payments.at(-1)?.submitted_at);
    return !isMet;
  }

  /** What is further down than the newest page of what came new. Returns whether what was known is reached. */
  between({ payments, next_cursor }: Page): boolean {
    let isMet = next_cursor === null;
    for (const row of payments) {
      const line = this.#learn(row);
      if (line) insert(this.#fresh, line);
      else isMet = true;
    }
    return isMet;
  }

  /** A page of what is shown, once more. */
  again({ payments }: Page): void {
    for (const row of payments) if (this.#known.has(row.payment_id)) this.#learn(row);
  }

  /** Shows what came new. */
  show(): void {
    const [last, first] = [this.#fresh.at(-1), this.#lines[0]];
    if (!last) return;
    if (!first || last.row.submitted_at >= first.row.submitted_at) this.#lines = [...this.#fresh, ...this.#lines];
    else for (const line of [...this.#fresh].reverse()) insert(this.#lines, line);
    this.#fresh = [];
  }

  /** What is not known of the payments of a page. */
  #note(payments: readonly Row[], uncertain: readonly number[]): void {
    this.uncertain = uncertain;
    this.isParkingUnknown = payments.some(({ parked }) => parked === null);
  }

  /** The line of a row that was not known; one that was is brought up to date. */
  #learn(row: Row): Line | undefined {
    const known = this.#known.get(row.payment_id);
    if (!known) {
      const line = { row: slim(row), isGone: false };
      this.#known.set(row.payment_id, line);
      return line;
    }
    // A page that was asked for earlier may come later.
    if (row.version >= known.row.version && !isSame(row, known.row)) known.row = slim(row);
    known.isGone = false;
    return undefined;
  }

  #markGone(seen: ReadonlySet<string>, oldest: string | undefined): void {
    if (oldest === undefined || this.uncertain.length) return;
    for (const line of this.#lines) {
      // Of several of the same time the page may hold some.
      if (line.row.submitted_at <= oldest) break;
      line.isGone = !seen.has(line.row.payment_id);
    }
  }
}

/** Whether a row says what is shown already: each change of a payment is a version, but for what time and parking make of it. */
const isSame = (a: Row, b: Row): boolean =>
  a.version === b.version && a.parked === b.parked && a.overdue?.step === b.overdue?.step && a.stage === b.stage;

/** Puts it where its time is. */
function insert(lines: Line[], line: Line): void {
  let [low, high] = [0, lines.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((lines[middle]?.row.submitted_at ?? '') > line.row.submitted_at) low = middle + 1;
    else high = middle;
  }
  lines.splice(low, 0, line);
}
