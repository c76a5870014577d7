// Batches: one signature for many payments. What a gateway prepares is signed where it is the batch of the payer's own orders, and whatever
// is changed in it is noticed. viem computes the same on its own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeFunctionData, encodeAbiParameters, getAddress, getContractAddress, keccak256, recoverTypedDataAddress, stringToHex, zeroAddress } from 'viem';
import { Gateway, GatewayError, NoAnswer, spendOf, UsageError, VerificationError, WalletError } from 'gateway-client';
import * as evm from 'gateway-client/evm';
import { ABI, acceptedFor, account, BYTECODE, DEFAULTS, idOf, membersOf, ordersOf, PAYER, payerOf, preparedFor, rootOf, TOKEN, WRAPPED } from './batched.mjs';
import { QUICK, repository, serve } from './support.mjs';

const DEPLOYER = '0x4e59b44847b379578588920ca78fbf26c0b4956c';
const ZERO_HASH = `0x${'0'.repeat(64)}`;
const OTHER = `0x${'aa'.padStart(40, '0')}`;
const VECTORS = repository('contracts/vectors/payment-batches.json');
const SIZES = [1, 2, 3, 5, 256];
const PREPARE = '/v1/payments/batches/prepare';
const SUBMIT = '/v1/payments/batches';
const tokenOf = (asset) => asset.split(':').at(-1);

/** The terms of payment n of the vectors, by their rule. */
function termsOf(n) {
  const { rule, payer, deadline } = VECTORS;
  const fulfillmentDeadline = deadline + (n % 7);
  const deposit = {
    paymentId: keccak256(stringToHex(`payment-${n}`)),
    termsHash: keccak256(stringToHex(`terms-${n}`)),
    quoteHash: ZERO_HASH,
    payer,
    reserver: rule.reserver,
    releaser: rule.releaser,
    reserveDeadline: String(deadline),
    fulfillmentDeadline: String(fulfillmentDeadline),
    refundAfter: String(fulfillmentDeadline + 30 + (n % 3)),
  };
  return { escrow: VECTORS.escrow, token: rule.token[n % 3], amount: 10n ** 18n * BigInt(n + 1) + BigInt(n), deposit };
}

/** A gateway; `answers` by path take the place of its own. `bodies` has what came to a path. */
async function gatewayOf(t, answers = {}) {
  const server = await serve(t, (call, response, count) => {
    const path = call.url.split('?')[0];
    const body = call.text && JSON.parse(call.text);
    const own = {
      '/v1/defaults': () => ({ body: DEFAULTS.source }),
      '/v1/payments/resolve': () => ({ status: 404, body: { code: 'PAYMENT_NOT_FOUND', message: 'there is none' } }),
      [PREPARE]: () => ({ body: preparedFor(body) }),
      [SUBMIT]: () => ({ body: acceptedFor(body) }),
    };
    const status = /^\/v1\/payments\/(pay_\w+)\/status$/.exec(path);
    if (status) return { body: { payment_id: status[1], status: 'completed', updated_at: '' } };
    const answer = answers[path] ?? own[path] ?? assert.fail;
    return answer(body, response, call, count);
  });
  const texts = (path) => server.calls.filter(({ url }) => url.split('?')[0] === path).map(({ text }) => text);
  return { gateway: new Gateway(server.url, { ...QUICK, pauseMsMax: 2 }), calls: server.calls, texts, bodies: (path) => texts(path).map((text) => JSON.parse(text)) };
}
const refused = (error, field) => error instanceof VerificationError && error.field === field;

test('the contract that draws batches is where its code leads, and its first creation is what their addresses run', () => {
  const from = getContractAddress({ opcode: 'CREATE2', from: DEPLOYER, salt: ZERO_HASH, bytecode: BYTECODE });
  assert.equal(from.toLowerCase(), evm.PAYMENT_BATCHES);
  assert.equal(getContractAddress({ from, nonce: 1n }).toLowerCase(), evm.BATCH_IMPLEMENTATION);
  assert.deepEqual([VECTORS.contract, VECTORS.implementation], [evm.PAYMENT_BATCHES, evm.BATCH_IMPLEMENTATION]);
});

