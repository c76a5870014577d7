// Amounts, times, spans and figures as operators read them.

import { formatAmount } from '../../../sdk/typescript/src/amounts.js';
import { chainName, chainOf } from '../chains.js';
import { t } from './texts.js';
import type { Asset, Chain } from './types.js';

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** What the gateway says of an asset; `undefined` where it does not serve it. */
export function assetOf(chains: readonly Chain[], id: string): Asset | undefined {
  const same = id.startsWith('eip155:') ? (other: string) => other.toLowerCase() === id.toLowerCase() : (other: string) => other === id;
  const chain = chains.find(({ chain_id }) => chain_id === chainOf(id));
  return chain?.assets.find(({ asset_identifier }) => same(asset_identifier));
}

/** An amount without its symbol, thousands set apart; of an asset that is not served its smallest units. */
export function amountOf(asset: Asset | undefined, units: string): string {
  if (!/^\d{1,78}$/.test(units)) return units;
  let text = units;
  try {
    text = formatAmount(BigInt(units), asset?.decimals ?? 0);
  } catch {
    return units;
  }
  const [whole = '', fraction] = text.split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ' ');
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

export const symbolOf = (asset: Asset | undefined): string => asset?.symbol ?? t('amount.units');

/** A chain by the name that the gateway gives it, that of the table, or its id. */
export const nameOf = (chains: readonly Chain[], id: string): string => chains.find(({ chain_id }) => chain_id === id)?.name ?? chainName(id);

const CLOCK = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const DAY = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short' });
const YEAR = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short', year: 'numeric' });
const FULL = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** A time by the reader's clock; the text itself where it is none. */
export function timeText(at: string): string {
  const ms = Date.parse(at);
  return Number.isNaN(ms) ? at : FULL.format(ms);
}

/** The same with milliseconds, without the day. */
export function preciseText(at: string): string {
  const ms = Date.parse(at);
  return Number.isNaN(ms) ? at : `${CLOCK.format(ms)}.${String(((ms % SECOND_MS) + SECOND_MS) % SECOND_MS).padStart(3, '0')}`;
}

/** The clock of a time, and its day where that is not today. */
export function clockAndDay(at: string): [string, string] {
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return [at, ''];
  const [then, now] = [new Date(ms), new Date()];
  if (then.toDateString() === now.toDateString()) return [CLOCK.format(ms), ''];
  return [CLOCK.format(ms), (then.getFullYear() === now.getFullYear() ? DAY : YEAR).format(ms)];
}

/** A span in its two largest units. */
export function spanText(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  const whole = Math.abs(ms);
  if (whole < SECOND_MS) return `${Math.round(whole)} ms`;
  if (whole < 10 * SECOND_MS) return `${(whole / SECOND_MS).toFixed(1)} s`;
  if (whole < MINUTE_MS) return `${Math.floor(whole / SECOND_MS)} s`;
  const two = (large: number, small: number, names: [string, string]): string => {
    const rest = Math.floor((whole % large) / small);
    return `${Math.floor(whole / large)} ${names[0]}${rest ? ` ${rest} ${names[1]}` : ''}`;
  };
  if (whole < HOUR_MS) return two(MINUTE_MS, SECOND_MS, ['min', 's']);
  if (whole < DAY_MS) return two(HOUR_MS, MINUTE_MS, ['h', 'min']);
  return two(DAY_MS, HOUR_MS, ['d', 'h']);
}

export const secondsText = (seconds: number | null | undefined): string =>
  seconds === null || seconds === undefined ? '–' : spanText(seconds * SECOND_MS);

/** How long it has been since, by the clock of this device, in the largest unit; whole seconds at least. */
export function sinceText(at: string | null | undefined, nowMs = Date.now()): string {
  const ms = at ? Date.parse(at) : Number.NaN;
  if (Number.isNaN(ms)) return '–';
  const whole = Math.max(0, nowMs - ms);
  const [size, unit] = whole >= DAY_MS ? [DAY_MS, 'd'] : whole >= HOUR_MS ? [HOUR_MS, 'h'] : whole >= MINUTE_MS ? [MINUTE_MS, 'min'] : [SECOND_MS, 's'];
  return `${Math.floor(whole / size)} ${unit}`;
}

