// The link by which a merchant asks for a mandate: what it wants to be allowed, in the fragment of `/pay#mandate=…`. README.md has the form.

import { evmAddress, familyOf, normalOwned, splitAsset } from '../../../sdk/typescript/src/caip.js';
import { checkMandate, mandateEnds } from '../../../sdk/typescript/src/mandate-rules.js';
import type { MandateOrder } from '../../../sdk/typescript/src/mandates.js';
import type { Defaults, OwnedAsset } from '../../../sdk/typescript/src/types.js';
import { chainOf } from '../chains.js';
import { damaged, decoded, DESTINATIONS_MAX, list, MEMO_CHARS_MAX, object, optional, owned, time, UNITS, word } from '../link.js';

/** What stands in front of the document in the fragment. */
export const MANDATE_FRAGMENT = 'mandate=';
/** The longest that a payment may be held for before it goes back, whatever a link says, in seconds. */
const LOCK_SECONDS_MAX = 604_800;
/** The same where the link does not say, beside the refund delay of the chains: what the gateway has. */
const LOCK_SECONDS = 86_400;
const RETURN_CHARS_MAX = 2048;
/** The last second that is shown as a time: that of the year 9999. */
export const LAST_SECOND = 253_402_300_799;
const ZERO_SALT = `0x${'0'.repeat(64)}`;

/** What a merchant asks to be allowed. */
export interface MandateLink {
  source: { asset_identifier: string; account?: string };
  destination: OwnedAsset[];
  merchant: string;
  /** Of a period, smallest unit, decimal. */
  amount: string;
  least?: string;
  begins?: number;
  period_seconds: number;
  periods: number;
  lock_seconds?: number;
  /** To be signed until then, RFC 3339. */
  expires_at?: string;
  memo?: string;
  /** Where the payer may send what it signed: an address of the merchant's, with TLS. */
  return_url?: string;
}

/**
 * What a fragment asks for, from behind {@link MANDATE_FRAGMENT} on.
 *
 * @throws {BadLink}
 */
export function readMandateLink(text: string): MandateLink {
  const members = decoded(text);
  const { asset_identifier, account } = object(members['source']);
  const asked = object(members['mandate']);
  const whole = (value: unknown): number => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) throw damaged();
    return value;
  };
  const least = optional(asked['least'], (value) => word(value, UNITS));
  const begins = optional(asked['begins'], whole);
  const lock = optional(asked['lock_seconds'], whole);
  const payer = optional(account, (value) => word(value));
  const expires = optional(members['expires_at'], time);
  const memo = optional(members['memo'], (value) => word(value, undefined, MEMO_CHARS_MAX));
  const back = optional(members['return_url'], returnUrl);
  const link: MandateLink = {
    source: { asset_identifier: word(asset_identifier), ...(payer === undefined ? {} : { account: payer }) },
    destination: list(members['destination'], DESTINATIONS_MAX).map(owned),
    merchant: word(asked['merchant']),
    amount: word(asked['amount'], UNITS),
    ...(least === undefined ? {} : { least }),
    ...(begins === undefined ? {} : { begins }),
    period_seconds: whole(asked['period_seconds']),
    periods: whole(asked['periods']),
    ...(lock === undefined ? {} : { lock_seconds: lock }),
    ...(expires === undefined ? {} : { expires_at: expires }),
    ...(memo === undefined ? {} : { memo }),
    ...(back === undefined ? {} : { return_url: back }),
  };
  try {
    return normal(link);
  } catch {
    throw damaged();
  }
}

/** The link with every account in its normal form, where there can be a mandate of it. */
function normal(link: MandateLink): MandateLink {
  const { source, destination, lock_seconds = LOCK_SECONDS } = link;
  const { family, namespace } = splitAsset(source.asset_identifier);
  if (family !== 'evm' || namespace !== 'erc20' || !destination.length || lock_seconds > LOCK_SECONDS_MAX) throw damaged();
  const merchant = evmAddress(link.merchant);
  if (BigInt(merchant) === 0n) throw damaged();
  const { amount, least, period_seconds, periods, begins = Math.floor(Date.now() / 1000) } = link;
  const mandate = { merchant, amount, period_seconds, periods, begins, lock_seconds, salt: ZERO_SALT };
  checkMandate(least === undefined ? mandate : { ...mandate, least });
  if (mandateEnds(mandate) > LAST_SECOND) throw damaged();
  return {
    ...link,
    merchant,
    source: { ...source, ...(source.account === undefined ? {} : { account: evmAddress(source.account) }) },
    destination: destination.map((to) => normalOwned(to, 'destination')),
  };
}

/** An address to which a browser may be sent with what was signed: with TLS, and with nobody's name in front of its host. */
function returnUrl(value: unknown): string {
  const text = word(value, /^https:\/\/[\x21-\x7e]+$/, RETURN_CHARS_MAX);
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw damaged();
  }
  // Without this `https://shop.example@other.example/` is of the other.
  if (url.protocol !== 'https:' || url.username || url.password || text.includes('\\') || url.hash) throw damaged();
  return url.href;
}

/** The longest that a payment by the mandate is held for. */
export function lockSecondsOf({ source, destination, lock_seconds }: MandateLink, defaults: Defaults): number {
  if (lock_seconds !== undefined) return lock_seconds;
  const assets = [source, ...destination].map(({ asset_identifier }) => defaults.chains[chainOf(asset_identifier)]?.refund_delay_seconds ?? 0);
  return LOCK_SECONDS + Math.max(...assets);
}

/** When its first period begins, in UNIX seconds: when it is signed, where the link names none or one that is over. */
export const beginsOf = ({ begins = 0 }: Pick<MandateLink, 'begins'>, nowMs = Date.now()): number => Math.max(begins, Math.floor(nowMs / 1000));

/** The order that is signed for. Neither salt nor escrow nor verifier is the link's. */
export function mandateOrderOf(link: MandateLink, defaults: Defaults, nowMs = Date.now()): MandateOrder {
  const { source, destination, merchant, amount, least, period_seconds, periods } = link;
  return {
    source: { asset: source.asset_identifier },
    destination: destination.map(({ asset_identifier: asset, account }) => ({ asset, account })),
    merchant,
    amount: BigInt(amount),
    ...(least === undefined ? {} : { least: BigInt(least) }),
    begins: new Date(beginsOf(link, nowMs) * 1000),
    periodSeconds: period_seconds,
    periods,
    lockSeconds: lockSecondsOf(link, defaults),
  };
}

/** Whether the gateway takes mandates of the link's asset, and delivers what it asks for. */
export function isServedMandate({ source, destination }: MandateLink, defaults: Defaults): boolean {
  const has = (asset: string): boolean => {
    const same = (id: string): boolean => (familyOf(asset) === 'evm' ? id.toLowerCase() === asset.toLowerCase() : id === asset);
    return defaults.chains[chainOf(asset)]?.assets.some(({ asset_identifier }) => same(asset_identifier)) ?? false;
  };
  const schemes = defaults.chains[chainOf(source.asset_identifier)]?.message_schemes as readonly string[] | undefined;
  return (schemes?.includes('EVM_PERMIT2_MANDATE') ?? false) && [source, ...destination].every(({ asset_identifier }) => has(asset_identifier));
}
