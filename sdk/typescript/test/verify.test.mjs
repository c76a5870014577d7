// Verify before sign: what a gateway of gw-dev prepared is rebuilt to the bit, and whatever is changed in it is noticed. viem,
// tronweb and @solana/web3.js compute the same on their own.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { PublicKey } from '@solana/web3.js';
import { utils } from 'tronweb';
import { hashTypedData, keccak256, stringToHex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { awardSpend, quoteHash as hashOf, spendOf, VerificationError } from 'gateway-client';
import { evmWallet, rebuildPermit } from 'gateway-client/evm';
import { rebuildDeposit, solanaWallet } from 'gateway-client/solana';
import { rebuildTransactions, tronWallet } from 'gateway-client/tron';
import { prepared as fixtures, repository } from './support.mjs';

const REBUILD = { evm: rebuildPermit, solana: rebuildDeposit, tron: rebuildTransactions };
const OTHER = {
  evm: '0x00000000000000000000000000000000000000aa',
  solana: '4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi',
  tron: 'TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top',
};
const FAMILIES = Object.keys(REBUILD);

const spend = ({ request, defaults, now }, trust = {}) => spendOf(request, defaults, trust, now);
const refused = (call, field) =>
  assert.throws(
    call,
    (error) => error instanceof VerificationError && (field === undefined || error.field === field),
    String(field),
  );

for (const family of FAMILIES) {
  const change = (edit) => {
    const fixture = fixtures()[family];
    edit(fixture);
    return () => REBUILD[family](spend(fixture), fixture.prepared);
  };

  test(`${family}: what the gateway prepared for the payer's own request is rebuilt`, () => {
    const fixture = fixtures()[family];
    assert.equal(spend(fixture).paymentId, fixture.prepared.payment_id);
    change(() => {})();
  });

  test(`${family}: what was prepared for another request is refused`, () => {
    const { source, destination } = fixtures()[family].request;
    assert.ok(source && destination.length === 1);
    for (const edit of [
      ({ request }) => (request.request_id = 'another'),
      ({ request }) => (request.fulfillment_amount = '25000001'),
      ({ request }) => (request.max_source_amount = '25499999'),
      ({ request }) => (request.destination[0].account = OTHER.evm),
      ({ request }) => (request.destination[0].asset_identifier = `eip155:31338/erc20:${OTHER.evm}`),
      ({ request }) => request.destination.push({ asset_identifier: 'eip155:1/slip44:60', account: OTHER.evm }),
      ({ request }) => (request.source.account = OTHER[family]),
      ({ request }) => (request.source.asset_identifier = request.source.asset_identifier.replace(/:[^:]+$/, `:${OTHER[family]}`)),
      ({ defaults }) => (defaults.source.escrow_contract_address = OTHER[family]),
      ({ defaults }) => (defaults.source.reserver = OTHER[family]),
      ({ defaults }) => (defaults.source.releaser = OTHER[family]),
      ({ request }) => (request.fulfillment_deadline = new Date(Date.parse(request.fulfillment_deadline) + 1000).toISOString()),
      ({ request }) => (request.fulfillment_deadline = new Date(Date.parse(request.fulfillment_deadline) - 1000).toISOString()),
      ({ prepared }) => (prepared.message_scheme = 'EVM_PERMIT2'),
      ({ prepared }) => prepared.signed_messages.push(...prepared.signed_messages, ...prepared.signed_messages),
      ({ prepared }) => (prepared.signed_messages = []),
      ({ prepared }) => (prepared.signed_messages.at(-1).message = keccak256(stringToHex('another message'))),
      ({ prepared }) => (prepared.signed_messages.at(-1).message_prehash = '0x'),
      ({ prepared }) => (prepared.signed_messages.at(-1).message_prehash = '{}'),
    ]) {
      refused(change(edit), undefined);
    }
  });

  test(`${family}: accounts that the payer knows are held against the gateway's`, () => {
    const fixture = fixtures()[family];
    const { escrow, reserver, releaser } = spend(fixture);
    spend(fixture, { escrow, reserver, releaser });
    for (const field of ['escrow', 'reserver', 'releaser']) refused(() => spend(fixture, { [field]: OTHER[family] }), field);
    for (const nothing of [undefined, '', 7, OTHER.evm + OTHER.evm]) {
      refused(
        change(({ defaults }) => (defaults.source.reserver = nothing)),
        'reserver',
      );
    }
  });

  test(`${family}: money is not locked for longer than allowed`, () => {
    const fixture = fixtures()[family];
    refused(() => spend(fixture, { lockSecondsMax: 100 }), 'lock');
    for (const seconds of [7200, -1, 1.5, NaN, '30']) {
      assert.throws(
        change(({ defaults }) => (defaults.refundDelaySeconds = seconds)),
        VerificationError,
        String(seconds),
      );
    }
  });
}

/** Changes the typed data, and gives its own digest with it. */
function retype(fixture, edit) {
  const [message] = fixture.prepared.signed_messages;
  const typed = JSON.parse(message.message_prehash);
  edit(typed);
  message.message_prehash = JSON.stringify(typed);
  message.message = hashTypedData(typed);
}

test('evm: the digest is the one that viem computes, and every field that is changed consistently is noticed', () => {
  const fixture = fixtures().evm;
  const permit = rebuildPermit(spend(fixture), fixture.prepared);
  assert.equal(permit.digest, hashTypedData(permit.typedData));
  const hash = keccak256(stringToHex('another'));
  const edits = {
    'permitted.token': (message) => (message.permitted.token = OTHER.evm),
    'permitted.amount': (message) => (message.permitted.amount = '25500001'),
    spender: (message) => (message.spender = OTHER.evm),
    nonce: (message) => (message.nonce = '7'),
    deadline: (message) => (message.deadline = String(Number(message.deadline) + 1)),
    'deadline before the deposit has to be made': (message) => (message.deadline = String(Number(message.deadline) - 1)),
    ...Object.fromEntries(['paymentId', 'termsHash', 'quoteHash'].map((name) => [name, ({ witness }) => (witness[name] = hash)])),
    ...Object.fromEntries(['payer', 'reserver', 'releaser'].map((name) => [name, ({ witness }) => (witness[name] = OTHER.evm)])),
    ...Object.fromEntries(
      ['reserveDeadline', 'fulfillmentDeadline', 'refundAfter'].map((name) => [
        name,
        ({ witness }) => (witness[name] = String(Number(witness[name]) + 1)),
      ]),
    ),
  };
  for (const [name, edit] of Object.entries(edits)) {
    const changed = fixtures().evm;
    retype(changed, ({ message }) => edit(message));
    assert.throws(() => rebuildPermit(spend(changed), changed.prepared), VerificationError, name);
  }
  for (const edit of [
    ({ domain }) => (domain.chainId = 1),
    ({ domain }) => (domain.verifyingContract = OTHER.evm),
    ({ domain }) => (domain.name = 'Other'),
  ]) {
    const changed = fixtures().evm;
    retype(changed, edit);
    assert.throws(() => rebuildPermit(spend(changed), changed.prepared), VerificationError);
  }
  // Windows that are the gateway's to choose are taken, where they are earlier.
  const earlier = fixtures().evm;
  retype(earlier, ({ message }) => {
    message.witness.reserveDeadline = String(Number(message.witness.reserveDeadline) - 5);
    message.witness.refundAfter = String(Number(message.witness.refundAfter) - 5);
  });
  assert.equal(rebuildPermit(spend(earlier), earlier.prepared).digest, earlier.prepared.signed_messages[0].message);
});

test('evm: Permit2 is never where only a gateway says', () => {
  const fixture = fixtures().evm;
  fixture.defaults.source.permit2 = OTHER.evm;
  refused(() => spend(fixture), 'permit2');
  assert.equal(spend(fixture, { permit2: OTHER.evm }).permit2, OTHER.evm);
  // A pin for Tron says nothing on an EVM chain.
  refused(() => spend(fixture, { permit2: OTHER.tron }), 'permit2');
  const uniswap = spend(fixtures().evm, { permit2: OTHER.tron }).permit2;
  assert.equal(uniswap, '0x000000000022d473030f116ddee9f6b43ac78ba3');
});

test('evm: an award is for the quote that was chosen, at no more than its cap', () => {
  const { award } = fixtures();
  const [quote] = award.batch.quotes;
  const of = ({ batch, defaults, now, quote: chosen = batch.quotes[0] }, options) =>
    awardSpend(batch, chosen, 'fixture-award', defaults, { maxSource: 25_500_000n, ...options }, now);
  const permit = rebuildPermit(of(award), award.prepared);
  const { quoteHash } = permit.typedData.message.witness;
  assert.match(quoteHash, /^0x(?!0{64})[0-9a-f]{64}$/);
  rebuildPermit(of(award, { quoteHash }), award.prepared);
  refused(() => rebuildPermit(of(award, { quoteHash: keccak256(stringToHex('another')) }), award.prepared));
  // Without a hash of a quote it would be for any.
  const unbound = fixtures().award;
  retype(unbound, ({ message }) => (message.witness.quoteHash = `0x${'0'.repeat(64)}`));
  refused(() => rebuildPermit(of(unbound), unbound.prepared), undefined);
  // Nor is it for another quote of the batch.
  refused(() => rebuildPermit(of(award, {}), { ...award.prepared, ...preparedFor(award, award.batch.quotes[1]) }), undefined);
  for (const [member, value, field] of [
    ['termsHash', keccak256(stringToHex('another')), 'quote.termsHash'],
    ['fulfillmentAmount', '1', 'quote.fulfillmentAmount'],
    ['sourceChain', 'eip155:1', 'quote.sourceChain'],
    ['sourceAmount', '25500001', 'quote.sourceAmount'],
    ['sourceAmount', '1', 'quote_id'],
    ['payoutAccount', OTHER.evm, 'quote_id'],
    ['destination', { ...quote.fulfillment_quote.destination, account: OTHER.evm }, 'quote.destination'],
    ['destination', undefined, 'quote.destination'],
    ['settler', 'nobody', 'quote'],
    ['extra', 'member', 'quote'],
    ['@context', [], 'quote'],
  ]) {
    const changed = { ...award, quote: { ...quote, fulfillment_quote: { ...quote.fulfillment_quote, [member]: value } } };
    refused(() => of(changed), field);
  }
  for (const id of [award.batch.quotes[1].quote_id, 'quo_x', undefined]) {
    refused(() => of({ ...award, quote: { ...quote, quote_id: id } }), 'quote_id');
  }
});

/** What a gateway prepared that has the payer sign for another quote. */
function preparedFor(award, quote) {
  const changed = structuredClone(award);
  retype(changed, ({ message }) => (message.witness.quoteHash = hashOf(quote.fulfillment_quote)));
  return changed.prepared;
}

test('a quote hashes to what its id says, whatever the order of its members, and not by its proof', () => {
  const { quotes } = fixtures().award.batch;
  assert.equal(quotes.length, 3);
  for (const { quote_id: id, fulfillment_quote: document } of quotes) {
    const reversed = Object.fromEntries(Object.entries(document).reverse());
    const { proof: _, ...unsigned } = document;
    for (const same of [document, reversed, unsigned]) {
      assert.equal(id, `quo_${base32(hashOf(same))}`);
    }
    assert.notEqual(hashOf({ ...document, sourceAmount: '1' }), hashOf(document));
  }
});

/** RFC 4648, in lower case and without padding. */
function base32(hash) {
  const bits = BigInt(hash).toString(2).padStart(256, '0').padEnd(260, '0');
  return bits.match(/.{5}/g).map((five) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(five, 2)]).join('');
}

