// Pays by the client of hey-api, and follows the payment by its server-sent events.
import { setTimeout as pause } from 'node:timers/promises';
import { createClient, createConfig } from './generated/hey-api/client/index.js';
import { followPayment, preparePayment, readDefaults, readPaymentStatus, submitPayment } from './generated/hey-api/sdk.gen.js';
import type { PaymentStatus, PrepareRequest, TimelineEntry } from './generated/hey-api/types.gen.js';
import { orderOf, place, POLL_MS, sign, tell } from './wallet.js';

const here = place();
const client = createClient(createConfig({ baseUrl: here.gateway }));
const order = orderOf<PrepareRequest>(here);

const { data: defaults } = await readDefaults({ client, throwOnError: true });
if (!('chains' in defaults)) throw new Error('one chain, where all were asked for');
for (const { required_depth } of Object.values(defaults.chains)) {
  const depth: 'finalized' | number = required_depth;
  if (depth !== 'finalized' && !Number.isInteger(depth)) throw new Error(`required_depth: ${depth}`);
}

const { data: prepared } = await preparePayment({ client, throwOnError: true, body: order });
const { approval, message_scheme, signed_messages } = prepared;
if (approval) throw new Error('the allowance does not suffice');
const signed = await Promise.all(signed_messages.map(async (one) => ({ ...one, signature: await sign(here, one) })));

const { data: submitted } = await submitPayment({
  client,
  throwOnError: true,
  headers: { Prefer: 'wait=0' },
  body: { ...order, sender_auth: { message_scheme, signed_messages: signed } },
});
const path = { paymentId: submitted.payment_id };
const { stream } = await followPayment({ client, path });
const happened: string[] = [];
for await (const entry of stream) happened.push((entry as TimelineEntry).event);
if (happened[0] !== 'Submitted') throw new Error(`what happened: ${happened}`);

let status: { payment_id: string; status: PaymentStatus } = submitted;
while (status.status === 'pending' || status.status === 'finalizing') {
  await pause(POLL_MS);
  ({ data: status } = await readPaymentStatus({ client, throwOnError: true, path }));
}
tell('hey-api', status);
