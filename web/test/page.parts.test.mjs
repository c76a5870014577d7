// Parts of the payers' page that need no browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { build } from 'esbuild';

import { optionsOf } from '../bundle.mjs';

/** A module of the page. */
async function part(name) {
  const { outputFiles } = await build({ ...optionsOf('page'), entryPoints: [`src/${name}.ts`], format: 'esm', write: false, outdir: undefined, outfile: 'part.js' });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);
}

const { meaningOf, orderOf, stagesOf, waitingFor } = await part('progress');

const MEMBERS = ['1', '2', '3'].map((digit) => ({ account: `0x${digit.repeat(40)}`, endpoint: `https://v${digit}.example` }));
const asset = { asset_identifier: 'eip155:1/slip44:60', account: MEMBERS[0].account };
const entry = (event, data = {}, status = 'pending') => ({ id: event, event, at: '2027-01-01T00:00:00Z', status, summary: '', data });
const submitted = (verifier) => entry('Submitted', { request_id: 'one', source: asset, destination: [asset], fulfillment_amount: '1', fulfillment_verifier: verifier });
const set = { account: '0x00', endpoint: MEMBERS[0].endpoint, threshold: 2, members: MEMBERS };

test('of a verifier set it is told how many have to attest, and how many have', () => {
  const told = (verifier, ...entries) => orderOf([submitted(verifier), ...entries]).verifiers;
  const said = (event, at) => entry(event, { verifier: MEMBERS[at].account, threshold: 2 });
  const members = MEMBERS.map(({ account }) => account);
  assert.deepEqual(told(set), { threshold: 2, members, attested: 0 });
  assert.equal(told(set, said('DeliveryAttested', 0), said('DeliveryAttested', 2)).attested, 2);
  assert.equal(told(set, said('NonDeliveryAttested', 1), said('NonDeliveryAttested', 1)).attested, 1);
  const another = [said('NonDeliveryAttested', 0), said('NonDeliveryAttested', 1), entry('ReservationLapsed')];
  assert.equal(told(set, ...another).attested, 2);
  assert.equal(told(set, ...another, entry('EscrowReassigned'), said('DeliveryAttested', 2)).attested, 1);
  assert.equal(orderOf([submitted(set)]).verifier, set.account);
  // A single verifier, as gateways show it and as older ones did.
  for (const single of [{ ...set, threshold: 1, members: MEMBERS.slice(0, 1) }, { account: '0x00', endpoint: '' }, undefined]) assert.equal(told(single), undefined);
  for (const strange of [{ ...set, members: 'three' }, { ...set, threshold: '2' }]) assert.equal(told(strange), undefined);
  assert.deepEqual(told({ ...set, members: [null, 7] }).members, ['', '']);
});

test('what members of a set attest moves a payment as far as it is', () => {
  const secured = [submitted(set), entry('QuoteAwarded'), entry('EscrowSecured')];
  const delivered = [...secured, entry('DeliveryAttested', {}, 'completed')];
  assert.deepEqual(stagesOf(delivered).map(({ stage, state }) => [stage, state]).at(-1), ['delivered', 'done']);
  assert.equal(waitingFor(delivered), 'waiting.attestation');
  const denied = [...secured, entry('NonDeliveryAttested')];
  assert.deepEqual(stagesOf(denied).map(({ stage, state }) => [stage, state]).at(-1), ['delivered', 'open']);
  assert.equal(waitingFor(denied), 'waiting.non_delivery');
});

test('a payment whose settler did not deliver waits for another, and its money stays in escrow', () => {
  const told = (...events) => {
    const entries = [submitted(set), entry('QuoteAwarded'), entry('EscrowSecured'), ...events.map((event) => entry(event))];
    return { waiting: waitingFor(entries), states: stagesOf(entries).map(({ state }) => state).join(' '), last: stagesOf(entries).at(-1).entry?.event };
  };
  const lapsed = told('FulfillmentSeen', 'ReservationLapsed');
  assert.deepEqual(lapsed, { waiting: 'waiting.another_settler', states: 'done done done running', last: 'ReservationLapsed' });
  assert.equal(told('ReservationLapsed', 'AuctionClosed').states, 'done running done running');
  assert.equal(told('ReservationLapsed', 'AuctionClosed', 'QuoteAwarded', 'ReassignmentPrepared').waiting, 'waiting.reassignment');
  const reassigned = told('ReservationLapsed', 'AuctionClosed', 'QuoteAwarded', 'ReassignmentPrepared', 'EscrowReassigned');
  assert.deepEqual([reassigned.waiting, reassigned.states], ['waiting.delivery.another', 'done done done running']);
});

