// `pay` and `payQuote` against a server that plays the gateway, and a wallet that plays the payer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gateway, GatewayError, NoAnswer, paymentId, UsageError, VerificationError, WalletError } from 'gateway-client';
import { prepared as fixtures, QUICK, serve } from './support.mjs';

const { request: ASKED, defaults: DEFAULTS } = fixtures().evm;
const PAYER = ASKED.source.account;
const ID = (requestId) => paymentId(`eip155:${PAYER}`, requestId);
const order = (more = {}) => ({
  source: { asset: ASKED.source.asset_identifier },
  destination: { asset: ASKED.destination[0].asset_identifier, account: ASKED.destination[0].account },
  amount: 25_000_000n,
  maxSource: 25_500_000n,
  ...more,
});

/** A wallet that notes what it is asked for. */
function walletOf(more = {}) {
  const done = [];
  return {
    done,
    family: 'evm',
    account: PAYER,
    connect: async (chainId) => void done.push(`connect ${chainId}`),
    fund: async () => (done.push('fund'), []),
    verify: () => void done.push('verify'),
    sign: async () => (done.push('sign'), [{ message: '0x', signature: '0x01' }]),
    refund: assert.fail,
    claim: assert.fail,
    ...more,
  };
}

/** A gateway; `answers` by method and path take the place of its own. */
const gatewayOf =
  (answers = {}) =>
  (call, response, count) => {
    const path = call.url.split('?')[0];
    const own = {
      'GET /v1/defaults': () => ({ body: DEFAULTS.source }),
      'GET /v1/payments/resolve': () => ({ status: 404, body: { code: 'PAYMENT_NOT_FOUND', message: 'there is none' } }),
      'POST /v1/payments/prepare': () => {
        const { request_id: requestId } = JSON.parse(call.text);
        return {
          body: {
            payment_id: ID(requestId),
            message_scheme: 'EVM_PERMIT2_ESCROW',
            signed_messages: [{ message: '0x', message_prehash: '{}', payload: {} }],
          },
        };
      },
      'POST /v1/payments': () => ({
        body: { payment_id: ID(JSON.parse(call.text).request_id), status: 'pending', idempotent_replay: false },
      }),
    };
    const status = /^GET \/v1\/payments\/(pay_\w+)\/status$/.exec(`${call.method} ${path}`);
    const answer = answers[`${call.method} ${path}`] ?? own[`${call.method} ${path}`];
    if (answer) return answer(call, response, count);
    if (status) return { body: { payment_id: status[1], status: 'completed', updated_at: '' } };
    return assert.fail(`${call.method} ${call.url}`);
  };
const submissions = ({ calls }) => calls.filter(({ method, url }) => method === 'POST' && url === '/v1/payments');

test('a payment goes its steps in order, and nothing is signed before it was compared', async (t) => {
  const server = await serve(t, gatewayOf());
  const wallet = walletOf();
  const steps = [];
  const { escrow_contract_address: escrow, reserver, releaser } = DEFAULTS.source;
  const result = await new Gateway(server.url, QUICK).pay(order({ requestId: 'order-7' }), wallet, {
    trust: { escrow, releaser },
    onStep: (step) => {
      if (step.step === 'ordered')
        assert.deepEqual(step, {
          step: 'ordered',
          requestId: 'order-7',
          paymentId: ID('order-7'),
          believed: [`reserver=${reserver}`],
        });
      steps.push(step.step);
    },
  });
  assert.deepEqual(wallet.done, ['connect eip155:31337', 'fund', 'verify', 'sign']);
  assert.deepEqual(steps, ['ordered', 'signing', 'submitting', 'status', 'status']);
  assert.deepEqual(
    [result.status.status, result.paymentId, result.accepted.status, result.requestId],
    ['completed', ID('order-7'), 'pending', 'order-7'],
  );
  assert.deepEqual(JSON.parse(submissions(server)[0].text), result.body);
  assert.equal(submissions(server)[0].headers.prefer, 'wait=0');
});

test('an answer that is lost is asked for again with the same body, until there is one', async (t) => {
  let tries = 0;
  const server = await serve(
    t,
    gatewayOf({
      'POST /v1/payments': (call, response) => {
        tries += 1;
        if (tries <= 8) return void response.destroy();
        if (tries <= 10)
          return {
            status: 500,
            body: { code: 'OUTCOME_UNKNOWN', message: 'ask again', retry_classification: 'RECONCILE_THEN_DECIDE' },
          };
        return { body: { payment_id: ID(JSON.parse(call.text).request_id), status: 'completed', idempotent_replay: true } };
      },
    }),
  );
  const { status, accepted } = await new Gateway(server.url, { ...QUICK, pauseMsMax: 2 }).pay(order(), walletOf());
  assert.deepEqual([status.status, accepted.idempotent_replay, tries], ['completed', true, 11]);
  assert.equal(new Set(submissions(server).map(({ text }) => text)).size, 1);
});