test('an award is for the order that quotes were asked for, whatever batch comes', () => {
  const { award } = fixtures();
  const { batch, defaults, now } = award;
  const order = {
    source: { asset: batch.source.asset_identifier },
    destination: { asset: batch.destination[0].asset_identifier, account: batch.destination[0].account },
    amount: 25_000_000n,
    maxSource: 25_500_000n,
  };
  const of = (changed, options) => awardSpend(changed, changed.quotes[0], 'fixture-award', defaults, options, now);
  const { max_source_amount: _, ...uncapped } = batch;
  const asked = { ...uncapped, version: '1.0', request_id: 'quotes-1' };
  assert.equal(of(batch, { order: asked, maxSource: 25_500_000n }).cap, 25_500_000n);
  for (const change of [
    { destination: [{ ...batch.destination[0], account: OTHER.evm }] },
    { destination: [...batch.destination, { ...batch.destination[0], account: OTHER.evm }] },
    { destination: [{ asset_identifier: 'nothing', account: '' }] },
    { fulfillment_amount: '1' },
    { max_source_amount: '99000000' },
    { source: { ...batch.source, asset_identifier: `eip155:31337/erc20:${OTHER.evm}` } },
  ]) {
    refused(() => of({ ...batch, ...change }, { order: asked, maxSource: 25_500_000n }), 'quote-request');
    refused(() => of({ ...batch, ...change }, { order, maxSource: 25_500_000n }), 'quote-request');
  }
  // The payer's own bound counts beside the batch's.
  refused(() => of({ ...batch, max_source_amount: '99000000' }, { maxSource: 25_500_000n }), 'max_source_amount');
});

