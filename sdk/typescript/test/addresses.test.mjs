// Deposit addresses: what a gateway gives is taken where it is the address of the payer's own order, and whatever is changed in it is
// noticed. viem, tronweb and @solana/web3.js compute the same on their own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PublicKey } from '@solana/web3.js';
import { TronWeb } from 'tronweb';
import { decodeFunctionData, encodeAbiParameters, getAddress, getContractAddress, keccak256, stringToHex, zeroAddress } from 'viem';
import { Gateway, newCallerSecret, paymentId, quoteRequestId, StaleAddress, termsHash, termsOf, UsageError, VerificationError } from 'gateway-client';
import * as evm from 'gateway-client/evm';
import * as tron from 'gateway-client/tron';
import { artifact, checked, each, EVM, fixture, order, other, paymentOf, refused, SOLANA, spendFor, TERMS, toTron, TRON, ZERO_HASH } from './addressed.mjs';
import { prepared as fixtures, QUICK, serve } from './support.mjs';

/** The deterministic deployer, which is on every EVM chain. */
const DEPLOYER = '0x4e59b44847b379578588920ca78fbf26c0b4956c';
const HASH = keccak256(stringToHex('another'));

test('the contract that makes addresses is where its code leads, and its first creation is what they run', () => {
  const { bytecode } = artifact('DepositAddresses');
  const from = getContractAddress({ opcode: 'CREATE2', from: DEPLOYER, salt: ZERO_HASH, bytecode });
  assert.equal(from.toLowerCase(), evm.DEPOSIT_ADDRESSES);
  assert.equal(getContractAddress({ from, nonce: 1n }).toLowerCase(), evm.ADDRESS_IMPLEMENTATION);
});

test('on Tron the contract has the code of what its addresses run, and its place decides where they are', () => {
  const [{ bytecode }, { bytecode: made }] = ['DepositAddress', 'TronDepositAddresses'].map(artifact);
  assert.ok(made.includes(bytecode.slice(2)));
  const { given } = fixture(TRON);
  const { terms } = checked(TRON);
  const factories = ['d', '1', '9'].map((digit) => toTron(`0x${digit.repeat(40)}`));
  const addresses = factories.map((factory) => tron.addressOf({ ...terms, factory }));
  assert.deepEqual(addresses, factories.map((factory) => TRON.computed(given, factory)));
  assert.equal(new Set(addresses).size, factories.length);
  assert.throws(() => tron.addressOf({ ...terms, factory: evm.DEPOSIT_ADDRESSES }), UsageError);
});

each("the address of the payer's own order is taken", (family) => {
  const made = fixture(family);
  const { given, payment, now: nowMs } = made;
  const spend = spendFor(made);
  assert.equal(spend.paymentId, payment);
  const address = family.checkAddress(spend, paymentOf(made), { nowMs });
  assert.deepEqual(
    [address.address, address.amount, address.payBy.toISOString(), address.refundAccount, address.uri, address.terms.factory],
    [family.computed(given), 25_500_000n, given.pay_by, made.request.source.account, given.uri, family.factory],
  );
  assert.equal(family.addressOf(address.terms), address.address);
});

test('on EVM chains it is taken however it is written', () => {
  const made = fixture(EVM);
  const { now: nowMs } = made;
  const upper = fixture(EVM, (one) => {
    one.factory = getAddress(one.factory);
    one.terms.escrow = getAddress(one.terms.escrow);
    one.terms.deposit.payer = getAddress(one.terms.deposit.payer);
  });
  const spend = spendFor(made);
  assert.deepEqual(evm.checkAddress(spend, paymentOf(upper), { nowMs }), evm.checkAddress(spend, paymentOf(made), { nowMs }));
});