test('leaves, roots, digests and addresses are those of the vectors', () => {
  const camel = (name) => name.replace(/_(.)/g, (_, char) => char.toUpperCase());
  for (const [n, { leaf, deposit, amount, ...terms }] of VECTORS.payments.entries()) {
    const written = Object.fromEntries(Object.entries(deposit).map(([name, value]) => [camel(name), String(value)]));
    assert.deepEqual(termsOf(n), { ...terms, amount: BigInt(amount), deposit: written });
    assert.equal(`0x${Buffer.from(evm.paymentLeaf(termsOf(n))).toString('hex')}`, leaf);
  }
  assert.deepEqual(VECTORS.batches.map(({ count }) => count), [1, 2, 3, 5, 6, 7, 256]);
  for (const { count, payments, permitted, digest, salt, address } of VECTORS.batches) {
    const leaves = Array.from({ length: count }, (_, n) => evm.paymentLeaf(termsOf(n)));
    assert.equal(evm.paymentRoot(leaves), payments);
    const drawn = permitted.map(({ token, amount }) => ({ token, amount: BigInt(amount) }));
    const batch = { payer: VECTORS.payer, permitted: drawn, escrow: VECTORS.escrow, nonce: BigInt(payments), deadline: VECTORS.deadline, payments };
    const { chain_id: id, permit2 } = VECTORS;
    assert.equal(evm.batchPermit(batch, { chainId: `eip155:${id}`, permit2 }).digest, digest);
    assert.equal(evm.batchAddress(batch), address);
    const { inputs } = ABI.find(({ name }) => name === 'addressOf');
    assert.equal(keccak256(encodeAbiParameters(inputs, [batch])), salt);
    const { to, data } = evm.giveBackBatchCall(batch, zeroAddress);
    const call = decodeFunctionData({ abi: ABI, data });
    assert.deepEqual([to, call.functionName, call.args[1]], [evm.PAYMENT_BATCHES, 'giveBack', zeroAddress]);
    const lower = ({ token, amount }) => ({ token: token.toLowerCase(), amount });
    const [given] = call.args;
    assert.deepEqual({ ...given, permitted: given.permitted.map(lower), deadline: Number(given.deadline) }, batch);
  }
});

test('a tree of any size has the root that its halves have', () => {
  const leaves = Array.from({ length: 40 }, (_, n) => keccak256(stringToHex(`leaf ${n}`)));
  for (let count = 1; count <= leaves.length; count += 1) {
    const bytes = leaves.slice(0, count).map((leaf) => Buffer.from(leaf.slice(2), 'hex'));
    assert.equal(evm.paymentRoot(bytes), rootOf(leaves.slice(0, count)));
  }
  assert.throws(() => evm.paymentRoot([]), UsageError);
});

for (const count of SIZES) {
  test(`${count} payments are paid for one signature`, async (t) => {
    const { gateway, bodies, texts } = await gatewayOf(t);
    const { wallet, signed, calls } = await payerOf({ balance: 10n ** 13n, allowance: 10n ** 13n });
    const steps = [];
    const orders = ordersOf(count);
    const result = await gateway.payBatch(orders, wallet, { onStep: (step) => void steps.push(step) });
    assert.deepEqual(steps.map(({ step }) => step), ['ordered', 'signing', 'submitting', 'accepted']);
    assert.deepEqual(steps[0].payments.map(({ requestId }) => requestId), orders.map(({ requestId }) => requestId));
    assert.deepEqual(result.payments.map(({ requestId }) => requestId), orders.map(({ requestId }) => requestId));
    assert.ok(result.payments.every(({ payment, paymentId, error }) => payment.payment_id === paymentId && !error));
    assert.deepEqual([calls, result.sent, signed.length], [[], [], 1]);
    const [asked] = bodies(PREPARE);
    const [body] = bodies(SUBMIT);
    assert.deepEqual(result.body, body);
    const { sender_auth: auth, ...unsigned } = body;
    assert.deepEqual(unsigned, asked);
    const [{ message, signature, ...others }] = auth.signed_messages;
    const honest = preparedFor(asked);
    assert.deepEqual([auth.message_scheme, message, others], ['EVM_PERMIT2_BATCH', honest.signed_messages[0].message, {}]);
    assert.deepEqual(signed[0], JSON.parse(honest.signed_messages[0].message_prehash));
    assert.equal(await recoverTypedDataAddress({ ...signed[0], signature }), account.address);
    assert.equal(evm.batchOf(result.batch).payments, signed[0].message.witness.payments);
    assert.ok(texts(SUBMIT)[0].length < 1500 + 250 * count);
    const [{ paymentId }] = result.payments;
    assert.equal((await gateway.wait(paymentId)).status, 'completed');
  });
}

