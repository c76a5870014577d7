// Verifier sets: the id that a payer signs for is that of the escrows' own vectors, and a gateway that shows other verifiers than
// those it has the payer sign for is refused.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { PublicKey } from '@solana/web3.js';
import { utils } from 'tronweb';
import { concatHex, keccak256, stringToHex, toHex } from 'viem';
import { Gateway, releaserOf, spendOf, UsageError, VerificationError, verifierSetId } from 'gateway-client';
import { rebuildPermit } from 'gateway-client/evm';
import { rebuildDeposit } from 'gateway-client/solana';
import { rebuildTransactions } from 'gateway-client/tron';
import { prepared as fixtures, QUICK, repository, serve } from './support.mjs';

const REBUILD = { evm: rebuildPermit, solana: rebuildDeposit, tron: rebuildTransactions };
/** The bytes of an account, and the account of a hash, by the families' own libraries. */
const LIBRARY = {
  evm: { bytes: (account) => account, hash: (preimage) => `0x${keccak256(preimage).slice(-40)}` },
  solana: {
    bytes: (account) => toHex(new PublicKey(account).toBytes()),
    hash: (preimage) => new PublicKey(createHash('sha256').update(preimage.slice(2), 'hex').digest()).toBase58(),
  },
  tron: {
    bytes: (account) => `0x${utils.crypto.decodeBase58Address(account) && utils.address.toHex(account).slice(2)}`,
    hash: (preimage) => utils.address.fromHex(`41${keccak256(preimage).slice(-40)}`),
  },
};
const MEMBERS = {
  evm: [1, 2, 3].map((digit) => `0x${String(digit).repeat(40)}`),
  solana: [1, 2, 3].map((byte) => new PublicKey(new Uint8Array(32).fill(byte)).toBase58()),
  tron: [1, 2, 3].map((digit) => utils.address.fromHex(`41${String(digit).repeat(40)}`)),
};
const setOf = (accounts, threshold = 2) => ({
  threshold,
  members: accounts.map((account, at) => ({ account, endpoint: `https://v${at}.example` })),
});
const spend = ({ request, defaults, now }, trust = {}) => spendOf(request, defaults, trust, now);
/** A gateway's answers in which the releaser is shown as these verifiers. */
function showing(family, shown, where = 'defaults') {
  const fixture = fixtures()[family];
  const { releaser } = fixture.defaults.source;
  const verifier = { account: releaser, endpoint: 'https://v0.example', ...shown };
  if (where === 'defaults') fixture.defaults.source.fulfillment_verifier = verifier;
  else fixture.prepared.fulfillment_verifier = verifier;
  return { fixture, check: () => REBUILD[family](spend(fixture), fixture.prepared) };
}
const refused = (call, text) =>
  assert.throws(call, (error) => {
    assert.ok(error instanceof VerificationError);
    assert.equal(error.field, 'fulfillment_verifier');
    return error.message.includes(text);
  });

test('ids are those of the EVM escrow', () => {
  const { sets } = repository('contracts/vectors/verifier-set.json');
  assert.ok(sets.length > 1);
  for (const { threshold, members, id } of sets) {
    const accounts = members.map((account) => ({ account }));
    assert.equal(verifierSetId('evm', { threshold, members: accounts }), id);
    assert.equal(verifierSetId('evm', { threshold, members: accounts.toReversed() }), id);
  }
});