each('an address is in Base58, in which another case is another digit', (family) => {
  const { address, uri, token } = checked(family);
  const { asset_identifier: asset } = fixtures()[family.fixture].request.source;
  assert.equal(token, asset.split(':').at(-1));
  if (family === TRON) {
    assert.ok(TronWeb.isAddress(address));
    assert.equal(uri, `tron:${address}`);
  } else {
    assert.equal(PublicKey.isOnCurve(address), false);
    assert.equal(uri, `solana:${address}?spl-token=${token}`);
  }
  /** The case of the last letter changes. */
  const otherCase = (letter) => (letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase());
  const changed = (text) => text.replace(/[a-z](?=[^a-z]*$)/i, otherCase);
  for (const member of [
    'address',
    'uri',
    'factory',
    'asset_identifier',
    'refund_account',
    'terms.escrow',
    'terms.token',
    'terms.deposit.payer',
    'terms.deposit.reserver',
    'terms.deposit.releaser',
  ]) {
    for (const depositAddressFactory of [undefined, family.factory]) {
      const made = fixture(family);
      const path = member.split('.');
      const last = path.pop();
      const within = path.reduce((one, name) => one[name], made.given);
      assert.notEqual(changed(within[last]), within[last]);
      within[last] = changed(within[last]);
      const spend = spendFor(made, { trust: { depositAddressFactory } });
      refused(() => family.checkAddress(spend, paymentOf(made), { nowMs: made.now }), member);
    }
  }
}, [TRON, SOLANA]);

each('every member that is changed is noticed, also where the address follows it', (family) => {
  const OTHER = other(family);
  const later = (name, seconds) => (given) => (given.terms.deposit[name] += seconds);
  const set = (name, value) => (given) => (given.terms.deposit[name] = value);
  const pinned = { trust: { depositAddressFactory: family.factory } };
  for (const [field, edit] of [
    ['factory', (given) => (given.factory = OTHER)],
    ['factory', (given) => Object.assign(given, { factory: OTHER, address: family.computed(given, OTHER) })],
    ['chain_id', (given) => (given.chain_id = `${family.namespace}:1`)],
    ['asset_identifier', (given) => (given.asset_identifier = given.asset_identifier.replace(/[^:]*$/, OTHER))],
    ['amount', (given) => (given.amount = '25500001')],
    ['refund_account', (given) => (given.refund_account = OTHER)],
    ['terms.escrow', (given) => (given.terms.escrow = OTHER)],
    ['terms.token', (given) => (given.terms.token = OTHER)],
    ['terms.amount', (given) => (given.terms.amount = '25499999')],
    ['terms.deposit.payment_id', set('payment_id', HASH)],
    ['terms.deposit.terms_hash', set('terms_hash', HASH)],
    ['terms.deposit.quote_hash', set('quote_hash', HASH)],
    ['terms.deposit.payer', set('payer', OTHER)],
    ['terms.deposit.reserver', set('reserver', OTHER)],
    ['terms.deposit.releaser', set('releaser', OTHER)],
    ['terms.deposit.fulfillment_deadline', later('fulfillment_deadline', 1)],
    ['reserveDeadline', later('reserve_deadline', 61)],
    ['refundAfter', later('refund_after', 1)],
    ['refundAfter', later('refund_after', -30)],
    ['pay_by', later('reserve_deadline', -61)],
    ['pay_by', (given) => (given.pay_by = 'soon')],
    ['terms.deposit.reserve_deadline', set('reserve_deadline', '7')],
    ['address', (given) => (given.address = OTHER)],
    ...(family === SOLANA ? [] : [['address', (given) => (given.address = family.computed(given, family.factory, family.account(OTHER)))]]),
    ['address', (given) => (given.address = family.computed(given, OTHER))],
    ['uri', (given) => (given.uri = family.link(given, OTHER))],
    ['uri', (given) => (given.uri = `ethereum:${given.terms.token}@1/transfer?address=${family.computed(given)}&uint256=25500000`)],
    ['uri', (given) => (given.uri = `tron:${family.computed(given)}?amount=1`)],
    ['uri', (given) => (given.uri = `solana:${family.computed(given)}?spl-token=${OTHER}`)],
    ['uri', (given) => (given.uri = `solana:${family.computed(given)}?amount=25.5&spl-token=${given.terms.token}`)],
  ]) {
    refused(() => checked(family, edit, pinned), field);
  }
  const spend = spendFor(fixture(family));
  const given = (deposit_address) => ({ payment_id: spend.paymentId, status: 'pending', deposit_address });
  refused(() => family.checkAddress(spend, given({})), 'factory');
  refused(() => family.checkAddress(spend, given(undefined)), 'deposit_address');
  refused(() => family.checkAddress(spend, { ...paymentOf(fixture(family)), payment_id: paymentId('eip155:0x1', 'another') }), 'payment_id');
});

