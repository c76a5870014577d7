// What a payer on Tron signs for Permit2 (TIP-712). What a gateway asks for is made by viem here, out of hexadecimal, and by tronweb, out
// of Base58; whatever is changed in it is noticed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { utils } from 'tronweb';
import { hashTypedData, keccak256 } from 'viem';
import { addressSpend, paymentId, quoteRequestId, spendOf, UsageError } from 'gateway-client';
import { rebuildMessages, rebuildPermit, rebuildTransactions } from 'gateway-client/tron';
import { inHex, PERMIT2, SCHEME } from './permits.mjs';
import { prepared as fixtures } from './support.mjs';
import { asked, fixtureOn, HASH, MAINNET, NILE, OTHER, PAYER, refused, spendFor, toHex, viemDigest } from './tron.mjs';

function tronwebDigest({ domain, types: { EIP712Domain: _, ...types }, message }) {
  return utils._TypedDataEncoder.hash(domain, types, message);
}

test('what the gateway prepared is rebuilt, and hashes to what viem and tronweb say', () => {
  const fixture = fixtureOn();
  const spend = spendFor(fixture);
  const prepared = asked(fixture);
  assert.equal(spend.permit2, PERMIT2);
  assert.equal(spend.paymentId, prepared.payment_id);
  const { typedData, digest, payload } = rebuildPermit(spend, prepared);
  const [signed] = prepared.signed_messages;
  assert.deepEqual([digest, payload], [signed.message, signed.payload]);
  const { types, ...told } = typedData;
  const { types: asTold, ...said } = JSON.parse(signed.message_prehash);
  assert.deepEqual(told, said);
  assert.deepEqual(types, asTold);
  assert.deepEqual([viemDigest(typedData), tronwebDigest(typedData)], [digest, digest]);
  assert.deepEqual(rebuildMessages(spend, prepared), [{ typedData, digest, payload }]);
  // The gateway takes hexadecimal, too, and may write it; what is signed is written as the chain does.
  const other = asked(fixture, (data) => Object.assign(data, { domain: inHex(data.domain, toHex), message: inHex(data.message, toHex) }));
  assert.equal(other.signed_messages[0].message, digest);
  assert.deepEqual(rebuildPermit(spend, other).typedData, typedData);
});

test('every field that is changed is noticed, and named', () => {
  const fixture = fixtureOn();
  const spend = spendFor(fixture);
  const hidden = toHex(OTHER);
  const later = (of, name, seconds = 1) => (of[name] = String(Number(of[name]) + seconds));
  for (const [edit, said] of [
    [({ domain }) => (domain.chainId = 3448148188), /domain.chainId is 3448148188/],
    [({ domain }) => (domain.verifyingContract = OTHER), /domain.verifyingContract is TJEh/],
    [({ domain }) => (domain.verifyingContract = hidden), /domain.verifyingContract is 0x/],
    [({ domain }) => (domain.name = 'Other'), /domain.name is Other/],
    [({ message }) => (message.permitted.token = OTHER), /permitted.token is TJEh/],
    [({ message }) => (message.permitted.amount = '25500001'), /permitted.amount is 25500001/],
    [({ message }) => (message.spender = OTHER), /spender is TJEh/],
    [({ message }) => (message.spender = hidden), /spender is 0x/],
    [({ message }) => (message.nonce = '7'), /nonce is 7/],
    ...['paymentId', 'termsHash', 'quoteHash'].map((name) => [
      ({ message }) => (message.witness[name] = HASH),
      new RegExp(`witness.${name} is`),
    ]),
    ...['payer', 'reserver', 'releaser'].flatMap((name) =>
      [OTHER, hidden].map((account) => [({ message }) => (message.witness[name] = account), new RegExp(`witness.${name} is ${account}`)]),
    ),
    [({ message }) => later(message.witness, 'fulfillmentDeadline'), /witness.fulfillmentDeadline is/],
    [({ message }) => later(message.witness, 'fulfillmentDeadline', -1), /witness.fulfillmentDeadline is/],
  ]) {
    refused(() => rebuildPermit(spend, asked(fixture, edit)), 'message', said);
  }
  for (const [field, edit] of [
    ['deadline', ({ message }) => later(message, 'deadline')],
    ['deadline', ({ message }) => later(message, 'deadline', -1)],
    ['reserveDeadline', ({ message }) => later(message.witness, 'reserveDeadline')],
    ['refundAfter', ({ message }) => later(message.witness, 'refundAfter')],
    ['refundAfter', ({ message: { witness } }) => (witness.refundAfter = witness.fulfillmentDeadline)],
    ['refundAfter', ({ message: { witness } }) => later(witness, 'refundAfter', -fixture.defaults.refundDelaySeconds - 1)],
  ]) {
    refused(() => rebuildPermit(spend, asked(fixture, edit)), field);
  }
  // Earlier windows are the gateway's to choose.
  const earlier = asked(fixture, ({ message: { witness } }) => {
    later(witness, 'reserveDeadline', -5);
    later(witness, 'refundAfter', -5);
  });
  assert.equal(rebuildPermit(spend, earlier).digest, earlier.signed_messages[0].message);
});

