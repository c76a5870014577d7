// Loads the list of payments: older pages as one scrolls, and what is new while one looks.

import { apiError, ask, isAborted, type ApiError } from './api.js';
import { PaymentList } from './list.js';
import { persist, poll, type Poll } from './poll.js';
import { searchOf, type Query } from './route.js';
import { store, type Store } from './store.js';
import type { Page } from './types.js';

const NEWEST_MS = 2000;
const NEWEST = 50;
const OLDER = 200;
/** Pages that are followed down to what is known. Whoever was away for longer loads the list again. */
const BETWEEN_MAX = 5;
/** Rows that are loaded ahead of what is seen. */
const AHEAD = 200;
/** After how many looks at the newest those are looked at again that are seen further down. */
const SEEN_EVERY = 5;

/** What of the loading a view shows. */
export interface Loading {
  /** Counts up with every change of the list. */
  change: number;
  isLoading: boolean;
  /** Whether the search further back was stopped. */
  isStopped: boolean;
  /** Payments looked at since a page last had any. */
  inVain: number;
  error: ApiError | undefined;
}

const AT_FIRST: Loading = { change: 0, isLoading: true, isStopped: false, inVain: 0, error: undefined };

export class Feed {
  list = new PaymentList();
  readonly state: Store<Loading> = store(AT_FIRST);
  /** Where one is in it. */
  place: { top: number; focused: string | undefined } = { top: 0, focused: undefined };
  readonly #search: string;
  #over = new AbortController();
  #poll: Poll | undefined;
  #isLoading = false;
  #firstSeen = 0;
  #lastSeen = 0;
  #looks = 0;
  /** Whether one is at the top and does nothing there, so that new rows may move what is seen. */
  isAtRest: () => boolean = () => true;

  constructor(query: Query) {
    this.#search = searchOf(query);
    // Nothing is loaded before it starts.
    this.#over.abort();
  }

  start(): void {
    this.#over = new AbortController();
    this.#isLoading = false;
    this.#poll = poll((signal) => this.#newest(signal), NEWEST_MS);
    void this.#goOn();
  }

  stop(): void {
    this.#over.abort();
    this.#poll?.stop();
  }

  /** Begins anew. */
  restart(): void {
    this.stop();
    this.list = new PaymentList();
    this.place = { top: 0, focused: undefined };
    this.#lastSeen = 0;
    this.state.set({ ...AT_FIRST, change: this.state.get().change + 1 });
    this.start();
  }

  seen(firstIndex: number, lastIndex: number): void {
    this.#firstSeen = firstIndex;
    this.#lastSeen = lastIndex;
    if (!this.state.get().isStopped) void this.#goOn();
  }

  show(): void {
    this.list.show();
    this.#changed({});
  }

  /** Stops looking further back; `goOn` does so again. */
  halt(): void {
    this.#changed({ isStopped: true });
  }

  goOn(): void {
    this.#changed({ isStopped: false, inVain: 0, error: undefined });
    void this.#goOn();
  }

  #changed(what: Partial<Loading>): void {
    const last = this.state.get();
    this.state.set({ ...last, ...what, change: last.change + 1 });
  }

  #ask(signal: AbortSignal, limit: number, cursor?: string): Promise<Page> {
    const asked = new URLSearchParams(this.#search);
    asked.set('limit', String(limit));
    if (cursor !== undefined) asked.set('cursor', cursor);
    return ask<Page>(`payments?${asked}`, { signal });
  }

  #isWanted(): boolean {
    const { next, length } = this.list;
    return next === undefined || (next !== null && this.#lastSeen + AHEAD >= length);
  }

  /** Loads older pages while there is room for them. */
  async #goOn(): Promise<void> {
    const { signal } = this.#over;
    if (this.#isLoading || signal.aborted || !this.#isWanted() || this.state.get().error) return;
    this.#isLoading = true;
    this.#changed({ isLoading: true });
    try {
      while (this.#isWanted() && !this.state.get().isStopped && !signal.aborted) {
        const { next } = this.list;
        const page = await persist(() => this.#ask(signal, next === undefined ? NEWEST : OLDER, next ?? undefined), signal);
        this.list.older(page);
        const inVain = page.payments.length ? 0 : this.state.get().inVain + page.looked_at;
        this.#changed({ inVain });
      }
    } catch (thrown) {
      if (!isAborted(thrown)) this.#changed({ error: apiError(thrown) });
    } finally {
      if (!signal.aborted) {
        this.#isLoading = false;
        this.#changed({ isLoading: false });
      }
    }
  }

  /** Looks again at the rows that are seen. */
  async #again(signal: AbortSignal): Promise<void> {
    const range = rangeOf(this.list, this.#firstSeen, this.#lastSeen);
    if (!range) return;
    const asked = new URLSearchParams(this.#search);
    asked.set('limit', String(OLDER));
    asked.set('submitted_from', range.from);
    asked.set('submitted_until', range.until);
    this.list.again(await ask<Page>(`payments?${asked}`, { signal }));
  }

  async #newest(signal: AbortSignal): Promise<void> {
    // The first page is not there yet.
    if (this.list.next === undefined) return;
    let page = await this.#ask(signal, NEWEST);
    let isMissing = this.list.newest(page);
    for (let pages = 0; isMissing && pages < BETWEEN_MAX && page.next_cursor !== null; pages += 1) {
      page = await this.#ask(signal, OLDER, page.next_cursor);
      isMissing = !this.list.between(page);
    }
    if (isMissing) this.list.hasGap = true;
    this.#looks += 1;
    if (this.#looks % SEEN_EVERY === 0 && this.#lastSeen > NEWEST) await this.#again(signal);
    if (!this.list.hasGap && this.list.freshCount && this.isAtRest()) this.list.show();
    this.#changed({});
  }
}

/** How a row stands that is seen changes also where it is not among the newest. */
function rangeOf(list: PaymentList, firstIndex: number, lastIndex: number): { from: string; until: string } | undefined {
  const newest = list.at(Math.min(firstIndex, list.length - 1))?.row.submitted_at;
  const oldest = list.at(Math.min(lastIndex, list.length - 1))?.row.submitted_at;
  if (!newest || !oldest) return undefined;
  const behind = Date.parse(newest) + 1;
  return Number.isNaN(behind) ? undefined : { from: oldest, until: new Date(behind).toISOString() };
}

let last: { search: string; feed: Feed } | undefined;

/** The list of this query; that which was shown last is as it was left. */
export function feedOf(query: Query): Feed {
  const search = searchOf(query);
  if (last?.search !== search) last = { search, feed: new Feed(query) };
  return last.feed;
}

/** Forgets the list, as when somebody else signs in. */
export function forgetFeed(): void {
  last?.feed.stop();
  last = undefined;
}