/** A payment whose money is sent to an address. */
const sent = (...events) => [entry('Submitted', { ...submitted(set).data, max_source_amount: '100', message_scheme: 'EVM_DEPOSIT_ADDRESS', escrow: { reserve_deadline: 'then', refund_after: 'later' } }), ...events];

test('a payment by deposit address waits for its money first', () => {
  const told = (entries) => [waitingFor(entries), meaningOf(entries), stagesOf(entries).map(({ stage, state }) => `${stage} ${state}`).join(', ')];
  assert.deepEqual(told(sent()), ['waiting.address', 'status.awaited.text', 'accepted done, received running, matched open, funded open, delivered open']);
  const funded = sent(entry('AddressFunded', { amount: '100' }));
  assert.deepEqual(told(funded), ['waiting.quotes', 'status.pending.text', 'accepted done, received done, matched open, funded open, delivered open']);
  // Others have no such stage.
  assert.equal(stagesOf([submitted(set)]).length, 4);
  assert.deepEqual([orderOf(funded).refundAfter, orderOf([...funded, entry('EscrowSecured')]).refundAfter], ['then', 'later']);
});

test('what became of money that did not come as it was asked for is told in one sentence', () => {
  const failed = (code, ...events) => sent(entry('Failed', { error: { code, message: '' }, refund: 'nothing_due' }, 'failed'), ...events.map(([event, data]) => entry(event, data, 'failed')));
  const unpaid = (...events) => meaningOf(failed('DEPOSIT_NOT_RECEIVED', ...events));
  const held = (amount) => ['AddressHeld', { amount }];
  assert.equal(unpaid(), 'status.unpaid.text');
  assert.equal(unpaid(['DepositRuledOut']), 'status.unpaid.none');
  assert.deepEqual([unpaid(held('99')), unpaid(held('99'), ['EscrowRefunded'])], ['status.unpaid.short', 'status.unpaid.short.back']);
  assert.deepEqual([unpaid(held('100')), unpaid(held('100'), ['EscrowRefunded'])], ['status.unpaid.late', 'status.unpaid.late.back']);
  const open = failed('DEPOSIT_NOT_RECEIVED', held('50')).map((one) => ({ ...one, data: { ...one.data, max_source_amount: undefined } }));
  assert.deepEqual([meaningOf(open, '50'), meaningOf(open, '51')], ['status.unpaid.late', 'status.unpaid.short']);
  // Money that came, and that nobody delivered for.
  const unsold = (...events) => {
    const [first, ...rest] = failed('NO_QUOTES_RECEIVED', ...events);
    return [first, entry('AddressFunded', { amount: '100' }), ...rest];
  };
  const stages = (entries) => stagesOf(entries).map(({ stage, state }) => `${stage} ${state}`).join(', ');
  assert.deepEqual([meaningOf(unsold()), waitingFor(unsold())], ['status.failed.text', 'waiting.refund']);
  assert.equal(stages(unsold()), 'accepted done, received done, matched failed, refunded open');
  assert.deepEqual([meaningOf(unsold(held('100'))), waitingFor(unsold(held('100')))], ['status.failed.text', 'waiting.refund']);
  const back = unsold(held('100'), ['EscrowRefunded']);
  assert.deepEqual([meaningOf(back), waitingFor(back)], ['status.refunded.text', undefined]);
  assert.equal(stages(back), 'accepted done, received done, matched failed, refunded done');
  assert.equal(waitingFor(failed('DEPOSIT_NOT_RECEIVED', ['DepositRuledOut'])), undefined);
});
