// Deposit addresses: what a gateway gives is taken where it is the address of the payer's own order, and whatever is changed in it is
// noticed. viem and tronweb compute the same on their own, from the contracts' artefacts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TronWeb } from 'tronweb';
import { concat, decodeFunctionData, encodeAbiParameters, getAddress, getContractAddress, keccak256, stringToHex, zeroAddress } from 'viem';
import { addressSpend, Gateway, newCallerSecret, orderOf, paymentId, quoteRequestId, StaleAddress, termsHash, termsOf, UsageError, VerificationError } from 'gateway-client';
import * as evm from 'gateway-client/evm';
import * as tron from 'gateway-client/tron';
import { prepared as fixtures, QUICK, repository, serve } from './support.mjs';

const artifact = (name) => repository(`contracts/artifacts/${name}.json`);
/** The deterministic deployer, which is on every EVM chain. */
const DEPLOYER = '0x4e59b44847b379578588920ca78fbf26c0b4956c';
const ZERO_HASH = `0x${'0'.repeat(64)}`;
const HASH = keccak256(stringToHex('another'));
const TERMS = artifact('DepositAddresses').abi.find(({ name }) => name === 'addressOf').inputs;

const toTron = (account) => TronWeb.address.fromHex(`41${account.slice(2)}`);
const fromTron = (account) => `0x${TronWeb.address.toHex(account).slice(2)}`;
/** Where CREATE2 of Tron puts what `from` makes. */
const tronCreate2 = (from, salt, code) => toTron(`0x${keccak256(concat(['0x41', fromTron(from), salt, keccak256(code)])).slice(-40)}`);

/** The families of chains that have addresses; `account` is one in the terms' words, `create` is CREATE2, `runs` what addresses run. */
const EVM = {
  ...evm,
  name: 'EVM',
  fixture: 'evm',
  namespace: 'eip155',
  abi: artifact('DepositAddresses').abi,
  factory: evm.DEPOSIT_ADDRESSES,
  account: (text) => text,
  text: (account) => account.toLowerCase(),
  runs: () => evm.ADDRESS_IMPLEMENTATION,
  create: (from, salt, bytecode) => getContractAddress({ opcode: 'CREATE2', from, salt, bytecode }).toLowerCase(),
  link: ({ terms, chain_id, amount }, address) =>
    `ethereum:${terms.token}@${chain_id.split(':')[1]}/transfer?address=${address}&uint256=${amount}`,
};
const TRON = {
  ...tron,
  name: 'Tron',
  fixture: 'tron',
  namespace: 'tron',
  abi: artifact('TronDepositAddresses').abi,
  factory: toTron(`0x${'d'.repeat(40)}`),
  account: fromTron,
  text: toTron,
  runs: (factory) => fromTron(tronCreate2(factory, ZERO_HASH, artifact('DepositAddress').bytecode)),
  create: tronCreate2,
  link: (_, address) => `tron:${address}`,
};
const other = ({ text }) => text('0x00000000000000000000000000000000000000aa');
/** A test of each family. */
const each = (name, run) => [EVM, TRON].forEach((family) => test(`${family.name}: ${name}`, (t) => run(family, t)));

/** The address of the terms that a gateway shows, by the letter of EIP-1014 and ERC-1167. */
function computed(family, { terms: { deposit, ...terms } }, from = family.factory, runs = family.runs(from)) {
  const camel = (name) => name.replace(/_(.)/g, (_, char) => char.toUpperCase());
  const word = (value) => (/^(?:T|0x.{40}$)/.test(value) ? family.account(value) : value);
  const words = (members) => Object.fromEntries(Object.entries(members).map(([name, value]) => [camel(name), word(value)]));
  const salt = keccak256(encodeAbiParameters(TERMS, [{ ...words(terms), deposit: words(deposit) }]));
  const code = concat(['0x3d602d80600a3d3981f3363d3d373d3d3d363d73', runs, '0x5af43d82803e903d91602b57fd5bf3']);
  return family.create(from, salt, code);
}

/** Request, batch, defaults, and what a gateway answers; `edit` changes the answer, whose address and link follow unless it says not. */
function fixture(family, edit = () => {}) {
  const { request, defaults, now } = fixtures()[family.fixture];
  const { source, destination, fulfillment_amount, max_source_amount, quote_deadline, fulfillment_deadline } = request;
  const id = quoteRequestId(`${family.namespace}:${source.account}`, request.request_id);
  const terms = { source, destination, fulfillment_amount, max_source_amount };
  const batch = { quote_request_id: id, status: 'collecting', ...terms, quote_deadline, fulfillment_deadline };
  const fulfilled = Date.parse(fulfillment_deadline) / 1000;
  const [chain_id, asset] = source.asset_identifier.split('/');
  const payment = paymentId(`${family.namespace}:${source.account}`, id);
  const given = {
    chain_id,
    asset_identifier: source.asset_identifier,
    amount: max_source_amount,
    pay_by: new Date((fulfilled - 120) * 1000).toISOString(),
    refund_account: source.account,
    factory: family.factory,
    terms: {
      escrow: defaults.source.escrow_contract_address,
      token: asset.split(':')[1],
      amount: max_source_amount,
      deposit: {
        payment_id: keccak256(stringToHex(payment)),
        terms_hash: termsHash(termsOf(request)),
        quote_hash: ZERO_HASH,
        payer: source.account,
        reserver: defaults.source.reserver,
        releaser: defaults.source.releaser,
        reserve_deadline: fulfilled - 60,
        fulfillment_deadline: fulfilled,
        refund_after: fulfilled + defaults.refundDelaySeconds,
      },
    },
  };
  edit(given, { request, batch, defaults });
  given.address ??= computed(family, given);
  given.uri ??= family.link(given, given.address);
  return { request, batch, defaults, now, payment, given };
}

