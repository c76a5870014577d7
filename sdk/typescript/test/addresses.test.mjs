// Deposit addresses: what a gateway gives is taken where it is the address of the payer's own order, and whatever is changed in it is
// noticed. viem computes the same on its own, from the contract's artefact.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { concat, decodeFunctionData, encodeAbiParameters, getAddress, getContractAddress, keccak256, stringToHex, zeroAddress } from 'viem';
import { addressSpend, Gateway, newCallerSecret, orderOf, paymentId, quoteRequestId, StaleAddress, termsHash, termsOf, UsageError, VerificationError } from 'gateway-client';
import { ADDRESS_IMPLEMENTATION, addressOf, checkAddress, DEPOSIT_ADDRESSES, giveBackCall, openAddress } from 'gateway-client/evm';
import { prepared as fixtures, QUICK, repository, serve } from './support.mjs';

const { abi: ABI, bytecode } = repository('contracts/artifacts/DepositAddresses.json');
/** The deterministic deployer, which is on every chain. */
const DEPLOYER = '0x4e59b44847b379578588920ca78fbf26c0b4956c';
const OTHER = '0x00000000000000000000000000000000000000aa';
const HASH = keccak256(stringToHex('another'));
const TERMS = ABI.find(({ name }) => name === 'addressOf').inputs;

/** The address of the terms that a gateway shows, by the letter of EIP-1014 and ERC-1167. */
function computed({ terms: { deposit, ...terms } }, from = DEPOSIT_ADDRESSES, runs = ADDRESS_IMPLEMENTATION) {
  const camel = (name) => name.replace(/_(.)/g, (_, char) => char.toUpperCase());
  const members = Object.fromEntries(Object.entries(deposit).map(([name, value]) => [camel(name), value]));
  const salt = keccak256(encodeAbiParameters(TERMS, [{ ...terms, deposit: members }]));
  const code = concat(['0x3d602d80600a3d3981f3363d3d373d3d3d363d73', runs, '0x5af43d82803e903d91602b57fd5bf3']);
  return getContractAddress({ opcode: 'CREATE2', from, salt, bytecode: code }).toLowerCase();
}