test('what payments have in common stands once, and what one of them lacks or has otherwise stands in its own place', async (t) => {
  const { gateway, bodies } = await gatewayOf(t);
  const { wallet } = await payerOf();
  const extra = (at) => ({ extra: { settler_requirements: at ? { a: at > 9 } : undefined } });
  await gateway.payBatch(ordersOf(3, extra), wallet);
  const [{ payments, ...shared }] = bodies(PREPARE);
  assert.deepEqual(Object.keys(shared).sort(), ['destination', 'fulfillment_deadline', 'quote_deadline', 'reserve_deadline', 'source', 'version']);
  assert.deepEqual(payments.map((one) => 'settler_requirements' in one), [false, true, true]);
  assert.deepEqual(payments.map((one) => 'source' in one), [false, true, false]);
  assert.deepEqual(membersOf(bodies(PREPARE)[0]).map(({ source }) => source.asset_identifier), [TOKEN, WRAPPED, TOKEN]);
});

test('nothing is signed that is not the batch of the orders, and what differs is named', async (t) => {
  const message = (edit) => (data) => edit(data.message);
  for (const [field, edit] of [
    ['witness.payments', message((m) => (m.witness.payments = keccak256('0x01')))],
    ['witness.escrow', message((m) => (m.witness.escrow = OTHER))],
    ['nonce', message((m) => (m.nonce = '7'))],
    ['deadline', message((m) => (m.deadline = String(Number(m.deadline) + 1)))],
    ['deadline', message((m) => (m.deadline = String(Number(m.deadline) - 1)))],
    ['spender', message((m) => (m.spender = OTHER))],
    ['spender', message((m) => (m.spender = DEFAULTS.source.escrow_contract_address))],
    ['permitted', message((m) => m.permitted.push({ token: `0x${'f'.repeat(40)}`, amount: '1' }))],
    ['permitted', message((m) => m.permitted.pop())],
    ['permitted.0.amount', message((m) => (m.permitted[0].amount = String(BigInt(m.permitted[0].amount) + 1n)))],
    ['permitted.1.amount', message((m) => (m.permitted[1].amount = String(BigInt(m.permitted[1].amount) - 1n)))],
    ['permitted.0.token', message((m) => (m.permitted[0].token = OTHER))],
    ['permitted.0.token', message((m) => m.permitted.reverse())],
    ['domain.chainId', (data) => (data.domain.chainId = 1)],
    ['domain.verifyingContract', (data) => (data.domain.verifyingContract = OTHER)],
    ['domain.name', (data) => (data.domain.name = 'Permit3')],
  ]) {
    const { gateway, bodies } = await gatewayOf(t, { [PREPARE]: (body) => ({ body: preparedFor(body, edit) }) });
    const { wallet, signed, calls } = await payerOf({ allowance: 0n });
    await assert.rejects(gateway.payBatch(ordersOf(3), wallet), (error) => refused(error, field), field);
    assert.deepEqual([signed, calls, bodies(SUBMIT)], [[], [], []]);
  }
});

test('an answer that is not about the batch is not signed', async (t) => {
  const more = (of) => (body) => {
    const honest = preparedFor(body);
    return { body: { ...honest, ...of(honest) } };
  };
  const [digest] = [keccak256('0x02')];
  for (const [field, of] of [
    ['message_scheme', () => ({ message_scheme: 'EVM_PERMIT2_ESCROW' })],
    ['message_scheme', ({ signed_messages: [one] }) => ({ signed_messages: [one, one] })],
    ['message_scheme', () => ({ signed_messages: [] })],
    ['reserve_deadline', ({ reserve_deadline: at }) => ({ reserve_deadline: at - 1 })],
    ['payments.length', ({ payments }) => ({ payments: payments.slice(1) })],
    ['payments[0].payment_id', ({ payments }) => ({ payments: payments.toReversed() })],
    ['message', ({ signed_messages: [one] }) => ({ signed_messages: [{ ...one, message: digest }] })],
    ['primaryType', ({ signed_messages: [one] }) => ({ signed_messages: [{ ...one, message_prehash: 'nothing' }] })],
  ]) {
    const { gateway } = await gatewayOf(t, { [PREPARE]: more(of) });
    const { wallet, signed } = await payerOf();
    await assert.rejects(gateway.payBatch(ordersOf(3), wallet), (error) => refused(error, field), field);
    assert.deepEqual(signed, []);
  }
});

