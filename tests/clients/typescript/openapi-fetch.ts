// Pays by the types of openapi-typescript with openapi-fetch.
import { setTimeout as pause } from 'node:timers/promises';
import createClient from 'openapi-fetch';
import type { components, paths } from './generated/openapi-typescript.js';
import { orderOf, place, POLL_MS, sign, tell } from './wallet.js';

type Order = components['schemas']['PrepareRequest'];

const here = place();
const client = createClient<paths>({ baseUrl: here.gateway });
const order = orderOf<Order>(here);

function given<T>({ data, error }: { data?: T; error?: unknown }): T {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

const defaults = given(await client.GET('/v1/defaults'));
if (!('chains' in defaults)) throw new Error('one chain, where all were asked for');
// `finalized` or a number: nothing else is left to narrow.
for (const { required_depth } of Object.values(defaults.chains)) {
  const depth: 'finalized' | number = required_depth;
  if (depth !== 'finalized' && !Number.isInteger(depth)) throw new Error(`required_depth: ${depth}`);
}

const { approval, message_scheme, signed_messages } = given(await client.POST('/v1/payments/prepare', { body: order }));
if (approval) throw new Error('the allowance does not suffice');
const signed = await Promise.all(signed_messages.map(async (one) => ({ ...one, signature: await sign(here, one) })));

const submitted = given(
  await client.POST('/v1/payments', {
    params: { header: { Prefer: 'wait=5' } },
    body: { ...order, sender_auth: { message_scheme, signed_messages: signed } },
  }),
);
let status: { payment_id: string; status: components['schemas']['PaymentStatus'] } = submitted;
while (status.status === 'pending' || status.status === 'finalizing') {
  await pause(POLL_MS);
  const params = { path: { paymentId: submitted.payment_id } };
  const read = given(await client.GET('/v1/payments/{paymentId}/status', { params }));
  // A page is for who prefers it.
  if (typeof read === 'string') throw new Error('a page');
  status = read;
}
tell('openapi-typescript', status);
