// Amounts, times and spans as people read them.

import { formatAmount } from '../../sdk/typescript/src/amounts.js';
import type { Defaults, ServedAsset } from '../../sdk/typescript/src/types.js';
import { chainName, chainOf } from './chains.js';
import { t } from './texts.js';

const SECOND_MS = 1000;

/** What the gateway says of an asset; `undefined` where it does not serve it. */
export function servedAsset(defaults: Defaults | undefined, asset: string): ServedAsset | undefined {
  const same = asset.startsWith('eip155:') ? (id: string) => id.toLowerCase() === asset.toLowerCase() : (id: string) => id === asset;
  const chain = chainOf(asset);
  if (!defaults || !Object.hasOwn(defaults.chains, chain)) return undefined;
  return defaults.chains[chain]?.assets.find(({ asset_identifier }) => same(asset_identifier));
}

/** An amount of an asset. Of an asset that is not served its smallest units are shown as they are. */
export function amountText(defaults: Defaults | undefined, asset: string, units: string | bigint): string {
  const served = servedAsset(defaults, asset);
  if (!served || !/^\d+$/.test(String(units))) return t('field.unit', { amount: String(units), asset });
  return `${formatAmount(BigInt(units), served.decimals)} ${served.symbol}`;
}

/** The same with the chain that the asset is on. */
export function amountOn(defaults: Defaults | undefined, asset: string, units: string | bigint): string {
  return `${amountText(defaults, asset, units)} ${t('field.on', { chain: chainName(chainOf(asset)) })}`;
}

const DATE = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' });

/** A time of the API by the reader's clock; the text itself where it is none. */
export function timeText(at: string): string {
  const ms = Date.parse(at);
  return Number.isNaN(ms) ? at : DATE.format(ms);
}

/** How long until then. */
export function leftText(untilMs: number, nowMs: number): string {
  const seconds = Math.max(0, Math.ceil((untilMs - nowMs) / SECOND_MS));
  if (seconds === 0) return t('time.over');
  if (seconds < 60) return t('time.left.seconds', { seconds });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return t('time.left', { minutes, seconds: seconds % 60 });
  return t('time.left.hours', { hours: Math.floor(minutes / 60), minutes: minutes % 60 });
}

const UNITS = [['days', 86_400], ['hours', 3600], ['minutes', 60], ['seconds', 1]] as const;

/** A span of time, exactly: its days, hours, minutes and seconds. */
export function spanText(seconds: number): string {
  let rest = seconds;
  const parts = UNITS.flatMap(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count === 0 ? [] : [t(count === 1 ? `span.${unit}.one` : `span.${unit}`, { count })];
  });
  return parts.join(' ') || t('span.seconds', { count: 0 });
}

/** A DID or an account so short that it can be told from others. */
export const shortText = (text: string): string => (text.length <= 20 ? text : `${text.slice(0, 10)}…${text.slice(-6)}`);