test('types are those of the escrow, without a member more or less', () => {
  const fixture = fixtureOn();
  const spend = spendFor(fixture);
  for (const edit of [
    ({ types, message }) => {
      types.GatewayDeposit.push({ name: 'extra', type: 'address' });
      message.witness.extra = OTHER;
    },
    ({ types, message }) => {
      types.TokenPermissions.push({ name: 'extra', type: 'uint256' });
      message.permitted.extra = '1';
    },
    ({ types }) => types.GatewayDeposit.pop(),
    ({ types }) => types.EIP712Domain.pop(),
    ({ types }) => (types.GatewayDeposit[0].type = 'uint256'),
    ({ types }) => types.GatewayDeposit.reverse(),
    (data) => (data.primaryType = 'GatewayDeposit'),
  ]) {
    const digest = (data) => {
      const domain = inHex(data.domain, toHex);
      const message = inHex(data.primaryType === 'GatewayDeposit' ? data.message.witness : data.message, toHex);
      return hashTypedData({ ...data, domain, message });
    };
    refused(() => rebuildPermit(spend, asked(fixture, edit, digest)), 'message');
  }
  // Whatever else the text says: what is signed and handed in is what was rebuilt.
  const told = asked(fixture);
  const honest = rebuildPermit(spend, told);
  const data = JSON.parse(told.signed_messages[0].message_prehash);
  data.types.GatewayDeposit.push({ name: 'extra', type: 'address' });
  told.signed_messages[0].message_prehash = JSON.stringify(data);
  assert.deepEqual(rebuildPermit(spend, told), honest);
});

test('what is not one message of this scheme is refused, and so is another verifier', () => {
  const fixture = fixtureOn();
  const spend = spendFor(fixture);
  const change = (edit) => () => {
    const prepared = asked(fixture);
    edit(prepared, prepared.signed_messages);
    return rebuildPermit(spend, prepared);
  };
  refused(change((prepared) => (prepared.message_scheme = 'EVM_PERMIT2_ESCROW')), 'message_scheme');
  refused(change((_, messages) => messages.push(messages[0])), 'message_scheme');
  refused(change((_, messages) => messages.pop()), 'message_scheme');
  refused(change((prepared) => (prepared.fulfillment_verifier = { account: OTHER, endpoint: '' })), 'fulfillment_verifier');
  refused(change((_, [message]) => (message.message = HASH)), 'message');
  refused(change((_, [message]) => (message.message_prehash = '{}')), 'deadline');
  refused(change((_, [message]) => (message.message_prehash = '0x')), 'deadline');
  // Neither way is taken for the other one.
  refused(() => rebuildMessages(spend, { ...asked(fixture), message_scheme: 'TRON' }), 'message_prehash');
  refused(() => rebuildTransactions(spend, asked(fixture)), 'signed_messages');
  refused(() => rebuildMessages(spend, { ...asked(fixture), message_scheme: 'SOLANA' }), 'signed_messages');
  refused(() => rebuildMessages(spend, { ...fixtures().tron.prepared, message_scheme: SCHEME }), 'message_scheme');
});

