// What a payer signs on Solana: the SHA-256 of the ordered bytes of a deposit, rebuilt from the payer's own request.

import { sha256 } from '@noble/hashes/sha2.js';
import { base58 } from '@scure/base';

import { hexWord } from '../abi.js';
import type { AddressTerms } from '../addresses.js';
import { concatBytes, hex, isEqual, unhex, utf8ToBytes } from '../bytes.js';
import { solanaKey, splitAsset } from '../caip.js';
import { depositOf } from '../deposit.js';
import { VerificationError } from '../errors.js';
import { SOLANA } from '../schemes.js';
import type { PreparedPayment, Spend } from '../types.js';
import { checkVerifier } from '../verifiers.js';
import { checkWindows } from '../windows.js';
import { delegateAddress } from './keys.js';

/** Version of what is signed, and of what deposit addresses commit to. */
export const DOMAIN_VERSION = 1;
/** A deposit, among the messages of the domain. */
const KIND_DEPOSIT = 0;
/** Characters of the genesis hash in a CAIP-2 id. */
const REFERENCE_CHARS = 32;
const U64_MAX = (1n << 64n) - 1n;
/** Where the three windows, and the quote's hash, are among the bytes. */
const AT = { quoteHash: 9 + 1 + 32 + 32 + 1 + 32 + 32, reserveDeadline: 9 + 1 + 32 + 32 + 1 + 32 * 3 + 32 + 32 + 8 + 32 + 32 };
const BYTES = AT.reserveDeadline + 3 * 8;

/** What is signed. */
export interface Deposit {
  /** The ordered bytes. */
  preimage: Uint8Array;
  /** Their SHA-256: what the signature is over. */
  digest: Uint8Array;
  /** What the submission repeats. */
  payload: { reserve_deadline: number; refund_after: number; permitted_amount?: string };
}

/** A number as the program writes it: 64 bits, little endian. */
export function u64(value: bigint): Uint8Array {
  if (value < 0n || value > U64_MAX) throw new VerificationError('amount', `${value} is more than Solana can count`);
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, value, true);
  return bytes;
}

/** The genesis hash of the payment's cluster: a signature for another one would count there. */
export function clusterOf(spend: Spend): string {
  const { signatureClusterId: cluster, signatureDomainVersion: version } = spend;
  if (version !== DOMAIN_VERSION)
    throw new VerificationError('signature_domain_version', `what is signed there has version ${version}, which is not known here`);
  if (cluster === undefined || `solana:${cluster.slice(0, REFERENCE_CHARS)}` !== spend.chainId) {
    throw new VerificationError('signature_cluster_id', `the gateway names ${cluster} as cluster, which is not ${spend.chainId}`);
  }
  return cluster;
}

/** The bytes of a deposit behind its domain: 257, which deposit addresses commit to as well. */
export function depositBytes({ token, amount, deposit }: Pick<AddressTerms, 'token' | 'amount' | 'deposit'>): Uint8Array {
  const { paymentId, termsHash, quoteHash, payer, reserver, releaser } = deposit;
  return concatBytes(
    Uint8Array.of(KIND_DEPOSIT),
    ...[paymentId, termsHash, quoteHash].map(hexWord),
    solanaKey(payer, 'payer'),
    solanaKey(token, 'token'),
    u64(amount),
    solanaKey(reserver, 'reserver'),
    solanaKey(releaser, 'releaser'),
    ...[deposit.reserveDeadline, deposit.fulfillmentDeadline, deposit.refundAfter].map((time) => u64(BigInt(time))),
  );
}

/**
 * The bytes of a deposit, from the payer's request and the accounts that it trusts; only the windows are read from what the gateway
 * prepared, and bounded.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else.
 */
export function rebuild(spend: Spend, prepared: PreparedPayment): Deposit {
  const [message, ...others] = prepared.signed_messages;
  if (prepared.message_scheme !== SOLANA || !message || others.length) {
    throw new VerificationError(
      'message_scheme',
      `the gateway asks for ${others.length + 1} signatures of ${prepared.message_scheme}`,
    );
  }
  checkVerifier('solana', spend.releaser, prepared.fulfillment_verifier);
  const asked = unhex(message.message_prehash);
  if (asked?.length !== BYTES)
    throw new VerificationError(
      'message_prehash',
      `the gateway asks for a signature over something else: not the ${BYTES} bytes of a deposit`,
    );
  const view = new DataView(asked.buffer, asked.byteOffset, asked.byteLength);
  const [reserveDeadline, , refundAfter] = [0, 8, 16].map((offset) =>
    Number(view.getBigUint64(AT.reserveDeadline + offset, true)),
  ) as [number, number, number];
  checkWindows(spend, { reserveDeadline, refundAfter });
  const { source } = spend.terms;
  const { token } = splitAsset(source.asset_identifier);
  const quoteHash = hex(asked.slice(AT.quoteHash, AT.quoteHash + 32));
  const preimage = concatBytes(
    utf8ToBytes('gw-escrow'),
    Uint8Array.of(DOMAIN_VERSION),
    solanaKey(clusterOf(spend), 'signature_cluster_id'),
    solanaKey(spend.escrow, 'escrow'),
    depositBytes({ token, amount: spend.cap, deposit: depositOf(spend, { reserveDeadline, refundAfter, quoteHash }) }),
  );
  if (!isEqual(preimage, asked)) {
    throw new VerificationError(
      'message_prehash',
      `the gateway asks for a signature over something else${difference(preimage, asked)}`,
      hex(preimage),
      hex(asked),
    );
  }
  const digest = sha256(preimage);
  if (message.message.toLowerCase() !== hex(digest)) {
    throw new VerificationError('message', 'the digest is not that of the bytes', hex(digest), message.message);
  }
  const delegate = base58.encode(delegateAddress(solanaKey(spend.escrow), solanaKey(source.account)));
  const named = message.payload?.['allowance_delegate'];
  if (named !== undefined && named !== delegate) {
    throw new VerificationError('allowance_delegate', 'the allowance would have to go elsewhere', delegate, String(named));
  }
  const permitted = spend.terms.max_source_amount === undefined ? { permitted_amount: spend.cap.toString() } : {};
  const payload = { reserve_deadline: reserveDeadline, refund_after: refundAfter, ...permitted };
  return { preimage, digest, payload };
}

/** The members of the bytes, in order. */
const MEMBERS: [string, number][] = [
  ['prefix', 9],
  ['version', 1],
  ['cluster', 32],
  ['program', 32],
  ['kind', 1],
  ['payment id', 32],
  ['terms hash', 32],
  ['quote hash', 32],
  ['payer', 32],
  ['mint', 32],
  ['amount', 8],
  ['reserver', 32],
  ['releaser', 32],
  ['reserve deadline', 8],
  ['fulfillment deadline', 8],
  ['refund after', 8],
];

function difference(own: Uint8Array, asked: Uint8Array): string {
  let at = 0;
  for (const [name, length] of MEMBERS) {
    if (!isEqual(own.slice(at, at + length), asked.slice(at, at + length))) return `: ${name} is another`;
    at += length;
  }
  return '';
}