/** Request, batch, defaults, and what a gateway answers; `edit` changes the answer, whose address and link follow unless it says not. */
function fixture(edit = () => {}) {
  const { request, defaults, now } = fixtures().evm;
  const { source, destination, fulfillment_amount, max_source_amount, quote_deadline, fulfillment_deadline } = request;
  const id = quoteRequestId(`eip155:${source.account}`, request.request_id);
  const terms = { source, destination, fulfillment_amount, max_source_amount };
  const batch = { quote_request_id: id, status: 'collecting', ...terms, quote_deadline, fulfillment_deadline };
  const fulfilled = Date.parse(fulfillment_deadline) / 1000;
  const token = source.asset_identifier.split('/erc20:')[1];
  const payment = paymentId(`eip155:${source.account}`, id);
  const given = {
    chain_id: 'eip155:31337',
    asset_identifier: source.asset_identifier,
    amount: max_source_amount,
    pay_by: new Date((fulfilled - 120) * 1000).toISOString(),
    refund_account: source.account,
    factory: DEPOSIT_ADDRESSES,
    terms: {
      escrow: defaults.source.escrow_contract_address,
      token,
      amount: max_source_amount,
      deposit: {
        payment_id: keccak256(stringToHex(payment)),
        terms_hash: termsHash(termsOf(request)),
        quote_hash: `0x${'0'.repeat(64)}`,
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
  given.address ??= computed(given);
  given.uri ??= `ethereum:${token}@31337/transfer?address=${given.address}&uint256=${given.amount}`;
  return { request, batch, defaults, now, payment, given };
}

const spendFor = ({ request, batch, defaults, now }, options) => addressSpend(request, batch, defaults, options, now);
const paymentOf = ({ payment, given }, status = 'pending') => ({ payment_id: payment, status, deposit_address: given });
const checked = (edit) => {
  const made = fixture(edit);
  return checkAddress(spendFor(made), paymentOf(made), { nowMs: made.now });
};
const refused = (call, field) =>
  assert.throws(call, (error) => error instanceof VerificationError && error.field === field, `${field}`);

test('the contract that makes addresses is where its code leads, and its first creation is what they run', () => {
  const from = getContractAddress({ opcode: 'CREATE2', from: DEPLOYER, salt: `0x${'0'.repeat(64)}`, bytecode });
  assert.equal(from.toLowerCase(), DEPOSIT_ADDRESSES);
  assert.equal(getContractAddress({ from, nonce: 1n }).toLowerCase(), ADDRESS_IMPLEMENTATION);
});

test("the address of the payer's own order is taken, however it is written", () => {
  const made = fixture();
  const { given, payment, now: nowMs } = made;
  const spend = spendFor(made);
  assert.equal(spend.paymentId, payment);
  const address = checkAddress(spend, paymentOf(made), { nowMs });
  assert.deepEqual(
    [address.address, address.amount, address.payBy.toISOString(), address.refundAccount, address.uri],
    [computed(given), 25_500_000n, given.pay_by, made.request.source.account, given.uri],
  );
  assert.equal(addressOf(address.terms), address.address);
  const upper = fixture((one) => {
    one.factory = getAddress(one.factory);
    one.terms.escrow = getAddress(one.terms.escrow);
    one.terms.deposit.payer = getAddress(one.terms.deposit.payer);
  });
  assert.deepEqual(checkAddress(spend, paymentOf(upper), { nowMs }), address);
});

test('every member that is changed is noticed, also where the address follows it', () => {
  const later = (name, seconds) => (given) => (given.terms.deposit[name] += seconds);
  const set = (name, value) => (given) => (given.terms.deposit[name] = value);
  for (const [field, edit] of [
    ['factory', (given) => (given.factory = OTHER)],
    ['factory', (given) => Object.assign(given, { factory: OTHER, address: computed(given, OTHER) })],
    ['chain_id', (given) => (given.chain_id = 'eip155:1')],
    ['asset_identifier', (given) => (given.asset_identifier = `eip155:31337/erc20:${OTHER}`)],
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
    ['terms.deposit.reserve_deadline', (given) => Object.assign(given, { address: computed(given) }, set('reserve_deadline', '7')(given))],
    ['address', (given) => (given.address = OTHER)],
    ['address', (given) => (given.address = computed(given, DEPOSIT_ADDRESSES, OTHER))],
    ['address', (given) => (given.address = computed(given, OTHER))],
    ['uri', (given) => (given.uri = `ethereum:${given.terms.token}@31337/transfer?address=${OTHER}&uint256=25500000`)],
    ['uri', (given) => (given.uri = `ethereum:${given.terms.token}@1/transfer?address=${computed(given)}&uint256=25500000`)],
  ]) {
    refused(() => checked(edit), field);
  }
  const spend = spendFor(fixture());
  const given = (deposit_address) => ({ payment_id: spend.paymentId, status: 'pending', deposit_address });
  refused(() => checkAddress(spend, given({})), 'factory');
  refused(() => checkAddress(spend, given(undefined)), 'deposit_address');
  refused(() => checkAddress(spend, { ...paymentOf(fixture()), payment_id: paymentId('eip155:0x1', 'another') }), 'payment_id');
});

const stale = (field, found) => (error) =>
  error instanceof StaleAddress && error instanceof VerificationError && error.field === field && error.found === found;

test('an address of before is refused, whatever it is for', () => {
  const made = fixture();
  const spend = spendFor(made);
  const end = Date.parse(made.given.pay_by);
  const pay_by = new Date(end).toISOString().replace('.000', '');
  for (const status of ['finalizing', 'completed', 'failed', 'another']) {
    assert.throws(() => checkAddress(spend, paymentOf(made, status), { nowMs: made.now }), stale('status', status));
  }
  const at = (nowMs, payBy) => () => checkAddress(spend, paymentOf(made), { nowMs, ...(payBy ? { payBy } : {}) });
  assert.equal(at(end - 5000)().payBy.getTime(), end);
  assert.throws(at(end - 4999), stale('pay_by', pay_by));
  assert.throws(at(end + 1), stale('pay_by', pay_by));
  // Requests have whole seconds.
  assert.equal(at(made.now, new Date(end + 999))().payBy.getTime(), end);
  for (const other of [end - 1000, end + 1000]) {
    assert.throws(at(made.now, new Date(other)), (error) => stale('pay_by', pay_by)(error) && error.paymentId === made.payment);
  }
  // What is not the order's is not called stale.
  made.given.address = OTHER;
  refused(() => checkAddress(spend, paymentOf(made, 'failed'), { nowMs: made.now }), 'address');
});

test('accounts and windows are held against what the payer knows and allows', () => {
  const made = fixture();
  const { escrow, reserver, releaser } = spendFor(made);
  spendFor(made, { trust: { escrow, reserver, releaser } });
  for (const field of ['escrow', 'reserver', 'releaser']) refused(() => spendFor(made, { trust: { [field]: OTHER } }), field);
  refused(() => spendFor(made, { trust: { lockSecondsMax: 100 } }), 'lock');
  // A gateway that names another escrow in its defaults, too, is believed where nobody pins one.
  checked((given, { defaults }) => (given.terms.escrow = defaults.source.escrow_contract_address = OTHER));
});

test('the batch has to be of the request', () => {
  refused(() => spendFor(fixture((_, { batch }) => (batch.fulfillment_amount = '1'))), 'quote-request');
  const another = quoteRequestId('eip155:0x1', 'another');
  refused(() => spendFor(fixture((_, { batch }) => (batch.quote_request_id = another))), 'quote_request_id');
  const made = fixture();
  refused(() => spendFor(made, { callerSecret: 'correct-horse-battery' }), 'quote_request_id');
  made.batch.quote_request_id = quoteRequestId(`eip155:${made.request.source.account}`, made.request.request_id, 'correct-horse-battery');
  assert.notEqual(spendFor(made, { callerSecret: 'correct-horse-battery' }).paymentId, made.payment);
});

test('the amount is the cap, or said where there is none', () => {
  const made = fixture();
  assert.throws(() => spendFor(made, { amount: 7n }), UsageError);
  delete made.request.max_source_amount;
  delete made.batch.max_source_amount;
  assert.throws(() => spendFor(made), UsageError);
  assert.equal(spendFor(made, { amount: 7n }).cap, 7n);
});

test('the call that gives back is the one that the contract takes', () => {
  const { terms } = checked();
  for (const token of [terms.token, zeroAddress]) {
    const { to, data } = giveBackCall(terms, token);
    assert.equal(to, DEPOSIT_ADDRESSES);
    const { functionName, args } = decodeFunctionData({ abi: ABI, data });
    assert.deepEqual([functionName, args[1].toLowerCase()], ['giveBack', token]);
    assert.equal(keccak256(encodeAbiParameters(TERMS, [args[0]])), keccak256(`0x${data.slice(10, -64)}`));
    assert.deepEqual([args[0].amount, args[0].deposit.termsHash], [terms.amount, terms.deposit.termsHash]);
  }
  assert.equal(giveBackCall(terms).data, giveBackCall(terms, terms.token).data);
  assert.throws(() => giveBackCall(terms, '0x'), UsageError);
});

/** A gateway that gives addresses; `edit` changes what it says of them. */
async function gateway(t, edit = () => {}) {
  const { defaults } = fixtures().evm;
  const asked = {};
  const { url } = await serve(t, ({ method, url: path, headers, text }) => {
    if (method === 'GET') return { body: defaults.source };
    const body = JSON.parse(text);
    if (!path.endsWith('/address')) {
      asked.request = body;
      asked.secret = headers['caller-secret'];
      const { source, request_id: id } = body;
      const quote_request_id = quoteRequestId(`eip155:${source.account}`, id, asked.secret);
      return { body: { ...body, quote_request_id, status: 'collecting' } };
    }
    if (headers['caller-secret'] !== asked.secret) return { status: 401, body: { code: 'INVALID_PROOF', message: 'Caller-Secret: …' } };
    asked.address = { path, body };
    const made = fixture();
    const seconds = Date.parse(asked.request.fulfillment_deadline) / 1000;
    const { deposit } = made.given.terms;
    deposit.payment_id = keccak256(stringToHex(paymentId(`eip155:${asked.request.source.account}`, path.split('/')[4])));
    Object.assign(deposit, { reserve_deadline: seconds - 60, fulfillment_deadline: seconds, refund_after: seconds + 30 });
    const { terms } = made.given;
    const pay_by = body.pay_by ?? new Date((seconds - 120) * 1000).toISOString();
    const address = computed(made.given);
    const uri = `ethereum:${terms.token}@31337/transfer?address=${address}&uint256=25500000`;
    const deposit_address = { ...made.given, pay_by, address, uri };
    const payment_id = paymentId(`eip155:${asked.request.source.account}`, path.split('/')[4]);
    const answer = { payment_id, status: 'pending', idempotent_replay: false, deposit_address };
    edit(answer);
    return { body: answer };
  });
  return { gateway: new Gateway(url, QUICK), asked };
}

const order = (more = {}) => {
  const { quoteDeadline: _, fulfillmentDeadline: __, ...rest } = orderOf(fixtures().evm.request);
  return { ...rest, ...more };
};

test('an address is opened by the order, the batch and the comparison', async (t) => {
  const { gateway: client, asked } = await gateway(t);
  const payBy = new Date(Math.floor(Date.now() / 1000 + 600) * 1000);
  const opened = await openAddress(client, order(), { payBy });
  const id = quoteRequestId(`eip155:${asked.request.source.account}`, 'fixture-evm');
  assert.deepEqual(asked.address.path, `/v1/payments/quote-requests/${id}/address`);
  assert.equal(new Date(asked.address.body.pay_by).getTime(), payBy.getTime());
  assert.deepEqual([opened.quoteRequestId, opened.requestId, opened.address.payBy], [id, 'fixture-evm', payBy]);
  assert.equal(opened.address.address, addressOf(opened.address.terms));
  assert.equal(opened.believed.length, 3);
  // An exchange takes its time.
  assert.ok(Date.parse(asked.request.fulfillment_deadline) - Date.now() > 3_500_000);
});

test('a secret goes along with both calls, and is made by nobody but the caller', async (t) => {
  const { gateway: client, asked } = await gateway(t);
  const callerSecret = newCallerSecret();
  assert.match(callerSecret, /^[\w-]{32}$/);
  assert.notEqual(callerSecret, newCallerSecret());
  const opened = await openAddress(client, order(), { callerSecret });
  assert.deepEqual([asked.secret, opened.callerSecret], [callerSecret, callerSecret]);
  assert.equal(opened.quoteRequestId, quoteRequestId(`eip155:${asked.request.source.account}`, 'fixture-evm', callerSecret));
  // A retry with both finds the same.
  const again = await openAddress(client, order(), { callerSecret });
  assert.equal(again.paymentId, opened.paymentId);
  const without = { name: 'GatewayError', code: 'INVALID_PROOF', status: 401 };
  await assert.rejects(client.depositAddress(opened.quoteRequestId), without);
  await client.depositAddress(opened.quoteRequestId, {}, { callerSecret });
  // The id depends on it, so that one which the caller does not know would be lost in a crash.
  const plain = await openAddress(client, order());
  assert.deepEqual([asked.secret, 'callerSecret' in plain], [undefined, false]);
  assert.notEqual(plain.paymentId, opened.paymentId);
});

test('what was asked for before is not paid again, nor up to the time of somebody else', async (t) => {
  const seconds = (more) => new Date(Math.floor(Date.now() / 1000 + more) * 1000);
  for (const [field, edit, payBy] of [
    ['status', (answer) => (answer.status = 'failed')],
    ['status', (answer) => (answer.status = 'completed')],
    ['pay_by', (answer) => (answer.deposit_address.pay_by = seconds(2).toISOString())],
    ['pay_by', (answer) => (answer.deposit_address.pay_by = seconds(-60).toISOString())],
    ['pay_by', (answer) => (answer.deposit_address.pay_by = seconds(900).toISOString()), seconds(600)],
  ]) {
    const { gateway: client } = await gateway(t, edit);
    const opening = openAddress(client, order(), payBy ? { payBy } : {});
    await assert.rejects(opening, (error) => error instanceof StaleAddress && error.field === field && error.paymentId.startsWith('pay_'));
  }
});

test('an address is not given to the caller that is not for the order', async (t) => {
  for (const [field, edit] of [
    ['address', (answer) => (answer.deposit_address.address = OTHER)],
    ['payment_id', (answer) => (answer.payment_id = paymentId('eip155:0x1', 'another'))],
    ['deposit_address', (answer) => delete answer.deposit_address],
  ]) {
    const { gateway: client } = await gateway(t, edit);
    await assert.rejects(openAddress(client, order()), (error) => error instanceof VerificationError && error.field === field, field);
  }
  const { gateway: client, asked } = await gateway(t);
  const { asset } = order().source;
  await assert.rejects(openAddress(client, order({ source: { asset } })), UsageError);
  await assert.rejects(openAddress(client, order({ source: { asset: 'eip155:1/slip44:60', account: OTHER } })), UsageError);
  assert.deepEqual(asked, {});
});
