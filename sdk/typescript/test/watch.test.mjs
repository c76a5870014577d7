import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gateway, GatewayError } from 'gateway-client';
import { QUICK, serve } from './support.mjs';

const entry = (id) => ({
  id,
  version: 1,
  event: `Event${id}`,
  at: '2030-01-01T00:00:00Z',
  status: 'pending',
  cause: 'payment_request',
  summary: 'äöü',
});
const block = (id, more = '') => `id: ${id}\ndata: ${JSON.stringify(entry(id))}\n${more}\n`;
const STREAM = { 'content-type': 'text/event-stream' };

async function all(gateway, options) {
  const seen = [];
  for await (const { event, summary } of gateway.watch('pay_a', options)) {
    assert.equal(summary, 'äöü');
    seen.push(event);
  }
  return seen;
}

test('a connection that breaks is opened again behind the last entry', async (t) => {
  const answers = [
    (response) => {
      response.writeHead(200, STREAM);
      response.write(block('1.0', 'retry: 1\n'));
      response.write(block('2.0'));
      // Half of an event is not one.
      response.write(block('3.0').slice(0, 20), () => response.destroy());
    },
    (response) =>
      response
        .writeHead(503, { 'content-type': 'application/json', 'retry-after': '0' })
        .end('{"code":"TOO_MANY_STREAMS","message":"too many","retry_classification":"RETRY_AFTER_DELAY"}'),
    (response) => response.destroy(),
    (response) => response.writeHead(200, STREAM).end(`:\n${block('3.0')}:\n${block('4.0')}`),
    (response) => response.writeHead(204).end(),
  ];
  const server = await serve(t, (_, response, count) => void answers[count - 1](response));
  assert.deepEqual(await all(new Gateway(server.url, QUICK)), ['Event1.0', 'Event2.0', 'Event3.0', 'Event4.0']);
  assert.deepEqual(
    server.calls.map(({ headers }) => headers['last-event-id']),
    [undefined, '2.0', '2.0', '2.0', '4.0'],
  );
  assert.ok(
    server.calls.every(({ headers, url }) => headers.accept === 'text/event-stream' && url === '/v1/payments/pay_a/events'),
  );
});

test('events are read however their bytes are cut, and whatever ends their lines', async (t) => {
  for (const end of ['\n', '\r\n', '\r']) {
    const bytes = Buffer.from((block('1.0') + block('2.0')).replaceAll('\n', end));
    const server = await serve(t, async (_, response, count) => {
      if (count > 1) return void response.writeHead(204).end();
      response.writeHead(200, STREAM);
      for (const byte of bytes) await new Promise((resolve) => response.write(Buffer.of(byte), resolve));
      response.end();
    });
    assert.deepEqual(
      await all(new Gateway(server.url, QUICK), { lastEventId: '0.9' }),
      ['Event1.0', 'Event2.0'],
      JSON.stringify(end),
    );
    assert.equal(server.calls[0].headers['last-event-id'], '0.9');
  }
});

test('a payment that is not there is an error, and whoever stops watching lets go of the connection', async (t) => {
  let closed;
  const gone = new Promise((resolve) => (closed = resolve));
  const server = await serve(t, (call, response) => {
    if (call.url.includes('pay_b'))
      return { status: 404, body: { code: 'PAYMENT_NOT_FOUND', message: 'there is no such payment' } };
    response.on('close', closed);
    response.writeHead(200, STREAM).write(block('1.0'));
    return undefined;
  });
  const gateway = new Gateway(server.url, QUICK);
  await assert.rejects(
    gateway.watch('pay_b').next(),
    (error) => error instanceof GatewayError && error.code === 'PAYMENT_NOT_FOUND',
  );
  for await (const { event } of gateway.watch('pay_a')) {
    assert.equal(event, 'Event1.0');
    break;
  }
  await gone;
  const controller = new AbortController();
  const watching = gateway.watch('pay_a', { signal: controller.signal });
  await watching.next();
  const reason = new Error('enough');
  controller.abort(reason);
  await assert.rejects(watching.next(), reason);
});
