// Quotes: the hash of the document that a settler signed.
//
// A quote is a JSON-LD document; its hash is SHA-256 of its canonical N-Quads (URDNA2015) without `proof`, as the gateway's page
// `/docs/quote-hash` describes. Quotes have one form only: members of one context, all of them texts, and one object,
// `destination`. So the graph has two nodes without a name, and its canonical form is made here without a processor of JSON-LD.

import { sha256 } from '@noble/hashes/sha2.js';
import { base32nopad } from '@scure/base';

import { bytesToHex, hex, utf8ToBytes } from './bytes.js';
import { VerificationError } from './errors.js';

/** The context that a quote names first. It only names fixed bytes, and nothing is fetched from it. */
const CONTEXT = 'https://gateway.example/contexts/gateway/v1';
const VOCABULARY = 'https://gateway.example/vocab#';
const TYPE = 'http://www.w3.org/1999/02/22-rdf-syntax-ns#type';
const DATE_TIME = '^^<http://www.w3.org/2001/XMLSchema#dateTime>';
const TEXTS = [
  'auctionId',
  'termsHash',
  'sourceChain',
  'sourceAmount',
  'payoutAccount',
  'escrowContract',
  'fulfillmentAmount',
  'deliveryAccount',
  'fulfillmentProxy',
];
const TIMES = ['fulfillBy', 'validUntil'];
const ESCAPES: Record<string, string> = { '\\': '\\\\', '"': '\\"', '\n': '\\n', '\r': '\\r' };
const NO_LITERAL = /[\x00-\x09\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]/u;
const IRI = /^[A-Za-z][A-Za-z0-9+.-]*:[!#-;=?-[\]_a-z~]+$/;

const not = (rule: string): VerificationError => new VerificationError('quote', rule);

function literal(value: unknown): string {
  if (typeof value !== 'string' || NO_LITERAL.test(value)) throw not('the quote has a member that is not a text');
  return `"${value.replace(/[\\"\n\r]/g, (char) => ESCAPES[char] ?? char)}"`;
}

function iri(value: unknown): string {
  if (typeof value !== 'string' || !IRI.test(value)) throw not('the quote names something that is not an IRI');
  return `<${value}>`;
}

const isOf = (value: object, names: readonly string[]): boolean =>
  Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name));

/** The canonical N-Quads of a quote without its proof. */
function nquads(document: Record<string, unknown>): string {
  const { '@context': contexts, proof: _, destination, id: subject, type, ...members } = document;
  if (!Array.isArray(contexts) || contexts[0] !== CONTEXT) throw not('the quote has another context');
  if (type !== 'GatewayQuote' || typeof destination !== 'object' || destination === null) throw not('the document is not a quote');
  if (!isOf(members, ['settler', ...TEXTS, ...TIMES]) || !isOf(destination, ['asset_identifier', 'account']))
    throw not('the quote has other members than quotes have');
  const own = [
    `<${TYPE}> <${VOCABULARY}GatewayQuote>`,
    ...Object.entries(members).map(([name, value]) => {
      const term = name === 'settler' ? iri(value) : literal(value) + (TIMES.includes(name) ? DATE_TIME : '');
      return `<${VOCABULARY}${name}> ${term}`;
    }),
  ];
  const inner = Object.entries(destination).map(([name, value]) => `<${VOCABULARY}${name}> ${literal(value)}`);
  const lines = (quote: string, delivered: string, ofQuote = own, ofDestination = inner): string =>
    [
      ...ofQuote.map((said) => `${quote} ${said} .\n`),
      ...ofDestination.map((said) => `${delivered} ${said} .\n`),
      `${quote} <${VOCABULARY}destination> ${delivered} .\n`,
    ]
      .sort()
      .join('');
  if (subject !== undefined) return lines(iri(subject), '_:c14n0');
  // Of two nodes without a name the one comes first whose statements have the smaller hash (URDNA2015, 4.6).
  const digest = (text: string): string => bytesToHex(sha256(utf8ToBytes(text)));
  const isQuoteFirst = digest(lines('_:a', '_:z', own, [])) < digest(lines('_:z', '_:a', [], inner));
  return isQuoteFirst ? lines('_:c14n0', '_:c14n1') : lines('_:c14n1', '_:c14n0');
}

/**
 * The hash of a quote document, 0x and 64 digits, as the escrow commits to it.
 *
 * @throws {VerificationError} where the document is not of the form that quotes have.
 */
export function quoteHash(document: Record<string, unknown>): `0x${string}` {
  return hex(sha256(utf8ToBytes(nquads(document))));
}

/** The id of the quote of this hash. */
export function quoteId(hash: string): string {
  const bytes = Uint8Array.from(hash.slice(2).match(/../g) ?? [], (digits) => parseInt(digits, 16));
  return `quo_${base32nopad.encode(bytes).toLowerCase()}`;
}