test('where every window has passed without an answer, it is said that nothing is known', async (t) => {
  const server = await serve(t, gatewayOf({ 'POST /v1/payments': (_, response) => void response.destroy() }));
  const past = { quoteDeadline: new Date(Date.now() - 200_000), fulfillmentDeadline: new Date(Date.now() - 100_000) };
  await assert.rejects(new Gateway(server.url, QUICK).pay(order(past), walletOf()), NoAnswer);
});

test('a refusal is the caller’s to decide on, at once', async (t) => {
  for (const [path, code] of [
    ['/v1/payments/prepare', 'INSUFFICIENT_FUNDS'],
    ['/v1/payments', 'IDEMPOTENCY_TERMS_MISMATCH'],
    ['/v1/payments', 'INVALID_SENDER_AUTH'],
  ]) {
    const server = await serve(t, gatewayOf({ [`POST ${path}`]: () => ({ status: 409, body: { code, message: 'no' } }) }));
    await assert.rejects(
      new Gateway(server.url, QUICK).pay(order(), walletOf()),
      (error) => error instanceof GatewayError && error.code === code,
    );
    assert.equal(server.calls.filter(({ url }) => url === path).length, 1);
  }
});

test('what the payer has just sent is waited for, as the gateway’s node may see it later', async (t) => {
  let tries = 0;
  const lagging = {
    'POST /v1/payments': (call) => {
      tries += 1;
      if (tries === 1)
        return {
          status: 400,
          body: { code: 'INSUFFICIENT_ALLOWANCE', message: 'too little', retry_classification: 'RETRY_AFTER_DELAY' },
        };
      return { body: { payment_id: ID(JSON.parse(call.text).request_id), status: 'completed', idempotent_replay: false } };
    },
  };
  const server = await serve(t, gatewayOf(lagging));
  const sent = [{ what: 'approve', transaction: '0xa' }];
  const result = await new Gateway(server.url, QUICK).pay(order(), walletOf({ fund: async () => sent }));
  assert.deepEqual([result.status.status, result.sent, tries], ['completed', sent, 2]);
});

test('nothing is signed where a step says no', async (t) => {
  const other = ID('another');
  for (const [answers, options, wallet, expected] of [
    [
      {
        'POST /v1/payments/prepare': () => ({
          body: { payment_id: other, message_scheme: 'EVM_PERMIT2_ESCROW', signed_messages: [] },
        }),
      },
      {},
      {},
      VerificationError,
    ],
    [{}, { trust: { releaser: PAYER } }, {}, VerificationError],
    [{}, { trust: { lockSecondsMax: 1 } }, {}, VerificationError],
    [{}, { wrap: true }, {}, VerificationError],
    [{}, { allowance: 1n }, {}, UsageError],
    [
      {},
      {},
      {
        verify: () => {
          throw new VerificationError('message', 'something else');
        },
      },
      VerificationError,
    ],
    [{}, {}, { family: 'tron' }, WalletError],
    [
      {},
      {},
      {
        connect: async () => {
          throw new WalletError('chain', 'another chain');
        },
      },
      WalletError,
    ],
    [
      {},
      {
        onStep: ({ step }) => {
          if (step === 'signing') throw new RangeError('no');
        },
      },
      {},
      RangeError,
    ],
    [{}, { signal: AbortSignal.abort(new SyntaxError('left')) }, {}, SyntaxError],
  ]) {
    const server = await serve(t, gatewayOf(answers));
    const payer = walletOf(wallet);
    await assert.rejects(new Gateway(server.url, QUICK).pay(order(), payer, options), expected);
    assert.ok(!payer.done.includes('sign'), String(expected));
    assert.equal(submissions(server).length, 0);
  }
});

test('another payment than the one that was signed is not taken for it', async (t) => {
  const server = await serve(
    t,
    gatewayOf({
      'POST /v1/payments': () => ({ body: { payment_id: ID('another'), status: 'completed', idempotent_replay: false } }),
    }),
  );
  await assert.rejects(new Gateway(server.url, QUICK).pay(order(), walletOf()), /another id/);
});

test('a payment that exists costs no further transactions when it is tried again', async (t) => {
  const server = await serve(
    t,
    gatewayOf({ 'GET /v1/payments/resolve': () => ({ body: { payment_id: ID('order-7'), status: 'pending', updated_at: '' } }) }),
  );
  const wallet = walletOf();
  await new Gateway(server.url, QUICK).pay(order({ requestId: 'order-7' }), wallet, { until: 'accepted' });
  assert.deepEqual(wallet.done, ['connect eip155:31337', 'verify', 'sign']);
});

