// Payments under a mandate, from the merchant's side: it signs for each what its own order says, and a payment is made once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getAddress, keccak256 } from 'viem';
import { GatewayError, NoAnswer, spendOf, UsageError, VerificationError, WalletError } from 'gateway-client';
import * as evm from 'gateway-client/evm';
import { account, DEFAULTS, PAYER, payerOf, TOKEN } from './batched.mjs';
import { CHARGE, chargeFor, gatewayOf, idOf, MERCHANT, merchantOf, misused, OTHER, OTHERS, payloadOf, payment, refused, SUBMIT } from './mandated.mjs';

test('a merchant signs for no other payment than its own', async (t) => {
  const payload = await payloadOf(t);
  for (const [name, change] of Object.entries(OTHERS)) {
    const answer = (request) => {
      const [{ mandate, ...other }, places] = change({ ...request, mandate: request.payload.mandate });
      return { body: chargeFor({ ...other, payload: { ...request.payload, mandate } }, { places }) };
    };
    const { gateway, bodies } = await gatewayOf(t, { [CHARGE]: answer });
    const { wallet, signed } = await merchantOf();
    const fields = name === 'a contract of a stranger' ? ['domain.verifyingContract'] : ['mandate'];
    await assert.rejects(gateway.charge(payment(), payload, wallet), (error) => fields.some((field) => refused(error, field)), name);
    assert.deepEqual([signed, bodies(SUBMIT)], [[], []]);
  }
});

test('what differs is named', async (t) => {
  const payload = await payloadOf(t);
  const data = (edit) => (request) => ({ body: chargeFor(request, { edit }) });
  const message = (edit) => data((of) => edit(of.message));
  const more = (of) => (request) => {
    const honest = chargeFor(request);
    return { body: { ...honest, ...of(honest) } };
  };
  for (const [field, answer] of [
    ['mandate', message((m) => (m.mandate = OTHER))],
    ['paymentId', message((m) => (m.paymentId = keccak256('0x01')))],
    ['fulfillmentAmount', message((m) => (m.fulfillmentAmount = '24999999'))],
    ['amount', message((m) => (m.amount = '25500001'))],
    ['amount', message((m) => (m.amount = '25499999'))],
    ['reserver', message((m) => (m.reserver = OTHER))],
    ['fulfillmentDeadline', message((m) => (m.fulfillmentDeadline = String(Number(m.fulfillmentDeadline) + 1)))],
    ['reserveDeadline', message((m) => (m.reserveDeadline = String(Number(m.reserveDeadline) + 1)))],
    ['reserveDeadline', message((m) => (m.reserveDeadline = String(2 ** 48 - 1)))],
    ['refundAfter', message((m) => (m.refundAfter = String(Number(m.refundAfter) + 1)))],
    ['refundAfter', message((m) => (m.refundAfter = m.fulfillmentDeadline))],
    ['domain.name', data(({ domain }) => (domain.name = 'GatewayEscrow'))],
    ['domain.version', data(({ domain }) => (domain.version = '2'))],
    ['domain.chainId', data(({ domain }) => (domain.chainId = 1))],
    ['domain.verifyingContract', data(({ domain }) => (domain.verifyingContract = OTHER))],
    ['payment_id', more(() => ({ payment_id: 'pay_another' }))],
    ['message_scheme', more(() => ({ message_scheme: 'EVM_PERMIT2_ESCROW' }))],
    ['message_scheme', more(({ signed_messages: [one] }) => ({ signed_messages: [one, one] }))],
    ['message_scheme', more(() => ({ signed_messages: [] }))],
    ['fulfillment_verifier', more(() => ({ fulfillment_verifier: { account: OTHER } }))],
    ['message', more(({ signed_messages: [one] }) => ({ signed_messages: [{ ...one, message: keccak256('0x02') }] }))],
  ]) {
    const { gateway, bodies } = await gatewayOf(t, { [CHARGE]: answer });
    const { wallet, signed } = await merchantOf();
    await assert.rejects(gateway.charge(payment(), payload, wallet), (error) => refused(error, field), field);
    assert.deepEqual([signed, bodies(SUBMIT)], [[], []]);
  }
  const written = ({ domain, message: m }) => {
    domain.verifyingContract = getAddress(domain.verifyingContract);
    for (const name of ['mandate', 'reserver']) m[name] = getAddress(m[name]);
  };
  const { gateway } = await gatewayOf(t, { [CHARGE]: data(written) });
  assert.equal((await gateway.charge(payment(), payload, (await merchantOf()).wallet)).status.status, 'completed');
});

