// A payer on Tron whose key is known, and what an honest gateway has it sign for Permit2: made by viem, out of hexadecimal.
import assert from 'node:assert/strict';
import { utils } from 'tronweb';
import { concat, hashTypedData, keccak256, stringToHex } from 'viem';
import { paymentId, spendOf, VerificationError } from 'gateway-client';
import { tronKey } from 'gateway-client/tron';
import { inHex, PERMIT2, SCHEME, termsHash, transferOf, unsigned } from './permits.mjs';
import { prepared as fixtures } from './support.mjs';

export const MAINNET = 'tron:728126428';
/** The test network Nile. */
export const NILE = 'tron:3448148188';
export const OTHER = 'TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top';
export const KEY = '7'.repeat(64);
export const PAYER = tronKey(KEY).address;
export const HASH = keccak256(stringToHex('another'));

/** 0x and the twenty bytes. */
export const toHex = (account) => `0x${utils.address.toHex(account).slice(2)}`;
/** EIP-712's digest. */
export const viemDigest = ({ domain, message, ...data }) =>
  hashTypedData({ ...data, domain: inHex(domain, toHex), message: inHex(message, toHex) });

/** The recorded request, for the payer whose key is known, on a network with this id; `permit2` is what the gateway names. */
export function fixtureOn(chain = MAINNET, permit2 = PERMIT2) {
  const fixture = JSON.parse(JSON.stringify(fixtures().tron).replaceAll('tron:31339', chain));
  fixture.request.source.account = PAYER;
  Object.assign(fixture.defaults.source, { permit2, message_schemes: [SCHEME, 'TRON'] });
  return fixture;
}
export const spendFor = ({ request, defaults, now }, trust = {}) => spendOf(request, defaults, trust, now);

/** What an honest gateway asks of the payer to be signed. `edit` changes it, and `digest` says how it is hashed then. */
export function asked({ request, defaults: { source, refundDelaySeconds } }, edit, digest = viemDigest) {
  const id = paymentId(`tron:${PAYER}`, request.request_id);
  const hashes = { paymentId: keccak256(stringToHex(id)), termsHash: termsHash(request), quoteHash: `0x${'0'.repeat(64)}` };
  const order = { asset: request.source.asset_identifier, amount: request.max_source_amount, payer: PAYER, served: source };
  const fulfilled = Date.parse(request.fulfillment_deadline) / 1000;
  const nonce = keccak256(concat([hashes.paymentId, hashes.termsHash]));
  const data = transferOf({ ...order, hashes, nonce, fulfilled, refundDelay: refundDelaySeconds }, edit);
  return { payment_id: id, ...unsigned(data, digest), fulfillment_verifier: source.fulfillment_verifier };
}

/** Whether it is refused to sign, for what differs in `field`. */
export const refused = (call, field, said = /./) =>
  assert.throws(call, (error) => {
    assert.ok(error instanceof VerificationError, String(error));
    assert.equal(error.field, field);
    assert.match(error.message, said);
    return true;
  });