test('whom the payer does not trust is refused', async (t) => {
  const { gateway, bodies } = await gatewayOf(t);
  const { wallet, signed } = await payerOf();
  for (const name of ['escrow', 'reserver', 'releaser', 'permit2']) {
    await assert.rejects(gateway.payBatch(ordersOf(2), wallet, { trust: { [name]: OTHER } }), (error) => refused(error, name));
  }
  const divided = ordersOf(3, (at) => (at === 1 ? { extra: { escrow_contract_address: OTHER } } : {}));
  await assert.rejects(gateway.payBatch(divided, wallet), (error) => error instanceof UsageError && /payments\[1\].*one escrow/.test(error.message));
  assert.deepEqual([signed, bodies(PREPARE)], [[], []]);
});

test('addresses are alike however they are written', async (t) => {
  const written = (data) => {
    data.domain.verifyingContract = getAddress(data.domain.verifyingContract);
    data.message.spender = getAddress(data.message.spender);
    for (const one of data.message.permitted) one.token = getAddress(one.token);
  };
  const { gateway } = await gatewayOf(t, { [PREPARE]: (body) => ({ body: preparedFor(body, written) }) });
  const { wallet, signed } = await payerOf();
  await gateway.payBatch(ordersOf(2), wallet);
  assert.equal(signed.length, 1);
});

test('orders that are no batch are refused before anybody is asked', async (t) => {
  const { gateway, calls } = await gatewayOf(t);
  const { wallet } = await payerOf();
  const elsewhere = { source: { asset: TOKEN.replace('31337', '1') } };
  const of = (edit) => ordersOf(3, (at) => (at === 2 ? edit : {}));
  for (const [orders, said] of [
    [[], /1 to 256/],
    [ordersOf(257), /1 to 256/],
    [of({ requestId: 'order-0' }), /payments\[2\].*requestId order-0/],
    [of(elsewhere), /payments\[2\].*one chain/],
    [of({ source: { asset: 'eip155:31337/slip44:60' } }), /payments\[2\].*wraps/],
    [of({ extra: { proof: {} } }), /payments\[2\].*proof/],
    [of({ extra: { reserve_deadline: 1 } }), /payments\[2\].*reserve_deadline/],
  ]) {
    await assert.rejects(gateway.payBatch(orders, wallet), (error) => error instanceof UsageError && said.test(error.message), said.source);
  }
  await assert.rejects(gateway.payBatch(of({ source: { asset: TOKEN, account: OTHER } }), wallet), WalletError);
  const alone = { family: 'evm', account: PAYER };
  await assert.rejects(gateway.payBatch(ordersOf(1), alone), UsageError);
  assert.deepEqual(calls, []);
  const late = { reserveDeadline: new Date(Date.now() + 10 ** 7) };
  await assert.rejects(gateway.payBatch(ordersOf(1), wallet, late), (error) => error instanceof UsageError && /reserveDeadline/.test(error.message));
});

test('payments are deposited up to the second that the payer names', async (t) => {
  const { gateway, bodies } = await gatewayOf(t);
  const { wallet, signed } = await payerOf();
  const reserveDeadline = new Date(Math.floor(Date.now() / 1000) * 1000 + 60_000);
  await gateway.payBatch(ordersOf(2), wallet, { reserveDeadline });
  assert.deepEqual([bodies(SUBMIT)[0].reserve_deadline, Number(signed[0].message.deadline)], [reserveDeadline / 1000, reserveDeadline / 1000]);
});

