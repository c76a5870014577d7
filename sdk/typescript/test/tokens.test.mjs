// What is signed for a token itself: its transfer into the escrow (ERC-3009), and its allowance for Permit2 (ERC-2612). What a gateway
// asks for is made by viem here, from the recorded requests, and whatever is changed in it is noticed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeAbiParameters, getAddress, hashTypedData, keccak256, maxUint256, recoverTypedDataAddress, stringToHex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { awardSpend, spendOf, VerificationError } from 'gateway-client';
import { evmWallet, rebuildMessages, rebuildPermit } from 'gateway-client/evm';
import { prepared as fixtures } from './support.mjs';

const OTHER = '0x00000000000000000000000000000000000000aa';
const DOMAIN = { name: 'Dev Stablecoin', version: '1' };
const DEPOSIT = [
  ['paymentId', 'bytes32'],
  ['termsHash', 'bytes32'],
  ['quoteHash', 'bytes32'],
  ['payer', 'address'],
  ['reserver', 'address'],
  ['releaser', 'address'],
  ['reserveDeadline', 'uint48'],
  ['fulfillmentDeadline', 'uint48'],
  ['refundAfter', 'uint48'],
];
const typed = (members) => members.map(([name, type]) => ({ name, type }));
const TOKEN_DOMAIN = typed([
  ['name', 'string'],
  ['version', 'string'],
  ['chainId', 'uint256'],
  ['verifyingContract', 'address'],
]);
const RECEIVE = typed([
  ['from', 'address'],
  ['to', 'address'],
  ['value', 'uint256'],
  ['validAfter', 'uint256'],
  ['validBefore', 'uint256'],
  ['nonce', 'bytes32'],
]);
const PERMIT = typed([
  ['owner', 'address'],
  ['spender', 'address'],
  ['value', 'uint256'],
  ['nonce', 'uint256'],
  ['deadline', 'uint256'],
]);

/** EIP-712's hash of a deposit, by the letter of the standard. */
function hashOf(deposit) {
  const type = `GatewayDeposit(${DEPOSIT.map(([name, kind]) => `${kind} ${name}`).join(',')})`;
  const types = ['bytes32', ...DEPOSIT.map(([, kind]) => kind)].map((kind) => ({ type: kind }));
  return keccak256(encodeAbiParameters(types, [keccak256(stringToHex(type)), ...DEPOSIT.map(([name]) => deposit[name])]));
}

const spendFor = ({ request, defaults, now }, trust = {}) => spendOf(request, defaults, trust, now);
const awarded = ({ batch, defaults, now }, options = {}) =>
  awardSpend(batch, batch.quotes[0], 'fixture-award', defaults, { maxSource: 25_500_000n, ...options }, now);

/** The witness that the gateway recorded for a fixture, as it shows a deposit. */
const recorded = ({ prepared }) => JSON.parse(prepared.signed_messages[0].message_prehash).message.witness;

/** The gateway's answer in which a token's transfer is to be signed. `edit` changes it; digest and nonce follow. */
function authorization(fixture, spend, edit = () => {}) {
  const deposit = recorded(fixture);
  const { account, asset_identifier: asset } = spend.terms.source;
  const message = {
    from: getAddress(account),
    to: getAddress(spend.escrow),
    value: spend.cap.toString(),
    validAfter: '0',
    validBefore: String(Number(deposit.reserveDeadline) + 1),
    nonce: undefined,
  };
  const domain = { ...DOMAIN, chainId: 31337, verifyingContract: getAddress(asset.split('/erc20:')[1]) };
  const data = { types: { EIP712Domain: TOKEN_DOMAIN, ReceiveWithAuthorization: RECEIVE }, primaryType: 'ReceiveWithAuthorization', domain, message };
  edit(data, deposit);
  message.nonce ??= hashOf(deposit);
  const payload = { reserve_deadline: Number(deposit.reserveDeadline), refund_after: Number(deposit.refundAfter), valid_before: Number(message.validBefore), deposit };
  const signed = { message: hashTypedData(data), message_prehash: JSON.stringify(data), payload };
  return { ...fixture.prepared, message_scheme: 'EVM_EIP3009', signed_messages: [signed] };
}

