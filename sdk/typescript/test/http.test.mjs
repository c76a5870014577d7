import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERROR_CODES, Gateway, GatewayError, nextStep, NoAnswer, PaymentFailed, TimedOut } from 'gateway-client';
import { QUICK, serve } from './support.mjs';

const BODY = {
  version: '1.0',
  request_id: 'order-7',
  source: {},
  destination: [],
  fulfillment_amount: '1',
  quote_deadline: '',
  fulfillment_deadline: '',
  sender_auth: {},
};
const ANSWER = { payment_id: 'pay_a', status: 'pending', idempotent_replay: false };
const errorBody = (code, more = {}) => {
  const { retry, reusable } = ERROR_CODES[code];
  return {
    code,
    message: 'source.account: is not one',
    request_id: 'req_1',
    docs_url: `https://pay.example/docs/errors#${code}`,
    retry_classification: retry,
    ...(reusable === null ? {} : { request_id_reusable: reusable }),
    ...more,
  };
};
/** The steps of spec and design 7, by classification. */
const STEPS = {
  RETRY_AFTER_DELAY: 'resend',
  RETRY_WITH_NEW_REQUEST_ID: 'new-request',
  NOT_RETRYABLE_FIX_REQUEST: 'fix',
  NOT_RETRYABLE: 'stop',
  RECONCILE_THEN_DECIDE: 'reconcile',
};
const STEPS_OF = {
  INSUFFICIENT_FUNDS: 'resend-when-funded',
  INSUFFICIENT_ALLOWANCE: 'resend-when-funded',
  OUTCOME_UNKNOWN: 'resend',
  INTERNAL_ERROR: 'resend',
};

for (const [code, { status, retry, reusable }] of Object.entries(ERROR_CODES).filter(
  ([, { status }]) => status !== null && status !== 200,
)) {
  test(`${code} comes as a typed error, and is sent again only where that helps`, async (t) => {
    const server = await serve(t, () => ({ status, body: errorBody(code) }));
    const gateway = new Gateway(server.url, QUICK);
    const error = await gateway.submit(BODY).then(assert.fail, (thrown) => thrown);
    assert.ok(error instanceof GatewayError, String(error));
    const { docsUrl, field, requestId, requestIdReusable, retryClassification } = error;
    assert.deepEqual(
      { code: error.code, status: error.status, docsUrl, field, requestId, requestIdReusable, retryClassification },
      {
        code,
        status,
        docsUrl: `https://pay.example/docs/errors#${code}`,
        field: 'source.account',
        requestId: 'req_1',
        requestIdReusable: reusable ?? false,
        retryClassification: retry,
      },
    );
    assert.equal(nextStep(error), STEPS_OF[code] ?? STEPS[retry]);
    const isTransient = status === 429 || status >= 500;
    assert.equal(server.calls.length, isTransient ? 1 + QUICK.retries : 1);
    // To the byte the same each time.
    assert.deepEqual(new Set(server.calls.map(({ text }) => text)), new Set([JSON.stringify(BODY)]));
  });
}

for (const [code, { retry }] of Object.entries(ERROR_CODES).filter(([, { status }]) => status === null)) {
  test(`a payment that failed with ${code} says what to do next`, () => {
    const status = { payment_id: 'pay_a', status: 'failed', error: { code, message: 'it failed', retry_classification: retry } };
    assert.throws(
      () => PaymentFailed.unlessCompleted(status),
      (error) => error instanceof PaymentFailed && nextStep(error) === STEPS[retry],
    );
    // The table stands in where the answer does not classify it.
    delete status.error.retry_classification;
    assert.equal(nextStep(new PaymentFailed(status)), STEPS[retry]);
  });
}