test('Permit2 is never where only a gateway says', () => {
  // On the main network it is known, whatever the gateway names.
  for (const named of [PERMIT2, OTHER, undefined]) assert.equal(spendFor(fixtureOn(MAINNET, named)).permit2, PERMIT2);
  const lie = fixtureOn(MAINNET, OTHER);
  refused(() => rebuildPermit(spendFor(lie), asked(lie)), 'message', /verifyingContract/);
  // On another network the payer names it, in its own form.
  const elsewhere = fixtureOn(NILE, OTHER);
  assert.equal(spendFor(elsewhere).permit2, undefined);
  refused(() => rebuildPermit(spendFor(elsewhere), asked(elsewhere)), 'permit2', /trust\.permit2/);
  const spend = spendFor(elsewhere, { permit2: OTHER });
  assert.equal(rebuildPermit(spend, asked(elsewhere)).typedData.domain.verifyingContract, OTHER);
  refused(() => rebuildPermit(spendFor(elsewhere, { permit2: PERMIT2 }), asked(elsewhere)), 'message', /verifyingContract/);
  for (const wrong of [OTHER.toLowerCase(), OTHER.slice(0, -1), ''])
    assert.throws(() => spendFor(elsewhere, { permit2: wrong }), UsageError, wrong);
  // A pin for EVM chains says nothing here.
  assert.equal(spendFor(elsewhere, { permit2: toHex(OTHER) }).permit2, undefined);
  assert.equal(spendFor(fixtureOn(), { permit2: toHex(OTHER) }).permit2, PERMIT2);
});

test('who pays by transactions, or by an address, pays whatever Permit2 the gateway names', () => {
  for (const named of [OTHER, PERMIT2, toHex(OTHER), 'nothing', undefined]) {
    const { request, defaults, now, prepared } = fixtures().tron;
    defaults.source.permit2 = named;
    assert.equal(rebuildTransactions(spendOf(request, defaults, {}, now), prepared, now).length, 2);
    const { source, destination, fulfillment_amount, max_source_amount, quote_deadline, fulfillment_deadline } = request;
    const id = quoteRequestId(`tron:${source.account}`, request.request_id);
    const terms = { source, destination, fulfillment_amount, max_source_amount, quote_deadline, fulfillment_deadline };
    for (const permit2 of [undefined, OTHER, toHex(OTHER), 'nothing']) {
      const spend = addressSpend(request, { quote_request_id: id, ...terms }, defaults, { trust: { permit2 } }, now);
      assert.equal(spend.paymentId, paymentId(`tron:${source.account}`, id));
    }
  }
});

test('an award is for the quote that was chosen, and what is permitted is said where no cap was asked for', () => {
  const fixture = fixtureOn();
  const spend = { ...spendFor(fixture), quoteHash: HASH };
  const forQuote = (hash) => asked(fixture, ({ message }) => (message.witness.quoteHash = hash));
  rebuildPermit(spend, forQuote(HASH));
  refused(() => rebuildPermit(spend, forQuote(keccak256(HASH))), 'message', /witness.quoteHash/);
  refused(() => rebuildPermit(spend, asked(fixture)), 'message', /witness.quoteHash/);
  const { max_source_amount: cap, ...open } = fixture.request;
  const uncapped = { ...fixture, request: open };
  const { max_source_amount: _, ...terms } = spendFor(fixture).terms;
  const asAward = asked(uncapped, ({ message }) => (message.permitted.amount = cap));
  const { payload } = rebuildPermit({ ...spendFor(fixture), terms }, asAward);
  assert.equal(payload.permitted_amount, cap);
});