test('a factory that nobody pins is the one that the gateway names on Tron alone, and has to be an account', () => {
  const OTHER = other(TRON);
  const named = (given) => Object.assign(given, { factory: OTHER, address: TRON.computed(given, OTHER) });
  assert.equal(checked(TRON, named).terms.factory, OTHER);
  refused(() => checked(TRON, named, { trust: { depositAddressFactory: TRON.factory } }), 'factory');
  refused(() => checked(TRON, (given) => Object.assign(given, { factory: evm.DEPOSIT_ADDRESSES, address: OTHER })), 'factory');
  assert.throws(() => checked(TRON, undefined, { trust: { depositAddressFactory: evm.DEPOSIT_ADDRESSES } }), UsageError);
  // On EVM chains it follows from its code, and on Solana it is the escrow's program, whatever is pinned.
  for (const depositAddressFactory of [other(EVM), TRON.factory, other(SOLANA)]) {
    const { terms } = checked(SOLANA, undefined, { trust: { depositAddressFactory } });
    assert.deepEqual([terms.factory, terms.escrow], [SOLANA.factory, SOLANA.factory]);
    assert.equal(checked(EVM, undefined, { trust: { depositAddressFactory } }).terms.factory, evm.DEPOSIT_ADDRESSES);
  }
  // An order on chains of another family has no address of this one.
  const families = [EVM, TRON, SOLANA];
  for (const [at, family] of families.entries()) {
    const made = fixture(family);
    const foreign = families[(at + 1) % families.length];
    assert.throws(() => foreign.checkAddress(spendFor(made), paymentOf(made), { nowMs: made.now }), UsageError);
  }
});

const stale = (field, found) => (error) =>
  error instanceof StaleAddress && error instanceof VerificationError && error.field === field && error.found === found;

each('an address of before is refused, whatever it is for', (family) => {
  const made = fixture(family);
  const spend = spendFor(made);
  const end = Date.parse(made.given.pay_by);
  const pay_by = new Date(end).toISOString().replace('.000', '');
  for (const status of ['finalizing', 'completed', 'failed', 'another']) {
    assert.throws(() => family.checkAddress(spend, paymentOf(made, status), { nowMs: made.now }), stale('status', status));
  }
  const at = (nowMs, payBy) => () => family.checkAddress(spend, paymentOf(made), { nowMs, ...(payBy ? { payBy } : {}) });
  assert.equal(at(end - 5000)().payBy.getTime(), end);
  assert.throws(at(end - 4999), stale('pay_by', pay_by));
  assert.throws(at(end + 1), stale('pay_by', pay_by));
  // Requests have whole seconds.
  assert.equal(at(made.now, new Date(end + 999))().payBy.getTime(), end);
  for (const payBy of [end - 1000, end + 1000]) {
    assert.throws(at(made.now, new Date(payBy)), (error) => stale('pay_by', pay_by)(error) && error.paymentId === made.payment);
  }
  // What is not the order's is not called stale.
  made.given.address = other(family);
  refused(() => family.checkAddress(spend, paymentOf(made, 'failed'), { nowMs: made.now }), 'address');
});

