// The payment link: what somebody wants paid, in the fragment of `/pay#…`, which never reaches a server. README.md has the
// format.

import type { OwnedAsset } from '../../sdk/typescript/src/types.js';

/** Version of the forms of links. */
export const VERSION = 1;
/** Longest fragment that is read, in characters. */
const FRAGMENT_CHARS_MAX = 16_384;
export const DESTINATIONS_MAX = 16;
const SOURCES_MAX = 64;
export const MEMO_CHARS_MAX = 280;
const TEXT_CHARS_MAX = 256;
export const UNITS = /^[1-9][0-9]{0,77}$/;
const REQUEST_ID = /^[A-Za-z0-9_.-]{1,128}$/;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/;

/** What may be paid with, and the most that is taken of it. */
export interface Source {
  asset_identifier: string;
  max_source_amount?: string;
}

/** What a link asks for. */
export interface PaymentLink {
  request_id: string;
  destination: OwnedAsset[];
  fulfillment_amount: string;
  /** Empty: whatever the gateway serves. */
  pay_with: Source[];
  /** Payable until then, RFC 3339. */
  expires_at?: string;
  memo?: string;
}

/** The link cannot be read. `newer`: this page is too old for it. */
export class BadLink extends Error {
  override readonly name = 'BadLink';

  constructor(readonly reason: 'empty' | 'damaged' | 'newer') {
    super(`the link is ${reason}`);
  }
}

export const damaged = (): BadLink => new BadLink('damaged');

export function object(value: unknown): Record<string, unknown> {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw damaged();
  return value as Record<string, unknown>;
}

export function list(value: unknown, most: number): unknown[] {
  if (!Array.isArray(value) || value.length > most) throw damaged();
  return value;
}

export function word(value: unknown, form?: RegExp, most = TEXT_CHARS_MAX): string {
  if (typeof value !== 'string' || !value || value.length > most || (form && !form.test(value))) throw damaged();
  return value;
}

export function optional<T>(value: unknown, read: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : read(value);
}

/** A point in time, RFC 3339. What no calendar has would never be over. */
export function time(value: unknown): string {
  const text = word(value, TIME);
  if (Number.isNaN(Date.parse(text))) throw damaged();
  return text;
}

export function owned(value: unknown): OwnedAsset {
  const { asset_identifier, account } = object(value);
  return { asset_identifier: word(asset_identifier), account: word(account) };
}

function source(value: unknown): Source {
  const { asset_identifier, max_source_amount } = object(value);
  const most = optional(max_source_amount, (value) => word(value, UNITS));
  return { asset_identifier: word(asset_identifier), ...(most === undefined ? {} : { max_source_amount: most }) };
}

/**
 * The members of a document in base64url.
 *
 * @throws {BadLink}
 */
export function decoded(text: string): Record<string, unknown> {
  if (!text) throw new BadLink('empty');
  if (text.length > FRAGMENT_CHARS_MAX || !/^[A-Za-z0-9_-]+$/.test(text)) throw damaged();
  let members: Record<string, unknown>;
  try {
    const bytes = Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (char) => char.charCodeAt(0));
    members = object(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)));
  } catch {
    throw damaged();
  }
  if (typeof members['v'] === 'number' && members['v'] > VERSION) throw new BadLink('newer');
  if (members['v'] !== VERSION) throw damaged();
  return members;
}

/** The same the other way round. */
export function encoded(document: object): string {
  const bytes = new TextEncoder().encode(JSON.stringify({ v: VERSION, ...document }));
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

/**
 * What the fragment of a link asks for, with or without its `#`.
 *
 * @throws {BadLink}
 */
export function readLink(fragment: string): PaymentLink {
  const members = decoded(fragment.replace(/^#/, ''));
  const destination = list(members['destination'], DESTINATIONS_MAX).map(owned);
  if (!destination.length) throw damaged();
  const expires = optional(members['expires_at'], time);
  const memo = optional(members['memo'], (value) => word(value, undefined, MEMO_CHARS_MAX));
  return {
    request_id: word(members['request_id'], REQUEST_ID),
    destination,
    fulfillment_amount: word(members['fulfillment_amount'], UNITS),
    pay_with: optional(members['pay_with'], (value) => list(value, SOURCES_MAX).map(source)) ?? [],
    ...(expires === undefined ? {} : { expires_at: expires }),
    ...(memo === undefined ? {} : { memo }),
  };
}