/** A gateway that takes signatures for tokens, and asks for these messages of this scheme. */
const takesTokens = (message_scheme, messages, more = {}) =>
  gatewayOf({
    'GET /v1/defaults': () => ({
      body: { ...DEFAULTS.source, message_schemes: ['EVM_EIP3009', 'EVM_PERMIT2_ESCROW'] },
    }),
    'POST /v1/payments/prepare': ({ text }) => ({
      body: {
        payment_id: ID(JSON.parse(text).request_id),
        message_scheme,
        signed_messages: Array.from({ length: messages }, () => ({ message: '0x', message_prehash: '{}', payload: {} })),
      },
    }),
    ...more,
  });

test('no allowance is given where a signature is in its place, and the gateway is asked once what to sign', async (t) => {
  for (const [scheme, messages] of [
    ['EVM_EIP3009', 1],
    ['EVM_PERMIT2_ESCROW', 2],
  ]) {
    const server = await serve(t, takesTokens(scheme, messages));
    const funded = [];
    const wallet = walletOf({ fund: async (_, { allowance }) => (funded.push(allowance), []) });
    const { body, sent } = await new Gateway(server.url, QUICK).pay(order(), wallet);
    assert.deepEqual([funded, sent, body.sender_auth.message_scheme], [[0n], [], scheme]);
    const asked = server.calls.filter(({ url }) => url.endsWith('/prepare')).map(({ text }) => JSON.parse(text));
    assert.equal(asked.length, 1);
    // What was prepared is what is submitted, its deadlines among it.
    const { sender_auth: _, ...request } = body;
    assert.deepEqual(asked[0], request);
    assert.deepEqual(wallet.done, ['connect eip155:31337', 'verify', 'sign']);
  }
});

test('an allowance is given where Permit2 alone is signed for, and then the gateway is asked anew', async (t) => {
  const server = await serve(t, takesTokens('EVM_PERMIT2_ESCROW', 1));
  const prepares = () => server.calls.filter(({ url }) => url.endsWith('/prepare')).length;
  const seen = [];
  const fund = (sent) => async (_, { allowance }) => (seen.push(allowance), sent);
  const gateway = new Gateway(server.url, QUICK);
  await gateway.pay(order(), walletOf({ fund: fund([]) }));
  assert.deepEqual([seen, prepares()], [[25_500_000n], 1]);
  await gateway.pay(order(), walletOf({ fund: fund([{ what: 'approve', transaction: '0xa' }]) }), { allowance: 30_000_000n });
  assert.deepEqual([seen, prepares()], [[25_500_000n, 30_000_000n], 3]);
});

test('what the gateway refuses to prepare costs no transaction', async (t) => {
  const refusal = { status: 400, body: { code: 'INSUFFICIENT_FUNDS', message: 'too little' } };
  const server = await serve(t, takesTokens('EVM_EIP3009', 1, { 'POST /v1/payments/prepare': () => refusal }));
  const wallet = walletOf();
  await assert.rejects(new Gateway(server.url, QUICK).pay(order(), wallet), GatewayError);
  assert.deepEqual(wallet.done, ['connect eip155:31337']);
});

test('a quote is awarded by a signature for the token, without an allowance', async (t) => {
  const { batch } = fixtures().award;
  const path = `/v1/payments/quote-requests/${batch.quote_request_id}/award`;
  const accepted = (call) => ({
    body: { payment_id: ID(JSON.parse(call.text).request_id), status: 'completed', idempotent_replay: false },
  });
  const server = await serve(t, takesTokens('EVM_EIP3009', 1, { [`POST ${path}`]: accepted }));
  const funded = [];
  const wallet = walletOf({ fund: async (_, { allowance }) => (funded.push(allowance), []) });
  const { quote_id: quoteId } = batch.quotes[0];
  await new Gateway(server.url, QUICK).payQuote(batch, quoteId, wallet, { maxSource: 25_500_000n });
  assert.deepEqual([funded, wallet.done], [[0n], ['connect eip155:31337', 'verify', 'sign']]);
  assert.equal(server.calls.filter(({ url }) => url.endsWith('/prepare')).length, 1);
});

test('a coin is not paid with, and a wallet not for another account', async (t) => {
  const server = await serve(t, gatewayOf());
  const gateway = new Gateway(server.url, QUICK);
  await assert.rejects(gateway.pay(order({ source: { asset: 'eip155:31337/slip44:60' } }), walletOf()), UsageError);
  const other = `0x${'a'.repeat(40)}`;
  await assert.rejects(
    gateway.pay(order({ source: { asset: ASKED.source.asset_identifier, account: other } }), walletOf()),
    WalletError,
  );
});