test('solana: each member is where the vectors of the program have it', () => {
  const { deposit } = repository('contracts/solana/vectors.json');
  const fixture = fixtures().solana;
  const of = spend(fixture);
  const { preimage, digest } = rebuildDeposit(of, fixture.prepared);
  const vector = Buffer.from(deposit.preimage, 'hex');
  assert.equal(preimage.length, vector.length);
  assert.deepEqual(preimage.slice(0, 10), Uint8Array.from(vector.slice(0, 10)));
  const key = (text) => new PublicKey(text).toBuffer();
  const u64 = (value) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    return bytes;
  };
  const own = {
    payment_id: Buffer.from(keccak256(stringToHex(of.paymentId)).slice(2), 'hex'),
    payer: key(of.terms.source.account),
    mint: key(of.terms.source.asset_identifier.split('/token:')[1]),
    amount: u64(of.cap),
    reserver: key(of.reserver),
    releaser: key(of.releaser),
    fulfillment_deadline: u64(of.fulfillmentDeadline),
  };
  const written = (value) =>
    typeof value === 'number' ? u64(value) : /^[0-9a-f]{64}$/.test(value) ? Buffer.from(value, 'hex') : key(value);
  for (const [member, bytes] of Object.entries(own)) {
    const at = vector.indexOf(written(deposit.fields[member]), 10);
    assert.ok(at > 0, member);
    assert.deepEqual(Buffer.from(preimage.slice(at, at + bytes.length)), bytes, member);
  }
  assert.equal(Buffer.from(digest).toString('hex'), createHash('sha256').update(preimage).digest('hex'));
});