const spendFor = ({ request, batch, defaults, now }, options) => addressSpend(request, batch, defaults, options, now);
const paymentOf = ({ payment, given }, status = 'pending') => ({ payment_id: payment, status, deposit_address: given });
const checked = (family, edit, options) => {
  const made = fixture(family, edit);
  return family.checkAddress(spendFor(made, options), paymentOf(made), { nowMs: made.now });
};
const refused = (call, field) =>
  assert.throws(call, (error) => error instanceof VerificationError && error.field === field, `${field}`);

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
  assert.deepEqual(addresses, factories.map((factory) => computed(TRON, given, factory)));
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
    [computed(family, given), 25_500_000n, given.pay_by, made.request.source.account, given.uri, family.factory],
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

test('on Tron an address is in Base58, in which another case is another digit', () => {
  const { address, uri, token, chainId } = checked(TRON);
  assert.ok(TronWeb.isAddress(address));
  const { asset_identifier: asset } = fixtures().tron.request.source;
  assert.deepEqual([uri, `${chainId}/trc20:${token}`], [`tron:${address}`, asset]);
  /** The case of the last letter changes. */
  const other = (letter) => (letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase());
  const changed = (text) => text.replace(/[a-z](?=[^a-z]*$)/i, other);
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
    for (const depositAddressFactory of [undefined, TRON.factory]) {
      const made = fixture(TRON);
      const path = member.split('.');
      const last = path.pop();
      const within = path.reduce((one, name) => one[name], made.given);
      assert.notEqual(changed(within[last]), within[last]);
      within[last] = changed(within[last]);
      const spend = spendFor(made, { trust: { depositAddressFactory } });
      refused(() => tron.checkAddress(spend, paymentOf(made), { nowMs: made.now }), member);
    }
  }
});

each('every member that is changed is noticed, also where the address follows it', (family) => {
  const OTHER = other(family);
  const later = (name, seconds) => (given) => (given.terms.deposit[name] += seconds);
  const set = (name, value) => (given) => (given.terms.deposit[name] = value);
  const pinned = { trust: { depositAddressFactory: family.factory } };
  for (const [field, edit] of [
    ['factory', (given) => (given.factory = OTHER)],
    ['factory', (given) => Object.assign(given, { factory: OTHER, address: computed(family, given, OTHER) })],
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
    ['address', (given) => (given.address = computed(family, given, family.factory, family.account(OTHER)))],
    ['address', (given) => (given.address = computed(family, given, OTHER))],
    ['uri', (given) => (given.uri = family.link(given, OTHER))],
    ['uri', (given) => (given.uri = `ethereum:${given.terms.token}@1/transfer?address=${computed(family, given)}&uint256=25500000`)],
    ['uri', (given) => (given.uri = `tron:${computed(family, given)}?amount=1`)],
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
  const named = (given) => Object.assign(given, { factory: OTHER, address: computed(TRON, given, OTHER) });
  assert.equal(checked(TRON, named).terms.factory, OTHER);
  refused(() => checked(TRON, named, { trust: { depositAddressFactory: TRON.factory } }), 'factory');
  refused(() => checked(TRON, (given) => Object.assign(given, { factory: evm.DEPOSIT_ADDRESSES, address: OTHER })), 'factory');
  assert.throws(() => checked(TRON, undefined, { trust: { depositAddressFactory: evm.DEPOSIT_ADDRESSES } }), UsageError);
  // On EVM chains it follows from its code, whatever is pinned.
  for (const depositAddressFactory of [other(EVM), TRON.factory]) {
    assert.equal(checked(EVM, undefined, { trust: { depositAddressFactory } }).terms.factory, evm.DEPOSIT_ADDRESSES);
  }
  // An order on chains of another family has no address of this one.
  const made = fixture(TRON);
  assert.throws(() => evm.checkAddress(spendFor(made), paymentOf(made), { nowMs: made.now }), UsageError);
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
  checked(family, (given, { defaults }) => (given.terms.escrow = defaults.source.escrow_contract_address = other(family)));
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
  const { terms } = checked(family, (given) => Object.assign(given, { factory, address: computed(family, given, factory) }));
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
});

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

const order = (family, more = {}) => {
  const { quoteDeadline: _, fulfillmentDeadline: __, ...rest } = orderOf(fixtures()[family.fixture].request);
  return { ...rest, ...more };
};

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
  const accountOn = (id) => (id.startsWith('solana') ? id.split(':').at(-1) : other(id.startsWith('tron') ? TRON : EVM));
  const onSolana = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1/token:4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU';
  const mixed = [`tron:1/erc20:${other(EVM)}`, `eip155:1/trc20:${other(TRON)}`];
  const unfit = ['eip155:1/slip44:60', 'tron:1/slip44:195', onSolana, ...mixed];
  const foreign = order(family === EVM ? TRON : EVM).source.asset;
  for (const source of [{ asset }, ...[...unfit, foreign].map((one) => ({ asset: one, account: accountOn(one) }))]) {
    await assert.rejects(family.openAddress(client, order(family, { source })), UsageError);
  }
  assert.deepEqual(asked, {});
});
