// What a payer hands over, and ends a mandate by: the mandate with all that its address commits to, and the signature.

import { hex, unhex } from '../../../sdk/typescript/src/bytes.js';
import { evmAddress, normalOwned, splitAsset } from '../../../sdk/typescript/src/caip.js';
import { mandateAddress, mandateOf, mandatePermit } from '../../../sdk/typescript/src/evm/mandates.js';
import { destinationSet } from '../../../sdk/typescript/src/ids.js';
import { recover } from '../../../sdk/typescript/src/tron/deposit.js';
import { knownPermit2 } from '../../../sdk/typescript/src/trust.js';
import type { FulfillmentVerifier, Mandate, MandateSpend, OwnedAsset } from '../../../sdk/typescript/src/types.js';
import { encoded, VERSION } from '../link.js';

/** The name of what is handed over in the query of a merchant's address. */
const QUERY = 'mandate';
/** Longest address that every server reads, in characters. */
const ADDRESS_CHARS_MAX = 7500;
/** Longest text that is read, in characters. */
const TEXT_CHARS_MAX = 65_536;

/** `mandate` and `permit` are the payload of each payment; the rest is what its order has to say. */
export interface MandateDocument {
  v: number;
  mandate: Mandate;
  permit: string;
  address: string;
  source: OwnedAsset;
  destination: OwnedAsset[];
  escrow_contract_address: string;
  fulfillment_verifier: FulfillmentVerifier;
}

/** `incomplete`: what the address commits to is missing. `address`, `permit`: they are of another mandate. */
export class BadDocument extends Error {
  override readonly name = 'BadDocument';

  constructor(readonly reason: 'damaged' | 'incomplete' | 'address' | 'permit') {
    super(`the mandate's document is ${reason}`);
  }
}

export function documentOf({ terms, mandate, escrow }: MandateSpend, permit: string, address: string, verifier: FulfillmentVerifier): MandateDocument {
  const { source, destination } = terms;
  return { v: VERSION, mandate, permit, address, source, destination, escrow_contract_address: escrow, fulfillment_verifier: verifier };
}

/** All that a document's address is computed from. */
export function spendOfDocument({ mandate, source, destination, escrow_contract_address: escrow, fulfillment_verifier }: MandateDocument): MandateSpend {
  const own = normalOwned(source, 'source');
  const { chainId } = splitAsset(own.asset_identifier);
  const terms = { source: own, destination: destinationSet(destination.map((to, at) => normalOwned(to, `destination[${at}]`))) };
  const permit2 = knownPermit2(chainId);
  return {
    chainId,
    escrow: evmAddress(escrow, 'escrow'),
    releaser: evmAddress(String(fulfillment_verifier.account), 'releaser'),
    ...(permit2 === undefined ? {} : { permit2 }),
    terms,
    mandate,
  };
}

/**
 * A document as it was handed over, where it is what its payer signed: another one ends nothing.
 *
 * @throws {BadDocument}
 */
export function readDocument(text: string): MandateDocument {
  let document: MandateDocument;
  try {
    const members = (text.length > TEXT_CHARS_MAX ? undefined : JSON.parse(text)) as Partial<MandateDocument> | null | undefined;
    if (!members || typeof members !== 'object' || !members.mandate) throw new BadDocument('damaged');
    const { v, mandate, permit, address, source, destination, escrow_contract_address, fulfillment_verifier } = members;
    if (!permit || !address || !source || !destination || !escrow_contract_address || !fulfillment_verifier) throw new BadDocument('incomplete');
    document = { v: v ?? VERSION, mandate, permit, address, source, destination, escrow_contract_address, fulfillment_verifier };
    check(document);
  } catch (error) {
    throw error instanceof BadDocument ? error : new BadDocument('damaged');
  }
  return document;
}

/** @throws {BadDocument} where address or signature are not of this mandate. */
function check(document: MandateDocument): void {
  const spend = spendOfDocument(document);
  const own = mandateOf(spend);
  if (mandateAddress(own) !== document.address.toLowerCase()) throw new BadDocument('address');
  const { digest } = mandatePermit(own, { chainId: spend.chainId, permit2: spend.permit2 ?? '' });
  const signer = recover(unhex(digest) ?? new Uint8Array(), long(unhex(document.permit) ?? new Uint8Array()));
  if (!signer || hex(signer) !== own.payer) throw new BadDocument('permit');
}

/** A signature with its last byte, where it came without (ERC-2098), or with 0 and 1 for 27 and 28. */
function long(signature: Uint8Array): Uint8Array {
  if (signature.length === 65) return Uint8Array.of(...signature.slice(0, 64), (signature[64] ?? 0) < 27 ? (signature[64] ?? 0) + 27 : (signature[64] ?? 0));
  if (signature.length !== 64) return signature;
  const first = signature[32] ?? 0;
  return Uint8Array.of(...signature.slice(0, 32), first & 127, ...signature.slice(33), 27 + (first >> 7));
}

export const textOfDocument = (document: MandateDocument): string => JSON.stringify(document, undefined, 2);

/** The merchant's address with the document in its query; `undefined` where that is longer than servers read. */
export function returnLink(returnUrl: string, document: MandateDocument): string | undefined {
  const url = new URL(returnUrl);
  url.searchParams.set(QUERY, encoded(document));
  return url.href.length > ADDRESS_CHARS_MAX ? undefined : url.href;
}