each('accounts and windows are held against what the payer knows and allows', (family) => {
  const made = fixture(family);
  const { escrow, reserver, releaser } = spendFor(made);
  spendFor(made, { trust: { escrow, reserver, releaser } });
  for (const field of ['escrow', 'reserver', 'releaser']) refused(() => spendFor(made, { trust: { [field]: other(family) } }), field);
  refused(() => spendFor(made, { trust: { lockSecondsMax: 100 } }), 'lock');
  // A gateway that names another escrow in its defaults, too, is believed where nobody pins one.
  const named = checked(family, (given, { defaults }) => {
    given.terms.escrow = defaults.source.escrow_contract_address = other(family);
    if (family === SOLANA) given.factory = other(family);
  });
  assert.equal(named.terms.escrow, other(family));
});

each('the batch has to be of the request', (family) => {
  refused(() => spendFor(fixture(family, (_, { batch }) => (batch.fulfillment_amount = '1'))), 'quote-request');
  const another = quoteRequestId('eip155:0x1', 'another');
  refused(() => spendFor(fixture(family, (_, { batch }) => (batch.quote_request_id = another))), 'quote_request_id');
  const made = fixture(family);
  refused(() => spendFor(made, { callerSecret: 'correct-horse-battery' }), 'quote_request_id');
  const { source, request_id } = made.request;
  made.batch.quote_request_id = quoteRequestId(`${family.namespace}:${source.account}`, request_id, 'correct-horse-battery');
  assert.notEqual(spendFor(made, { callerSecret: 'correct-horse-battery' }).paymentId, made.payment);
});

test('on Solana an amount is one that the program can count', () => {
  const most = (1n << 64n) - 1n;
  const asks = (amount, address) =>
    checked(SOLANA, (given, { request, batch }) => {
      for (const one of [request, batch]) one.max_source_amount = String(amount);
      given.amount = given.terms.amount = String(amount);
      given.terms.deposit.terms_hash = termsHash(termsOf(request));
      if (address) given.address = address;
    });
  assert.equal(asks(most).amount, most);
  refused(() => asks(most + 1n, other(SOLANA)), 'amount');
});

test('the amount is the cap, or said where there is none', () => {
  const made = fixture(EVM);
  assert.throws(() => spendFor(made, { amount: 7n }), UsageError);
  delete made.request.max_source_amount;
  delete made.batch.max_source_amount;
  assert.throws(() => spendFor(made), UsageError);
  assert.equal(spendFor(made, { amount: 7n }).cap, 7n);
});

each('the call that gives back is the one that the contract takes, of the factory of the address', (family) => {
  const factory = family === TRON ? other(TRON) : family.factory;
  const { terms } = checked(family, (given) => Object.assign(given, { factory, address: family.computed(given, factory) }));
  for (const token of [terms.token, family.text(zeroAddress)]) {
    const { to, data } = family.giveBackCall(terms, token);
    assert.equal(to, factory);
    const { functionName, args } = decodeFunctionData({ abi: family.abi, data });
    assert.deepEqual([functionName, family.text(args[1])], ['giveBack', token]);
    assert.equal(keccak256(encodeAbiParameters(TERMS, [args[0]])), keccak256(`0x${data.slice(10, -64)}`));
    assert.deepEqual([args[0].amount, args[0].deposit.termsHash], [terms.amount, terms.deposit.termsHash]);
    const { escrow, token: sent, deposit } = args[0];
    const accounts = [escrow, sent, deposit.payer, deposit.reserver, deposit.releaser].map(family.text);
    assert.deepEqual(accounts, [terms.escrow, terms.token, terms.deposit.payer, terms.deposit.reserver, terms.deposit.releaser]);
  }
  assert.equal(family.giveBackCall(terms).data, family.giveBackCall(terms, terms.token).data);
  assert.throws(() => family.giveBackCall(terms, '0x'), UsageError);
}, [EVM, TRON]);

test('TRX are given back by the address of twenty zeros', () => {
  assert.equal(toTron(zeroAddress), 'T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb');
});