test('each token is allowed and wrapped for all payments together, and what was prepared before is prepared again', async (t) => {
  const { gateway, bodies } = await gatewayOf(t);
  const sums = [25_500_000n * 3n + 0n + 2n + 3n, 25_500_001n];
  const { wallet, calls, signed } = await payerOf({ balance: sums[0], allowance: 1n });
  const result = await gateway.payBatch(ordersOf(4), wallet);
  const [token, wrapped] = [TOKEN, WRAPPED].map(tokenOf);
  assert.deepEqual(calls, [
    { to: token, what: 'approve', amount: 0n },
    { to: token, what: 'approve', amount: sums[0] },
    { to: wrapped, what: 'approve', amount: 0n },
    { to: wrapped, what: 'approve', amount: sums[1] },
  ]);
  assert.deepEqual([result.sent.length, bodies(PREPARE).length, signed.length], [4, 2, 1]);

  const endless = await payerOf({ allowance: 0n });
  await gateway.payBatch(ordersOf(4), endless.wallet, { allowance: 2n ** 256n - 1n });
  assert.deepEqual(endless.calls.map(({ amount }) => amount), [2n ** 256n - 1n, 2n ** 256n - 1n]);
  await assert.rejects(gateway.payBatch(ordersOf(4), endless.wallet, { allowance: sums[0] - 1n }), UsageError);

  const poor = await payerOf({ balance: sums[0] });
  const three = ordersOf(2, (at) => (at ? { maxSource: sums[0] + 7n } : {}));
  await gateway.payBatch(three, poor.wallet, { wrap: true });
  assert.deepEqual(poor.calls, [{ to: wrapped, what: 'deposit', amount: 7n }]);
  await assert.rejects(gateway.payBatch(ordersOf(1), poor.wallet, { wrap: true }), (error) => refused(error, 'wrap'));
});

test('an answer that is lost is asked for again with the same body', async (t) => {
  let tries = 0;
  const answers = {
    [SUBMIT]: (body, response) => {
      tries += 1;
      if (tries <= 7) return void response.destroy();
      if (tries === 8) return { status: 503, body: { code: 'SERVICE_UNAVAILABLE', message: 'later', retry_classification: 'RETRY_AFTER_DELAY' } };
      return { body: acceptedFor(body, () => ({ idempotent_replay: true })) };
    },
  };
  const { gateway, texts } = await gatewayOf(t, answers);
  const { payments } = await gateway.payBatch(ordersOf(3), (await payerOf()).wallet);
  assert.deepEqual([tries, new Set(texts(SUBMIT)).size], [9, 1]);
  assert.ok(payments.every(({ payment }) => payment.idempotent_replay));
});

test('where every window has passed without an answer, it is said that nothing is known', async (t) => {
  const { gateway } = await gatewayOf(t, { [SUBMIT]: (_, response) => void response.destroy() });
  const past = { quoteDeadline: new Date(Date.now() - 200_000), fulfillmentDeadline: new Date(Date.now() - 100_000) };
  await assert.rejects(gateway.payBatch(ordersOf(2, () => past), (await payerOf()).wallet), NoAnswer);
});

test('a payment that is refused is an error in its place, and one of which nothing is known is asked for again', async (t) => {
  const unknown = { code: 'OUTCOME_UNKNOWN', message: 'ask again', retry_classification: 'RECONCILE_THEN_DECIDE' };
  const refusal = { code: 'UNSUPPORTED_ASSET', message: 'destination: is not served', retry_classification: 'NOT_RETRYABLE_FIX_REQUEST' };
  let tries = 0;
  const answers = {
    [SUBMIT]: (body) => {
      tries += 1;
      return { body: acceptedFor(body, (at) => (at === 1 ? { error: refusal } : at === 2 && tries < 3 ? { error: unknown } : {})) };
    },
  };
  const { gateway, texts } = await gatewayOf(t, answers);
  const { payments } = await gateway.payBatch(ordersOf(4), (await payerOf()).wallet);
  assert.deepEqual(payments.map(({ payment, error }) => [payment?.status, error?.code]), [
    ['pending', undefined],
    [undefined, 'UNSUPPORTED_ASSET'],
    ['pending', undefined],
    ['pending', undefined],
  ]);
  const { error } = payments[1];
  assert.ok(error instanceof GatewayError);
  assert.deepEqual([error.status, error.field, tries, new Set(texts(SUBMIT)).size], [400, 'destination', 3, 1]);
});