test('solana: every byte that is changed is noticed', () => {
  const { prepared } = fixtures().solana;
  const bytes = Buffer.from(prepared.signed_messages[0].message_prehash.slice(2), 'hex');
  // The reserve deadline and the refund's time are the gateway's to choose, downwards; the refund comes after the delivery.
  const isChosen = (at) => at >= bytes.length - 8 || (at >= bytes.length - 24 && at < bytes.length - 16);
  const isInOrder = (other) => other.readBigUInt64LE(bytes.length - 8) > other.readBigUInt64LE(bytes.length - 16);
  for (let at = 0; at < bytes.length; at += 1) {
    const changed = fixtures().solana;
    const other = Buffer.from(bytes);
    other[at] ^= 0x80;
    const [message] = changed.prepared.signed_messages;
    message.message_prehash = `0x${other.toString('hex')}`;
    message.message = `0x${createHash('sha256').update(other).digest('hex')}`;
    const isLater = other[at] > bytes[at];
    if (isChosen(at) && !isLater && isInOrder(other)) rebuildDeposit(spend(changed), changed.prepared);
    else refused(() => rebuildDeposit(spend(changed), changed.prepared), undefined);
  }
});

test('solana: a signature for another cluster or another version is refused, and so is another delegate', () => {
  for (const edit of [
    ({ defaults }) => (defaults.source.signature_cluster_id = OTHER.solana),
    ({ defaults }) => (defaults.source.signature_domain_version = 2),
    ({ prepared }) => (prepared.signed_messages[0].payload.allowance_delegate = OTHER.solana),
  ]) {
    const changed = fixtures().solana;
    edit(changed);
    assert.throws(() => rebuildDeposit(spend(changed), changed.prepared), VerificationError);
  }
  const { prepared, defaults, request } = fixtures().solana;
  const [delegate] = PublicKey.findProgramAddressSync(
    [Buffer.from('delegate'), new PublicKey(request.source.account).toBuffer()],
    new PublicKey(defaults.source.escrow_contract_address),
  );
  assert.equal(prepared.signed_messages[0].payload.allowance_delegate, delegate.toBase58());
});

test('tron: transactions are to the byte those that tronweb makes of their JSON', () => {
  const fixture = fixtures().tron;
  const transactions = rebuildTransactions(spend(fixture), fixture.prepared);
  assert.deepEqual(
    transactions.map(({ txID }) => `0x${txID}`),
    fixture.prepared.signed_messages.map(({ message }) => message),
  );
  for (const transaction of transactions) {
    assert.equal(utils.transaction.txCheck(transaction), true);
    assert.equal(utils.transaction.txCheck({ ...transaction, raw_data: { ...transaction.raw_data, fee_limit: 1 } }), false);
  }
});