const COUNT = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

export const countText = (count: number | null | undefined): string =>
  count === null || count === undefined || !Number.isFinite(count) ? '–' : COUNT.format(count).replaceAll(',', ' ');

const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** A count where there is little room. */
export const compactText = (count: number): string => COMPACT.format(count);

export function shareText(part: number, whole: number): string {
  if (whole <= 0) return '–';
  // What is not all does not read as all, and what is not nothing not as nothing.
  const percent = Math.floor((1000 * part) / whole) / 10;
  return part > 0 && percent === 0 ? '< 0.1 %' : `${percent.toFixed(part === whole ? 0 : 1)} %`;
}

export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, at] = [bytes, 0];
  while (value >= 1024 && at < units.length - 1) [value, at] = [value / 1024, at + 1];
  return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

/** A figure with as many digits as tell it from others. */
function figure(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 1000) return COUNT.format(value).replaceAll(',', ' ');
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1).replace(/\.0$/, '');
  if (size >= 1) return value.toFixed(2).replace(/\.?0+$/, '');
  return value.toPrecision(2).replace(/e-(\d+)$/, 'e−$1');
}

/** A value of a graph in its unit. */
export function valueText(unit: string, value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  switch (unit) {
    case 'per_second':
      return `${figure(value)}/s`;
    case 'seconds':
      return value === 0 ? '0 s' : value < 0.001 ? `${Math.round(value * 1e6)} µs` : spanText(value * SECOND_MS);
    case 'ratio':
      return `${figure(value * 100)} %`;
    case 'coins':
      return value > 0 && value < 1 ? value.toPrecision(4).replace(/0+$/, '') : figure(value);
    default:
      return figure(value);
  }
}

const DOMAIN_CHARS_MAX = 36;
/** Labels at the end of a domain that are never left out: a name that somebody registered, below a suffix of as many as there are. */
const LABELS_MIN = 5;
/** Characters of an id at its beginning and at its end: so many are dear to imitate. */
const END_CHARS = 6;
const WHOLE_CHARS_MAX = 22;

/** A domain without the names that its owner put in front, where there is no room for them: whose it is stands at its end. */
function shortDomain(domain: string): string {
  const labels = domain.split('.');
  let first = 0;
  while (labels.length - first > LABELS_MIN && labels.slice(first).join('.').length > DOMAIN_CHARS_MAX) first += 1;
  return first ? `…${labels.slice(first).join('.')}` : domain;
}

/** A settler as it is told from others at a glance: of a DID of the web its domain, and of the rest its ends. */
export function settlerName(did: string): string {
  if (!did.startsWith('did:web:')) return shortId(did);
  const [domain = '', ...rest] = did.slice('did:web:'.length).split(':');
  return [shortDomain(domain), ...(rest.length ? [endsOf(rest.join(':'))] : [])].join(':');
}

/** An id, a hash or a DID so short that it can be told from others. */
export function shortId(id: string): string {
  if (id.startsWith('did:web:')) return `did:web:${settlerName(id)}`;
  if (id.startsWith('did:')) return id.length <= 30 ? id : `${id.slice(0, 16)}…${id.slice(-10)}`;
  if (id.length <= WHOLE_CHARS_MAX) return id;
  const account = /^[a-z0-9]+:[A-Za-z0-9]+:(.+)$/.exec(id)?.[1];
  return endsOf(account ?? id);
}

/** The beginning and the end of what is long. */
function endsOf(id: string): string {
  if (id.length <= WHOLE_CHARS_MAX) return id;
  const prefix = /^(?:(?:pay|qrq|act)_|0x)?/.exec(id)?.[0].length ?? 0;
  return `${id.slice(0, prefix + END_CHARS)}…${id.slice(-END_CHARS)}`;
}