test('what the gateway refuses as a whole is the caller’s to decide on, and what is not its payment is noticed', async (t) => {
  for (const path of [PREPARE, SUBMIT]) {
    const { gateway, bodies } = await gatewayOf(t, { [path]: () => ({ status: 400, body: { code: 'INVALID_REQUEST', message: 'payments: no' } }) });
    const paying = gateway.payBatch(ordersOf(2), (await payerOf()).wallet);
    await assert.rejects(paying, (error) => error instanceof GatewayError && error.field === 'payments');
    assert.equal(bodies(path).length, 1);
  }
  for (const edit of [(payments) => payments.toReversed(), (payments) => payments.slice(1), (payments) => [...payments, payments[0]]]) {
    const answer = (body) => ({ body: { payments: edit(acceptedFor(body).payments) } });
    const { gateway } = await gatewayOf(t, { [SUBMIT]: answer });
    const paying = gateway.payBatch(ordersOf(2), (await payerOf()).wallet);
    await assert.rejects(paying, (error) => error instanceof VerificationError && /payment_id$/.test(error.field));
  }
});

test('payments of an earlier try are found, and the others are paid', async (t) => {
  const known = new Set(['order-0', 'order-2']);
  const answers = {
    '/v1/payments/resolve': (_, __, { url }) => {
      const request_id = new URL(url, 'http://gateway').searchParams.get('request_id');
      if (known.has(request_id)) return { body: { payment_id: idOf({ request_id }), status: 'finalizing' } };
      return { status: 404, body: { code: 'PAYMENT_NOT_FOUND', message: 'there is none' } };
    },
  };
  const { gateway, bodies, calls } = await gatewayOf(t, answers);
  const { wallet, signed } = await payerOf();
  const { payments } = await gateway.payBatch(ordersOf(4), wallet);
  assert.deepEqual(payments.map(({ payment }) => payment.status), ['finalizing', 'pending', 'finalizing', 'pending']);
  assert.deepEqual(bodies(SUBMIT)[0].payments.map(({ request_id: id }) => id), ['order-1', 'order-3']);
  known.add('order-1').add('order-3');
  const all = await gateway.payBatch(ordersOf(4), wallet);
  assert.deepEqual([all.payments.length, all.body, all.batch, all.sent, signed.length], [4, undefined, undefined, [], 1]);
  // Orders without ids are new.
  const asked = calls.length;
  await gateway.payBatch(ordersOf(2, () => ({ requestId: undefined })), wallet);
  assert.ok(calls.slice(asked).every(({ url }) => !url.startsWith('/v1/payments/resolve')));
});

test('the check alone, for those who sign elsewhere', async () => {
  const { wallet } = await payerOf();
  const nowMs = Date.now();
  const deadline = new Date(nowMs + 100_000);
  const time = (ms) => new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
  const request = {
    version: '1.0',
    request_id: 'order-1',
    source: { asset_identifier: TOKEN, account: PAYER },
    destination: [{ asset_identifier: TOKEN.replace('31337', '31338'), account: OTHER }],
    fulfillment_amount: '5',
    max_source_amount: '6',
    quote_deadline: time(nowMs + 10_000),
    fulfillment_deadline: time(+deadline),
  };
  const batch = { spends: [spendOf(request, DEFAULTS, {}, nowMs)], reserveDeadline: Math.floor(deadline / 1000) };
  const honest = preparedFor({ payments: [request] });
  const { digest, typedData } = evm.rebuildBatch(batch, honest);
  assert.deepEqual([digest, typedData], [honest.signed_messages[0].message, JSON.parse(honest.signed_messages[0].message_prehash)]);
  assert.equal(evm.batchOf(batch).payments, typedData.message.witness.payments);
  wallet.verifyBatch(batch, honest);
  assert.throws(() => evm.rebuildBatch({ ...batch, reserveDeadline: batch.reserveDeadline + 1 }, honest), (error) => refused(error, 'reserve_deadline'));
  const quoted = { ...batch, spends: [{ ...batch.spends[0], quoteHash: keccak256('0x03') }] };
  assert.throws(() => evm.rebuildBatch(quoted, honest), UsageError);
  const late = { ...honest, reserve_deadline: batch.reserveDeadline + 1 };
  assert.throws(() => evm.rebuildBatch({ ...batch, reserveDeadline: batch.reserveDeadline + 1 }, late), (error) => refused(error, 'reserveDeadline'));
  const tokens = Array.from({ length: 9 }, (_, at) => ({
    ...batch.spends[0],
    terms: { ...batch.spends[0].terms, source: { account: PAYER, asset_identifier: `eip155:31337/erc20:0x${String(at).repeat(40)}` } },
  }));
  assert.throws(() => evm.batchOf({ ...batch, spends: tokens }), UsageError);
});