/** The gateway's answer in which the allowance for Permit2 stands in front. */
function withAllowance(fixture, spend, edit = () => {}) {
  const { account, asset_identifier: asset } = spend.terms.source;
  const token = getAddress(asset.split('/erc20:')[1]);
  const deadline = String(spend.fulfillmentDeadline);
  const message = { owner: getAddress(account), spender: getAddress(spend.permit2), value: maxUint256.toString(), nonce: '7', deadline };
  const domain = { ...DOMAIN, chainId: 31337, verifyingContract: token };
  const data = { types: { EIP712Domain: TOKEN_DOMAIN, Permit: PERMIT }, primaryType: 'Permit', domain, message };
  edit(data);
  const payload = { function: 'permit', contract: token, spender: message.spender, amount: message.value, nonce: message.nonce, deadline };
  const signed = { message: hashTypedData(data), message_prehash: JSON.stringify(data), payload };
  return { ...fixture.prepared, signed_messages: [signed, ...fixture.prepared.signed_messages] };
}

const refused = (call, field) =>
  assert.throws(call, (error) => error instanceof VerificationError && error.field === field, `${field}`);

test('a transfer that is signed for the token is rebuilt, its nonce the hash of the deposit', () => {
  const fixture = fixtures().evm;
  const spend = spendFor(fixture);
  const [{ typedData, digest, payload }, ...others] = rebuildMessages(spend, authorization(fixture, spend));
  assert.equal(others.length, 0);
  assert.equal(digest, hashTypedData(typedData));
  assert.equal(typedData.message.nonce, hashOf(recorded(fixture)));
  const { token, escrow } = { token: spend.terms.source.asset_identifier.split('/erc20:')[1], escrow: spend.escrow };
  assert.deepEqual(typedData.domain, { ...DOMAIN, chainId: 31337, verifyingContract: token });
  const { reserveDeadline, refundAfter } = recorded(fixture);
  assert.deepEqual(
    [typedData.message.from, typedData.message.to, typedData.message.value, typedData.message.validAfter],
    [spend.terms.source.account, escrow, '25500000', '0'],
  );
  const { deposit, ...numbers } = payload;
  assert.deepEqual(numbers, {
    reserve_deadline: Number(reserveDeadline),
    refund_after: Number(refundAfter),
    valid_before: Number(reserveDeadline) + 1,
  });
  assert.equal(hashOf(deposit), typedData.message.nonce);
});

test('a transfer that is changed in anything is refused, and what differs is named', () => {
  const fixture = fixtures().evm;
  const spend = spendFor(fixture);
  const hash = keccak256(stringToHex('another'));
  const later = (times, member, by = 1) => (times[member] = String(Number(times[member]) + by));
  for (const [field, edit] of [
    ['from', ({ message }) => (message.from = OTHER)],
    ['to', ({ message }) => (message.to = OTHER)],
    ['value', ({ message }) => (message.value = '25500001')],
    ['value', ({ message }) => (message.value = '25499999')],
    ['value', ({ message }) => (message.value = '0x10')],
    ['validAfter', ({ message }) => (message.validAfter = '1')],
    ['validBefore', ({ message }) => later(message, 'validBefore')],
    ['validBefore', ({ message }) => later(message, 'validBefore', -1)],
    ['nonce', ({ message }) => (message.nonce = hash)],
    ['domain.chainId', ({ domain }) => (domain.chainId = 1)],
    ['domain.verifyingContract', ({ domain }) => (domain.verifyingContract = OTHER)],
    ['deposit.paymentId', (_, deposit) => (deposit.paymentId = hash)],
    ['deposit.termsHash', (_, deposit) => (deposit.termsHash = hash)],
    ['deposit.quoteHash', (_, deposit) => (deposit.quoteHash = hash)],
    ['deposit.payer', (_, deposit) => (deposit.payer = OTHER)],
    ['deposit.reserver', (_, deposit) => (deposit.reserver = OTHER)],
    ['deposit.releaser', (_, deposit) => (deposit.releaser = OTHER)],
    ['reserveDeadline', (_, deposit) => later(deposit, 'reserveDeadline')],
    ['deposit.fulfillmentDeadline', (_, deposit) => later(deposit, 'fulfillmentDeadline')],
    ['refundAfter', (_, deposit) => later(deposit, 'refundAfter')],
  ]) {
    refused(() => rebuildMessages(spend, authorization(fixture, spend, edit)), field);
  }
  const other = (change) => () => {
    const asked = authorization(fixture, spend);
    change(asked.signed_messages[0], asked);
    rebuildMessages(spend, asked);
  };
  const retold = (change) => (signed) => {
    const data = JSON.parse(signed.message_prehash);
    change(data);
    signed.message_prehash = JSON.stringify(data);
  };
  for (const [field, change] of [
    ['message', (signed) => (signed.message = hash)],
    ['message', retold(({ domain }) => (domain.version = '2'))],
    ['primaryType', retold((data) => (data.primaryType = 'TransferWithAuthorization'))],
    ['domain.name', retold(({ domain }) => delete domain.name)],
    ['domain.version', retold(({ domain }) => (domain.version = 'x'.repeat(257)))],
    ['validBefore', (signed) => (signed.message_prehash = '{}')],
    ['deposit.reserveDeadline', (signed) => delete signed.payload],
    ['deposit.reserveDeadline', (signed) => (signed.payload = { deposit: null })],
    ['message_scheme', (_, asked) => (asked.message_scheme = 'EVM_EIP3008')],
    ['message_scheme', (_, asked) => asked.signed_messages.push(asked.signed_messages[0])],
    ['message_scheme', (_, asked) => (asked.signed_messages = [])],
    ['fulfillment_verifier', (_, asked) => (asked.fulfillment_verifier = { account: OTHER, endpoint: '' })],
  ]) {
    refused(other(change), field);
  }
  // A transfer is not taken for one by Permit2, nor the other way round.
  refused(() => rebuildMessages(spend, { ...authorization(fixture, spend), message_scheme: 'EVM_PERMIT2_ESCROW' }), 'deadline');
  refused(() => rebuildMessages(spend, { ...fixture.prepared, message_scheme: 'EVM_EIP3009' }), 'deposit.reserveDeadline');
  refused(() => rebuildPermit(spend, authorization(fixture, spend)), 'message_scheme');
});

