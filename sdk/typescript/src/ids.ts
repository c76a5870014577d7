// Ids and hashes that everybody computes alike: of the payment, of the batch, and of the terms.

import { sha256 } from '@noble/hashes/sha2.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { base32nopad } from '@scure/base';

import { concatBytes, hex, utf8ToBytes } from './bytes.js';
import type { OwnedAsset, Terms } from './types.js';

/** `prefix` and base32 of SHA-256 over the parts, each preceded by its length in bytes, 64 bits big endian. */
function derive(prefix: string, parts: string[]): string {
  const bytes = parts.flatMap((part) => {
    const text = utf8ToBytes(part);
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigUint64(0, BigInt(text.length));
    return [length, text];
  });
  return prefix + base32nopad.encode(sha256(concatBytes(...bytes))).toLowerCase();
}

/**
 * The id of the payment that `originator` asks for under `requestId`: the same request is the same payment at every gateway of
 * a service. `originator` is a DID, or `eip155:` and the lower-case address, `solana:` or `tron:` and the account.
 */
export function paymentId(originator: string, requestId: string): string {
  return derive('pay_', ['gw:payment:v1', originator, requestId]);
}

/** The id of the quote-request that `originator` opens under `requestId`; `callerSecret` is what went along as `Caller-Secret`. */
export function quoteRequestId(originator: string, requestId: string, callerSecret?: string): string {
  if (callerSecret === undefined) return derive('qrq_', ['gw:quote-request:v1', originator, requestId]);
  const secret = hex(sha256(utf8ToBytes(callerSecret)));
  return derive('qrq_', ['gw:quote-request-with-secret:v1', originator, requestId, secret]);
}

/** The payment as the contracts know it: keccak-256 of the id's text. */
export function onChainId(id: string): `0x${string}` {
  return hex(keccak_256(utf8ToBytes(id)));
}

/** Asset and account, with the members in the order of their names. */
const owned = ({ account, asset_identifier }: OwnedAsset): OwnedAsset => ({ account, asset_identifier });
const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

/** Destinations as the set that they are: sorted by asset and then account, each once. */
export function destinationSet(destinations: readonly OwnedAsset[]): OwnedAsset[] {
  const sorted = [...destinations].sort(
    (one, other) => compare(one.asset_identifier, other.asset_identifier) || compare(one.account, other.account),
  );
  return sorted.filter((item, at) => {
    const before = sorted[at - 1];
    return !before || before.asset_identifier !== item.asset_identifier || before.account !== item.account;
  });
}

/**
 * SHA-256 of the RFC 8785 form of the terms, which have to be in their normal form. They hold strings alone, for which
 * `JSON.stringify` writes that form, with the members in the order of their names.
 */
export function termsHash({ source, destination, fulfillment_amount, max_source_amount }: Terms): `0x${string}` {
  const terms = {
    destination: destinationSet(destination).map(owned),
    fulfillment_amount,
    ...(max_source_amount === undefined ? {} : { max_source_amount }),
    source: owned(source),
  };
  return hex(sha256(utf8ToBytes(JSON.stringify(terms))));
}

/**
 * The same form in two parts, up to what is delivered and from behind the most that is paid. Between the two amounts stands
 * `","max_source_amount":"`.
 */
export function aroundAmounts({ source, destination }: Pick<Terms, 'source' | 'destination'>): [string, string] {
  const delivered = JSON.stringify(destinationSet(destination).map(owned));
  return [`{"destination":${delivered},"fulfillment_amount":"`, `","source":${JSON.stringify(owned(source))}}`];
}