/** A gateway that gives addresses; `edit` changes what it says of them. */
async function gateway(t, family, edit = () => {}) {
  const { defaults } = fixtures()[family.fixture];
  const asked = {};
  const originator = () => `${family.namespace}:${asked.request.source.account}`;
  const { url } = await serve(t, ({ method, url: path, headers, text }) => {
    if (method === 'GET') return { body: defaults.source };
    const body = JSON.parse(text);
    if (!path.endsWith('/address')) {
      asked.request = body;
      asked.secret = headers['caller-secret'];
      const quote_request_id = quoteRequestId(originator(), body.request_id, asked.secret);
      return { body: { ...body, quote_request_id, status: 'collecting' } };
    }
    if (headers['caller-secret'] !== asked.secret) return { status: 401, body: { code: 'INVALID_PROOF', message: 'Caller-Secret: …' } };
    asked.address = { path, body };
    const seconds = Date.parse(asked.request.fulfillment_deadline) / 1000;
    const payment_id = paymentId(originator(), path.split('/')[4]);
    const { given } = fixture(family, (one) => {
      one.terms.deposit.payment_id = keccak256(stringToHex(payment_id));
      Object.assign(one.terms.deposit, { reserve_deadline: seconds - 60, fulfillment_deadline: seconds, refund_after: seconds + 30 });
      one.pay_by = body.pay_by ?? new Date((seconds - 120) * 1000).toISOString();
    });
    const answer = { payment_id, status: 'pending', idempotent_replay: false, deposit_address: given };
    edit(answer);
    return { body: answer };
  });
  return { gateway: new Gateway(url, QUICK), asked };
}

each('an address is opened by the order, the batch and the comparison', async (family, t) => {
  const { gateway: client, asked } = await gateway(t, family);
  const payBy = new Date(Math.floor(Date.now() / 1000 + 600) * 1000);
  const opened = await family.openAddress(client, order(family), { payBy });
  const { request_id: requestId, source } = asked.request;
  const id = quoteRequestId(`${family.namespace}:${source.account}`, requestId);
  assert.deepEqual(asked.address.path, `/v1/payments/quote-requests/${id}/address`);
  assert.equal(new Date(asked.address.body.pay_by).getTime(), payBy.getTime());
  assert.deepEqual([opened.quoteRequestId, opened.requestId, opened.address.payBy], [id, requestId, payBy]);
  assert.equal(opened.address.address, family.addressOf(opened.address.terms));
  // An exchange takes its time.
  assert.ok(Date.parse(asked.request.fulfillment_deadline) - Date.now() > 3_500_000);
});

each('it is told which accounts the gateway alone names', async (family, t) => {
  const { gateway: client } = await gateway(t, family);
  const { source } = fixtures()[family.fixture].defaults;
  const names = ({ believed }) => believed.map((one) => one.split('=')[0]).join();
  const onTron = family === TRON ? ',depositAddressFactory' : '';
  const opened = await family.openAddress(client, order(family));
  assert.equal(names(opened), `escrow,reserver,releaser${onTron}`);
  assert.equal(opened.believed.at(-1), onTron ? `depositAddressFactory=${TRON.factory}` : `releaser=${source.releaser}`);
  const pins = { escrow: source.escrow_contract_address, reserver: source.reserver, releaser: source.releaser };
  assert.equal(names(await family.openAddress(client, order(family), { trust: pins })), onTron.slice(1));
  const trust = { ...pins, depositAddressFactory: family.factory };
  assert.deepEqual((await family.openAddress(client, order(family), { trust })).believed, []);
});

test('a factory that is not the one pinned has no address opened on Tron', async (t) => {
  const { gateway: client } = await gateway(t, TRON);
  const opening = tron.openAddress(client, order(TRON), { trust: { depositAddressFactory: other(TRON) } });
  const isFactory = ({ field, expected, found }) => field === 'factory' && expected === other(TRON) && found === TRON.factory;
  await assert.rejects(opening, (error) => error instanceof VerificationError && isFactory(error));
});