test('a code that is not known goes by its classification, and without one it is to be reconciled', async (t) => {
  const server = await serve(t, (_, __, count) => ({
    status: 400,
    body:
      count === 1
        ? { code: 'OF_TOMORROW', message: 'new', retry_classification: 'RETRY_WITH_NEW_REQUEST_ID' }
        : { code: 'OF_TOMORROW', message: 'new' },
  }));
  const gateway = new Gateway(server.url, QUICK);
  assert.equal(nextStep(await gateway.submit(BODY).catch((error) => error)), 'new-request');
  assert.equal(nextStep(await gateway.submit(BODY).catch((error) => error)), 'reconcile');
  assert.equal(server.calls.length, 2);
});

test('what helps later is sent again until it does', async (t) => {
  const answers = [
    { status: 503, body: errorBody('SERVICE_UNAVAILABLE') },
    { status: 500, body: errorBody('OUTCOME_UNKNOWN') },
    { status: 502, headers: { 'content-type': 'text/html' }, body: '<html>Bad gateway</html>' },
    { body: ANSWER },
  ];
  const server = await serve(t, (_, __, count) => answers[count - 1]);
  const answer = await new Gateway(server.url, QUICK).submit(BODY);
  assert.deepEqual(answer, ANSWER);
  assert.equal(new Set(server.calls.map(({ text }) => text)).size, 1);
});

test('Retry-After is waited for, and not beyond what the caller allows', async (t) => {
  const times = [];
  const server = await serve(t, (call, __, count) => {
    times.push(performance.now());
    if (call.url.includes('long')) return { status: 429, headers: { 'retry-after': '3600' }, body: errorBody('RATE_LIMITED') };
    return count === 1
      ? { status: 429, headers: { 'retry-after': '1' }, body: errorBody('RATE_LIMITED') }
      : { body: { payment_id: 'pay_a', status: 'completed' } };
  });
  const gateway = new Gateway(server.url, QUICK);
  await gateway.status('pay_a');
  assert.ok(times[1] - times[0] >= 990, `${times[1] - times[0]} ms`);
  const error = await gateway.status('long').catch((thrown) => thrown);
  assert.deepEqual([error.code, error.retryAfterMs, times.length], ['RATE_LIMITED', 3_600_000, 3]);
});

test('where nobody answers, nothing is known', async (t) => {
  const server = await serve(t, () => ({ body: ANSWER }));
  await server.close();
  const error = await new Gateway(server.url, QUICK).submit(BODY).catch((thrown) => thrown);
  assert.ok(error instanceof NoAnswer && nextStep(error) === 'resend', String(error));
});

test('a connection that breaks, an answer that is cut off and silence are no answers, and the same is sent again', async (t) => {
  const server = await serve(t, (_, response, count) => {
    if (count === 1) return void response.destroy();
    if (count === 2) {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
      response.write('{"payment_id"');
      return void response.destroy();
    }
    if (count === 3) return undefined;
    return { body: ANSWER };
  });
  assert.deepEqual(await new Gateway(server.url, { ...QUICK, timeoutMs: 200 }).submit(BODY), ANSWER);
  assert.equal(server.calls.length, 4);
});

test('something else than a gateway is told from one', async (t) => {
  const server = await serve(t, () => ({ status: 404, headers: { 'content-type': 'text/html' }, body: '<html>' }));
  const error = await new Gateway(server.url, QUICK).timeline('pay_a').catch((thrown) => thrown);
  assert.deepEqual([error.code, error.retryClassification, server.calls.length], ['HTTP_404', undefined, 1]);
});

test('nothing is sent on to where a redirect points', async (t) => {
  const other = await serve(t, () => ({ body: ANSWER }));
  const server = await serve(t, () => ({ status: 307, headers: { location: `${other.url}/v1/payments` } }));
  await assert.rejects(new Gateway(server.url, { ...QUICK, retries: 0 }).submit(BODY), NoAnswer);
  assert.equal(other.calls.length, 0);
});