test('what the mandate does not allow, or another’s wallet asks for, is refused before anybody is asked', async (t) => {
  const payload = await payloadOf(t);
  const { gateway, calls } = await gatewayOf(t);
  const { wallet } = await merchantOf();
  const changed = (more) => ({ ...payload, mandate: { ...payload.mandate, ...more } });
  for (const [order, given, said] of [
    [payment({ maxSource: 51_000_001n }), payload, /allows 51000000 in a period/],
    [payment({ amount: 24_999_999n }), payload, /50000000 for 51000000/],
    [payment({ amount: 2n ** 255n }), payload, /256 bits/],
    [payment({ source: { asset: TOKEN } }), payload, /source.account/],
    [payment({ source: { asset: 'eip155:31337/slip44:60', account: PAYER } }), payload, /wraps/],
    [payment(), {}, /has a mandate/],
    [payment(), changed({ salt: undefined }), /salt/],
    [payment(), changed({ amount: 51_000_000 }), /amount/],
    [payment(), changed({ periods: '3' }), /periods/],
    [payment(), changed({ merchant: 'nobody' }), /merchant/],
  ]) {
    await assert.rejects(gateway.charge(order, given, wallet), (error) => misused(error, said), said.source);
  }
  for (const signer of [(await payerOf()).wallet, (await merchantOf(account)).wallet])
    await assert.rejects(gateway.charge(payment(), payload, signer), (error) => error instanceof WalletError && error.message.includes(MERCHANT));
  await assert.rejects(gateway.charge(payment(), payload, { family: 'evm', account: MERCHANT }), UsageError);
  assert.deepEqual(calls, []);
  // Half of the period's amount may have half of the least delivered, and not less.
  assert.equal((await gateway.charge(payment({ amount: 1n, maxSource: 1n }), payload, wallet)).status.status, 'completed');
  const free = await payloadOf(t, { least: undefined });
  assert.equal((await gateway.charge(payment({ amount: 1n }), free, wallet)).status.status, 'completed');
});

test('an answer that is lost is asked for again with the same body', async (t) => {
  let tries = 0;
  const answers = {
    [SUBMIT]: (body, response) => {
      tries += 1;
      if (tries <= 7) return void response.destroy();
      if (tries === 8) return { status: 503, body: { code: 'SERVICE_UNAVAILABLE', message: 'later', retry_classification: 'RETRY_AFTER_DELAY' } };
      return { body: { payment_id: idOf(body), status: 'pending', idempotent_replay: true } };
    },
  };
  const { gateway, texts } = await gatewayOf(t, answers);
  const { wallet, signed } = await merchantOf();
  const { accepted, status } = await gateway.charge(payment(), await payloadOf(t), wallet);
  assert.deepEqual([accepted.idempotent_replay, status.status, tries], [true, 'completed', 9]);
  assert.deepEqual([new Set(texts(SUBMIT)).size, signed.length], [1, 1]);
  const silent = await gatewayOf(t, { [SUBMIT]: (_, response) => void response.destroy() });
  const past = { quoteDeadline: new Date(Date.now() - 200_000), fulfillmentDeadline: new Date(Date.now() - 100_000) };
  await assert.rejects(silent.gateway.charge(payment(past), await payloadOf(t), wallet), NoAnswer);
});

test('what the gateway refuses is the caller’s to decide on, at once, and what is not its payment is noticed', async (t) => {
  const payload = await payloadOf(t);
  const { wallet } = await merchantOf();
  for (const [path, code] of [[CHARGE, 'INSUFFICIENT_ALLOWANCE'], [SUBMIT, 'IDEMPOTENCY_TERMS_MISMATCH'], [SUBMIT, 'INSUFFICIENT_ALLOWANCE']]) {
    const body = { code, message: 'no', retry_classification: 'RETRY_AFTER_DELAY' };
    const { gateway, bodies } = await gatewayOf(t, { [path]: () => ({ status: 400, body }) });
    await assert.rejects(gateway.charge(payment(), payload, wallet), (error) => error instanceof GatewayError && error.code === code);
    assert.equal(bodies(path).length, 1);
  }
  const { gateway } = await gatewayOf(t, { [SUBMIT]: () => ({ body: { payment_id: 'pay_another', status: 'completed' } }) });
  await assert.rejects(gateway.charge(payment(), payload, wallet), (error) => refused(error, 'payment_id'));
});

test('the check alone, for those who sign elsewhere', async (t) => {
  const { payload, spend: mandated } = await (async () => {
    const { gateway } = await gatewayOf(t);
    return gateway.signMandate({ ...payment(), merchant: MERCHANT, amount: 51_000_000n, periodSeconds: 60, periods: 1 }, (await payerOf()).wallet);
  })();
  const { gateway, bodies } = await gatewayOf(t);
  const { wallet } = await merchantOf();
  await gateway.charge(payment({ requestId: 'one' }), payload, wallet);
  const [{ message_scheme: _, payload: __, ...request }] = bodies(CHARGE);
  const spend = spendOf(request, DEFAULTS);
  const honest = chargeFor({ ...request, payload });
  const { digest, typedData, payload: said } = evm.rebuildCharge({ spend, payload }, honest);
  const [one] = honest.signed_messages;
  assert.deepEqual([digest, typedData, said], [one.message, JSON.parse(one.message_prehash), one.payload]);
  assert.equal(typedData.message.mandate, evm.mandateAddress(evm.mandateOf(mandated)));
  wallet.verifyCharge({ spend, payload }, honest);
  assert.throws(() => evm.rebuildCharge({ spend: { ...spend, quoteHash: keccak256('0x03') }, payload }, honest), UsageError);
  assert.throws(() => evm.rebuildCharge({ spend: { ...spend, cap: 51_000_001n }, payload }, honest), UsageError);
  assert.throws(() => evm.rebuildCharge({ spend: { ...spend, escrow: OTHER }, payload }, honest), (error) => refused(error, 'mandate'));
  const foreign = await merchantOf(account);
  assert.throws(() => foreign.wallet.verifyCharge({ spend, payload }, honest), (error) => error instanceof VerificationError && error.field === 'merchant');
});