test('earlier windows of a transfer are the gateway’s to choose', () => {
  const fixture = fixtures().evm;
  const spend = spendFor(fixture);
  const asked = authorization(fixture, spend, ({ message }, deposit) => {
    deposit.reserveDeadline = String(Number(deposit.reserveDeadline) - 5);
    deposit.refundAfter = String(Number(deposit.refundAfter) - 5);
    message.validBefore = String(Number(deposit.reserveDeadline) + 3);
  });
  assert.equal(rebuildMessages(spend, asked)[0].digest, asked.signed_messages[0].message);
});

test('for a quote any amount from its price to the cap is signed for, and for that quote alone', () => {
  const { award } = fixtures();
  const spend = awarded(award);
  assert.equal(spend.price, BigInt(award.batch.quotes[0].fulfillment_quote.sourceAmount));
  assert.ok(spend.price < spend.cap);
  const asked = (value) => authorization(award, spend, ({ message }) => (message.value = String(value)));
  for (const value of [spend.price, spend.price + 1n, spend.cap]) {
    const [{ typedData, payload }] = rebuildMessages(spend, asked(value));
    assert.equal(typedData.message.value, String(value));
    assert.equal(payload.permitted_amount, String(value));
    assert.equal(payload.deposit.quoteHash, spend.quoteHash);
  }
  for (const value of [spend.price - 1n, spend.cap + 1n]) refused(() => rebuildMessages(spend, asked(value)), 'value');
  const unbound = authorization(award, spend, (_, deposit) => (deposit.quoteHash = `0x${'0'.repeat(64)}`));
  refused(() => rebuildMessages(spend, unbound), 'deposit.quoteHash');
});

test('an allowance that is signed for the token is Permit2’s, and stands in front of its transfer', () => {
  const fixture = fixtures().evm;
  const spend = spendFor(fixture);
  const asked = withAllowance(fixture, spend);
  const rebuilt = rebuildMessages(spend, asked);
  assert.deepEqual(
    rebuilt.map(({ digest }) => digest),
    asked.signed_messages.map(({ message }) => message),
  );
  const [{ typedData, digest, payload }, transfer] = rebuilt;
  assert.equal(digest, hashTypedData(typedData));
  assert.deepEqual(
    [typedData.message.spender, typedData.message.value, payload.spender, payload.nonce],
    [spend.permit2, maxUint256.toString(), spend.permit2, '7'],
  );
  assert.equal(transfer.typedData.primaryType, 'PermitWitnessTransferFrom');
  assert.deepEqual(rebuildMessages(spend, fixture.prepared), [transfer]);
  for (const [field, edit] of [
    ['owner', ({ message }) => (message.owner = OTHER)],
    ['spender', ({ message }) => (message.spender = OTHER)],
    ['spender', ({ message }) => (message.spender = spend.escrow)],
    ['value', ({ message }) => (message.value = '25500000')],
    ['deadline', ({ message }) => (message.deadline = String(spend.fulfillmentDeadline + 1))],
    ['domain.chainId', ({ domain }) => (domain.chainId = 1)],
    ['domain.verifyingContract', ({ domain }) => (domain.verifyingContract = OTHER)],
    ['domain.verifyingContract', ({ domain }) => (domain.verifyingContract = spend.permit2)],
  ]) {
    refused(() => rebuildMessages(spend, withAllowance(fixture, spend, edit)), field);
  }
  const other = (change) => () => {
    const changed = withAllowance(fixture, spend);
    change(changed.signed_messages, changed);
    rebuildMessages(spend, changed);
  };
  refused(other(([permit]) => (permit.message = keccak256('0x'))), 'message');
  refused(other(([permit]) => (permit.message_prehash = permit.message_prehash.replace('"7"', '"-7"'))), 'nonce');
  refused(other((messages) => messages.reverse()), 'domain.version');
  refused(other((messages) => messages.push(messages[1])), 'message_scheme');
  refused(other((messages) => messages.pop()), 'witness.reserveDeadline');
  refused(other((_, changed) => (changed.message_scheme = 'EVM_PERMIT2')), 'message_scheme');
  refused(other((messages) => (messages[1] = messages[0])), 'witness.reserveDeadline');
  refused(() => rebuildPermit(spend, withAllowance(fixture, spend)), 'message_scheme');
  // Permit2 is the payer's, and not the gateway's.
  const elsewhere = { ...fixture, defaults: { ...fixture.defaults, source: { ...fixture.defaults.source, permit2: OTHER } } };
  refused(() => spendFor(elsewhere), 'permit2');
});