test('a caller may stop, and its reason comes back', async (t) => {
  const server = await serve(t, () => undefined);
  const reason = new Error('the person left');
  const controller = new AbortController();
  const call = new Gateway(server.url, QUICK).status('pay_a', { signal: controller.signal });
  controller.abort(reason);
  await assert.rejects(call, reason);
});

test('a read shows no less than the answer before (X-Position)', async (t) => {
  const server = await serve(t, (call) =>
    call.method === 'POST'
      ? { headers: { 'x-position': '12' }, body: ANSWER }
      : { headers: { 'x-position': '9' }, body: { ...ANSWER, status: 'completed' } },
  );
  const gateway = new Gateway(server.url, QUICK);
  await gateway.submit(BODY, { waitSeconds: 0 });
  await gateway.status('pay_a');
  await gateway.status('pay_a');
  assert.equal(server.calls[0].headers.prefer, 'wait=0');
  assert.deepEqual(
    server.calls.slice(1).map(({ headers }) => headers['x-position']),
    ['12', '12'],
  );
});

test('a request id is resolved, and one that is free is not an error', async (t) => {
  const server = await serve(t, (call) =>
    call.url.includes('order-7') ? { body: { ...ANSWER, updated_at: '' } } : { status: 404, body: errorBody('PAYMENT_NOT_FOUND') },
  );
  const gateway = new Gateway(server.url, QUICK);
  assert.equal((await gateway.resolve({ requestId: 'order-7', account: '0xa' })).payment_id, 'pay_a');
  assert.equal(await gateway.resolve({ requestId: 'order-8', originator: 'did:example:a' }), undefined);
  assert.deepEqual(
    server.calls.map(({ url }) => url),
    ['/v1/payments/resolve?request_id=order-7&account=0xa', '/v1/payments/resolve?request_id=order-8&originator=did%3Aexample%3Aa'],
  );
});

test('a payment is waited for, through answers that are missing', async (t) => {
  const statuses = ['pending', 'missing', 'finalizing', 'completed', 'completed'];
  const rests = [false, true];
  const server = await serve(t, (call) => {
    if (call.url.endsWith('/timeline'))
      return { body: { payment_id: 'pay_a', status: 'completed', at_rest: rests.shift(), entries: [] } };
    const status = statuses.shift();
    return status === 'missing'
      ? { status: 503, body: errorBody('SERVICE_UNAVAILABLE') }
      : { body: { payment_id: 'pay_a', status } };
  });
  const gateway = new Gateway(server.url, QUICK);
  const seen = [];
  const status = await gateway.wait('pay_a', { until: 'rest', pollMs: 1, onStatus: ({ status }) => void seen.push(status) });
  assert.deepEqual([status.status, seen], ['completed', ['pending', 'finalizing', 'completed', 'completed']]);
});

test('waiting ends where the caller says', async (t) => {
  const server = await serve(t, () => ({ body: { payment_id: 'pay_a', status: 'pending' } }));
  await assert.rejects(new Gateway(server.url, QUICK).wait('pay_a', { timeoutMs: 20, pollMs: 5 }), TimedOut);
});

test('an answer that does not end is read to a limit', async (t) => {
  const MIB = 1 << 20;
  const closed = [];
  for (const status of [200, 400]) {
    let sent = 0;
    const server = await serve(t, (_, response) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      const more = () => {
        while (!response.destroyed) {
          sent += MIB;
          if (!response.write(' '.repeat(MIB))) return void response.once('drain', more);
        }
      };
      closed.push(new Promise((resolve) => response.once('close', resolve)));
      more();
    });
    const error = await new Gateway(server.url, { ...QUICK, retries: 0 }).status('pay_a').then(assert.fail, (thrown) => thrown);
    assert.ok(status === 200 ? error instanceof NoAnswer : error instanceof GatewayError && error.code === 'HTTP_400', String(error));
    await Promise.all(closed);
    assert.ok(sent >= 8 * MIB && sent < 64 * MIB, String(sent));
  }
});