test('a secret goes along with both calls, and is made by nobody but the caller', async (t) => {
  const { gateway: client, asked } = await gateway(t, EVM);
  const callerSecret = newCallerSecret();
  assert.match(callerSecret, /^[\w-]{32}$/);
  assert.notEqual(callerSecret, newCallerSecret());
  const opened = await evm.openAddress(client, order(EVM), { callerSecret });
  assert.deepEqual([asked.secret, opened.callerSecret], [callerSecret, callerSecret]);
  assert.equal(opened.quoteRequestId, quoteRequestId(`eip155:${asked.request.source.account}`, 'fixture-evm', callerSecret));
  // A retry with both finds the same.
  const again = await evm.openAddress(client, order(EVM), { callerSecret });
  assert.equal(again.paymentId, opened.paymentId);
  const without = { name: 'GatewayError', code: 'INVALID_PROOF', status: 401 };
  await assert.rejects(client.depositAddress(opened.quoteRequestId), without);
  await client.depositAddress(opened.quoteRequestId, {}, { callerSecret });
  // The id depends on it, so that one which the caller does not know would be lost in a crash.
  const plain = await evm.openAddress(client, order(EVM));
  assert.deepEqual([asked.secret, 'callerSecret' in plain], [undefined, false]);
  assert.notEqual(plain.paymentId, opened.paymentId);
});

each('what was asked for before is not paid again, nor up to the time of somebody else', async (family, t) => {
  const seconds = (more) => new Date(Math.floor(Date.now() / 1000 + more) * 1000);
  for (const [field, edit, payBy] of [
    ['status', (answer) => (answer.status = 'failed')],
    ['status', (answer) => (answer.status = 'completed')],
    ['pay_by', (answer) => (answer.deposit_address.pay_by = seconds(2).toISOString())],
    ['pay_by', (answer) => (answer.deposit_address.pay_by = seconds(-60).toISOString())],
    ['pay_by', (answer) => (answer.deposit_address.pay_by = seconds(900).toISOString()), seconds(600)],
  ]) {
    const { gateway: client } = await gateway(t, family, edit);
    const opening = family.openAddress(client, order(family), payBy ? { payBy } : {});
    await assert.rejects(opening, (error) => error instanceof StaleAddress && error.field === field && error.paymentId.startsWith('pay_'));
  }
});

each('an address is not given to the caller that is not for the order', async (family, t) => {
  for (const [field, edit] of [
    ['address', (answer) => (answer.deposit_address.address = other(family))],
    ['payment_id', (answer) => (answer.payment_id = paymentId('eip155:0x1', 'another'))],
    ['deposit_address', (answer) => delete answer.deposit_address],
  ]) {
    const { gateway: client } = await gateway(t, family, edit);
    await assert.rejects(family.openAddress(client, order(family)), (error) => error instanceof VerificationError && error.field === field, field);
  }
  const { gateway: client, asked } = await gateway(t, family);
  const { asset } = order(family).source;
  const accountOn = (id) => other(id.startsWith('solana') ? SOLANA : id.startsWith('tron') ? TRON : EVM);
  const coins = ['eip155:1/slip44:60', 'tron:1/slip44:195', 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1/slip44:501'];
  const mixed = [`tron:1/erc20:${other(EVM)}`, `eip155:1/trc20:${other(TRON)}`, `solana:1/erc20:${other(SOLANA)}`, `tron:1/token:${other(TRON)}`];
  const foreign = [EVM, TRON, SOLANA].filter((one) => one !== family).map((one) => order(one).source.asset);
  const unfit = [...coins, ...mixed, ...foreign];
  for (const source of [{ asset }, ...unfit.map((one) => ({ asset: one, account: accountOn(one) }))]) {
    await assert.rejects(family.openAddress(client, order(family, { source })), UsageError);
  }
  assert.deepEqual(asked, {});
});
