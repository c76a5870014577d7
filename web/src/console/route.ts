// Where one is: the view, what it is of, and its filters all stand in the fragment, so that an address can be passed on.

import { store } from './store.js';

export const VIEWS = ['payments', 'parked', 'settlers', 'verifiers', 'chains', 'gateways', 'streams', 'graphs', 'acts'] as const;
export type View = (typeof VIEWS)[number];

/** Filters of the list, as the API names them, and `q`, what is searched for. */
export const FILTERS = [
  'status',
  'stage',
  'chain_id',
  'settler',
  'originator',
  'submitted_from',
  'submitted_until',
  'amount_from',
  'amount_to',
  'in_flight',
  'overdue',
  'parked',
] as const;
export type Filter = (typeof FILTERS)[number];
export type Query = Partial<Record<Filter | 'q', string>>;

const VALUE_CHARS_MAX = 300;

export interface Route {
  view: View;
  id: string | undefined;
  query: Query;
}

export function readRoute(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [name = '', id] = path.split('/');
  const view = VIEWS.find((known) => known === name) ?? 'payments';
  const read = new URLSearchParams(search);
  const query: Query = {};
  for (const key of [...FILTERS, 'q'] as const) {
    const value = read.get(key)?.trim();
    if (value) query[key] = value.slice(0, VALUE_CHARS_MAX);
  }
  return { view, id: id ? decoded(id) : undefined, query: view === 'payments' && !id ? query : {} };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The parameters of a query in the order of `FILTERS`, so that the same query is the same text. */
export function searchOf(query: Query): string {
  const written = new URLSearchParams();
  for (const key of [...FILTERS, 'q'] as const) {
    const value = query[key];
    if (value) written.set(key, value);
  }
  return written.toString();
}

export function hashOf(view: View, id?: string, query: Query = {}): string {
  const search = searchOf(query);
  return `#/${view}${id === undefined ? '' : `/${encodeURIComponent(id)}`}${search && `?${search}`}`;
}

export const route = store<Route>(readRoute(location.hash));

window.addEventListener('hashchange', () => route.set(readRoute(location.hash)));

export function go(hash: string): void {
  location.hash = hash;
}