for (const family of Object.keys(REBUILD)) {
  const accounts = MEMBERS[family];

  test(`${family}: an id is the hash of threshold and members, whatever their order`, () => {
    const { bytes, hash } = LIBRARY[family];
    for (const threshold of [1, 2, 3]) {
      const sorted = accounts.map(bytes).sort();
      const preimage = concatHex([stringToHex('gw-verifier-set'), '0x01', toHex(threshold, { size: 1 }), '0x03', ...sorted]);
      for (const order of [accounts, accounts.toReversed()])
        assert.equal(verifierSetId(family, setOf(order, threshold)), hash(preimage));
    }
    assert.notEqual(verifierSetId(family, setOf(accounts)), verifierSetId(family, setOf(accounts.slice(1))));
    const alone = setOf(accounts.slice(0, 1), 1);
    assert.equal(releaserOf(family, alone), accounts[0]);
    assert.notEqual(verifierSetId(family, alone), accounts[0]);
    assert.equal(releaserOf(family, setOf(accounts)), verifierSetId(family, setOf(accounts)));
  });

  test(`${family}: what is no set has no id`, () => {
    const [one, two] = accounts;
    const many = Array.from({ length: 17 }, () => one);
    const foreign = MEMBERS[family === 'evm' ? 'tron' : 'evm'][0];
    for (const set of [setOf([]), setOf(many), setOf([one, one]), setOf([one, foreign]), setOf([one, ''])])
      assert.throws(() => verifierSetId(family, set), UsageError);
    for (const threshold of [0, 3, 1.5, -1, NaN, '2', undefined])
      assert.throws(() => verifierSetId(family, { ...setOf([one, two]), threshold }), UsageError, String(threshold));
  });

  test(`${family}: verifiers that are shown have to be the releaser that is signed for`, () => {
    const { releaser } = fixtures()[family].defaults.source;
    for (const where of ['defaults', 'prepared']) {
      const alone = showing(family, setOf([releaser], 1), where);
      assert.doesNotThrow(alone.check);
      // An older gateway says who, and no more.
      assert.doesNotThrow(showing(family, {}, where).check);
      refused(showing(family, setOf(accounts), where).check, verifierSetId(family, setOf(accounts)));
      refused(showing(family, setOf([releaser, ...accounts], 1), where).check, '1 of 4 verifiers');
      refused(showing(family, setOf(accounts.slice(0, 1), 1), where).check, accounts[0]);
      refused(showing(family, { account: accounts[1] }, where).check, accounts[1]);
      for (const broken of [
        { threshold: 1 },
        { members: [{ account: releaser }] },
        setOf([releaser], 2),
        setOf([], 0),
        { threshold: 1, members: [null] },
        { threshold: 1, members: releaser },
        { account: 'nobody' },
      ])
        refused(showing(family, broken, where).check, 'that cannot be');
    }
    const { fixture } = showing(family, setOf([releaser], 1));
    assert.deepEqual(spend(fixture).verifiers, setOf([releaser], 1));
  });

  test(`${family}: a set is pinned by its releaser, and found among the verifiers that an order may name`, () => {
    const fixture = fixtures()[family];
    const { source } = fixture.defaults;
    const id = verifierSetId(family, setOf(accounts));
    const shown = { account: id, endpoint: 'https://v0.example', ...setOf(accounts) };
    fixture.request.fulfillment_verifier = { account: id, endpoint: 'https://v1.example' };
    assert.equal(spend(fixture, { releaser: id }).releaser, id);
    assert.equal(spend(fixture).verifiers, undefined);
    source.fulfillment_verifiers.push(shown);
    assert.deepEqual(spend(fixture).verifiers, setOf(accounts));
    shown.threshold = 1;
    refused(() => spend(fixture), '1 of 3 verifiers');
    // As the default.
    delete fixture.request.fulfillment_verifier;
    Object.assign(source, { releaser: id, fulfillment_verifier: { ...shown, threshold: 2 } });
    assert.deepEqual(spend(fixture, { releaser: id }).verifiers, setOf(accounts));
    assert.throws(() => spend(fixture, { releaser: accounts[0] }), VerificationError);
  });
}

test('a payment tells who may attest it before anything is sent', async (t) => {
  const fixture = fixtures().evm;
  const { source } = fixture.defaults;
  const set = setOf(MEMBERS.evm);
  const id = releaserOf('evm', set);
  Object.assign(source, { releaser: id, fulfillment_verifier: { account: id, endpoint: 'https://v0.example', ...set } });
  const server = await serve(t, () => ({ body: source }));
  const { asset_identifier: asset, account } = fixture.request.source;
  const [to] = fixture.request.destination;
  const order = { source: { asset }, destination: { asset: to.asset_identifier, account: to.account }, amount: 1n, maxSource: 2n };
  const wallet = { family: 'evm', account, connect: async () => {}, fund: assert.fail, verify: assert.fail, sign: assert.fail };
  const told = [];
  const paying = new Gateway(server.url, QUICK).pay(order, wallet, {
    onStep: (step) => {
      told.push(step);
      throw new Error('seen');
    },
  });
  await assert.rejects(paying, /seen/);
  assert.deepEqual([told[0].step, told[0].verifiers], ['ordered', set]);
});