test('quotes are waited for, and are for what was asked', async (t) => {
  const { batch } = fixtures().award;
  const reads = ['collecting', 'ready'];
  const later = { quote_deadline: new Date(Date.now() + 60_000).toISOString() };
  const { quotes, ...collecting } = batch;
  const answers = {
    'POST /v1/payments/quote-requests': () => ({
      body: { ...collecting, ...later, status: 'collecting', idempotent_replay: false },
    }),
    [`GET /v1/payments/quote-requests/${batch.quote_request_id}`]: () =>
      reads[0] === 'collecting' ? { body: { ...collecting, ...later, status: reads.shift() } } : { body: { ...batch, ...later } },
  };
  const server = await serve(t, gatewayOf(answers));
  const gateway = new Gateway(server.url, QUICK);
  const { max_source_amount: _, ...uncapped } = { ...ASKED };
  const seen = await gateway.quote(uncapped, { callerSecret: 'correct-horse-battery' });
  assert.deepEqual([seen.status, seen.quotes.length], ['ready', quotes.length]);
  assert.equal(server.calls[0].headers['caller-secret'], 'correct-horse-battery');
  await assert.rejects(gateway.quote({ ...uncapped, fulfillment_amount: '1' }), VerificationError);
  assert.equal((await gateway.quote(uncapped, { waitForQuotes: false })).status, 'collecting');
});

test('every answer of a batch is held against what was asked, and not the first alone', async (t) => {
  const { batch } = fixtures().award;
  const later = { quote_deadline: new Date(Date.now() + 60_000).toISOString() };
  const { quotes: _, ...collecting } = batch;
  const elsewhere = `0x${'a'.repeat(40)}`;
  for (const [lie, field] of [
    [{ destination: [{ ...batch.destination[0], account: elsewhere }] }, 'quote-request'],
    [{ max_source_amount: '99000000' }, 'quote-request'],
    [{ fulfillment_amount: '1' }, 'quote-request'],
    [{ source: { ...batch.source, account: elsewhere } }, 'quote-request'],
    [{ quote_request_id: 'qrq_another' }, 'quote_request_id'],
  ]) {
    const server = await serve(
      t,
      gatewayOf({
        'POST /v1/payments/quote-requests': () => ({ body: { ...collecting, ...later, status: 'collecting' } }),
        [`GET /v1/payments/quote-requests/${batch.quote_request_id}`]: () => ({ body: { ...batch, ...later, ...lie } }),
      }),
    );
    const { max_source_amount: _cap, ...uncapped } = ASKED;
    await assert.rejects(
      new Gateway(server.url, QUICK).quote(uncapped),
      (error) => error instanceof VerificationError && error.field === field,
      JSON.stringify(lie),
    );
  }
});

test('a quote is awarded as it was chosen, and one that is not there is not', async (t) => {
  const { batch } = fixtures().award;
  const path = `/v1/payments/quote-requests/${batch.quote_request_id}/award`;
  const server = await serve(
    t,
    gatewayOf({
      [`POST ${path}`]: (call) => ({
        body: { payment_id: ID(JSON.parse(call.text).request_id), status: 'completed', idempotent_replay: false },
      }),
    }),
  );
  const gateway = new Gateway(server.url, QUICK);
  const quoteId = batch.quotes[0].quote_id;
  const { body, requestId } = await gateway.payQuote(batch, quoteId, walletOf(), { maxSource: 25_500_000n });
  assert.deepEqual(Object.keys(body).sort(), ['quote_id', 'quote_request_id', 'request_id', 'sender_auth', 'version']);
  const prepare = JSON.parse(server.calls.find(({ url }) => url.endsWith('/prepare')).text);
  assert.deepEqual(prepare, {
    version: '1.0',
    request_id: requestId,
    quote_request_id: batch.quote_request_id,
    quote_id: quoteId,
    payload: { permitted_amount: '25500000' },
  });
  await assert.rejects(gateway.payQuote(batch, 'quo_a', walletOf(), { maxSource: 25_500_000n }), UsageError);
  await assert.rejects(gateway.payQuote(batch, quoteId, walletOf()), UsageError);
  await assert.rejects(gateway.payQuote(batch, quoteId, walletOf(), { maxSource: 1n }), VerificationError);
  const payer = walletOf();
  for (const [lie, options] of [
    [{ max_source_amount: '99000000' }, { maxSource: 25_500_000n }],
    [{ destination: [{ ...batch.destination[0], account: `0x${'a'.repeat(40)}` }] }, { order: order(), maxSource: 25_500_000n }],
  ]) {
    await assert.rejects(gateway.payQuote({ ...batch, ...lie }, quoteId, payer, options), VerificationError);
  }
  assert.deepEqual(payer.done, ['connect eip155:31337', 'connect eip155:31337']);
});