test('all messages are signed in their order, by a key or by a wallet', async () => {
  const account = privateKeyToAccount(`0x${'7'.repeat(64)}`);
  const fixture = fixtures().evm;
  const payer = fixture.request.source.account;
  const spend = spendFor(fixture);
  const asked = [];
  const provider = {
    async request({ method, params }) {
      if (method === 'eth_requestAccounts') return [payer];
      assert.deepEqual([method, params[0]], ['eth_signTypedData_v4', payer]);
      asked.push(JSON.parse(params[1]).primaryType);
      return account.signTypedData(JSON.parse(params[1]));
    },
  };
  const signer = { address: payer, signTypedData: (data) => (asked.push(data.primaryType), account.signTypedData(data)) };
  for (const wallet of [await evmWallet({ provider }), await evmWallet({ account: signer, rpc: 'http://127.0.0.1:1' })]) {
    for (const [prepared, types] of [
      [withAllowance(fixture, spend), ['Permit', 'PermitWitnessTransferFrom']],
      [authorization(fixture, spend), ['ReceiveWithAuthorization']],
    ]) {
      asked.length = 0;
      const signed = await wallet.sign(spend, prepared);
      assert.deepEqual(asked, types);
      assert.deepEqual(
        signed.map(({ message }) => message),
        prepared.signed_messages.map(({ message }) => message),
      );
      for (const [at, { message_prehash, signature, payload }] of signed.entries()) {
        assert.equal(await recoverTypedDataAddress({ ...JSON.parse(message_prehash), signature }), account.address);
        const shown = prepared.signed_messages[at].payload;
        if (types[at] === 'ReceiveWithAuthorization') assert.equal(hashOf(payload.deposit), hashOf(shown.deposit));
        if (types[at] === 'Permit') assert.equal(payload.amount, shown.amount);
      }
    }
    // Where one of them is not the payer's, none is signed.
    asked.length = 0;
    const lie = withAllowance(fixture, spend);
    lie.signed_messages[1] = { ...lie.signed_messages[1], message: keccak256('0x') };
    await assert.rejects(wallet.sign(spend, lie), VerificationError);
    assert.deepEqual(asked, []);
  }
});

test('where no allowance is needed, none is given, and coins are wrapped all the same', async () => {
  const fixture = fixtures().evm;
  const sent = [];
  const word = (value) => `0x${value.toString(16).padStart(64, '0')}`;
  let held = 0n;
  const methods = {
    eth_requestAccounts: () => [fixture.request.source.account],
    eth_chainId: () => '0x7a69',
    eth_call: () => word(held),
    eth_sendTransaction: ([call]) => {
      sent.push(call.data);
      held += BigInt(call.value);
      return word(1n);
    },
    eth_getTransactionReceipt: () => ({ status: '0x1' }),
  };
  const wallet = await evmWallet({ provider: { request: async ({ method, params }) => methods[method](params) } });
  const spend = spendFor(fixture);
  const funding = { wrap: false, allowance: 0n, onStep: async () => {} };
  assert.deepEqual(await wallet.fund(spend, funding), []);
  const wrapped = await wallet.fund(spend, { ...funding, wrap: true });
  assert.deepEqual([wrapped.map(({ what }) => what), sent, held], [['wrap'], ['0xd0e30db0'], spend.cap]);
});