test('tron: every byte that is changed is noticed', () => {
  const bytes = fixtures().tron.prepared.signed_messages.map(({ message_prehash: text }) => Buffer.from(text.slice(2), 'hex'));
  for (const [index, original] of bytes.entries()) {
    const accepted = [];
    for (let at = 0; at < original.length; at += 1) {
      const changed = fixtures().tron;
      const other = Buffer.from(original);
      other[at] ^= 0x01;
      const message = changed.prepared.signed_messages[index];
      message.message_prehash = `0x${other.toString('hex')}`;
      message.message = `0x${createHash('sha256').update(other).digest('hex')}`;
      try {
        rebuildTransactions(spend(changed), changed.prepared);
        accepted.push(at);
      } catch (error) {
        assert.ok(error instanceof VerificationError, `${index}, ${at}: ${error}`);
      }
    }
    // Reference block (2 and 8 bytes), expiration, timestamp and fee limit are the gateway's to choose within bounds; of the deposit
    // nothing else, as the reserver's signature covers its windows.
    assert.ok(accepted.length <= 2 + 8 + 6 + 6 + 4, `${index}: ${accepted}`);
    assert.ok(
      accepted.every((at) => at < 21 || at >= original.length - 13),
      `${index}: ${accepted} of ${original.length}`,
    );
  }
});

test('tron: a transaction may not burn more than allowed, nor outlive the deposit', () => {
  const fixture = fixtures().tron;
  refused(() => rebuildTransactions(spend(fixture, { feeMax: 1000n }), fixture.prepared), 'fee_limit');
  refused(() => rebuildTransactions(spend(fixture), fixture.prepared, fixture.now - 48 * 3600 * 1000), 'expiration');
});

test('money cannot be refunded while its delivery is still due, on chains of any family', () => {
  const words = {
    solana: (time) => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64LE(BigInt(time));
      return bytes.toString('hex');
    },
    tron: (time) => BigInt(time).toString(16).padStart(64, '0'),
  };
  const rebuilds = { evm: rebuildPermit, solana: rebuildDeposit, tron: rebuildTransactions };
  const prepared = (family, seconds) => {
    const fixture = fixtures()[family];
    const { fulfillmentDeadline: fulfilled, refundDelaySeconds: delay } = spend(fixture);
    if (family === 'evm') {
      retype(fixture, ({ message }) => (message.witness.refundAfter = String(fulfilled + seconds)));
      return fixture;
    }
    const word = words[family];
    const message = fixture.prepared.signed_messages.at(-1);
    const text = message.message_prehash.replace(word(fulfilled + delay), word(fulfilled + seconds));
    assert.notEqual(text, message.message_prehash);
    const digest = createHash('sha256').update(Buffer.from(text.slice(2), 'hex')).digest('hex');
    Object.assign(message, { message_prehash: text, message: `0x${digest}` });
    return fixture;
  };
  for (const family of FAMILIES) {
    const rebuild = (seconds) => () => {
      const fixture = prepared(family, seconds);
      return rebuilds[family](spend(fixture), fixture.prepared, fixture.now);
    };
    for (const seconds of [0, -1, -100]) refused(rebuild(seconds), 'refundAfter');
    // On Tron the reserver has signed the windows, too.
    if (family === 'tron') refused(rebuild(1), 'reserverSignature');
    else rebuild(1)();
  }
});

test('a wallet signs for its own account alone', async () => {
  const all = fixtures();
  const wallets = {
    evm: await evmWallet({ account: privateKeyToAccount(`0x${'7'.repeat(64)}`), rpc: 'http://127.0.0.1:1' }),
    solana: solanaWallet({ signer: { address: OTHER.solana, signMessage: assert.fail }, rpc: 'http://127.0.0.1:1' }),
    tron: tronWallet({ signer: { address: OTHER.tron, sign: assert.fail }, node: 'http://127.0.0.1:1' }),
  };
  for (const family of FAMILIES) {
    await assert.rejects(
      wallets[family].sign(spend(all[family]), all[family].prepared),
      (error) => error instanceof VerificationError && error.field === 'payer',
    );
  }
});
