// Parts of the console that need no browser.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

import { optionsOf } from '../bundle.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const json = (name) => JSON.parse(readFileSync(at(`../data/${name}`), 'utf8'));

// What a browser has.
globalThis.window = { addEventListener: () => undefined };
globalThis.location = { hash: '' };
globalThis.sessionStorage = { getItem: () => null };

/** A module of the console. */
async function part(name) {
  const { outputFiles } = await build({ ...optionsOf('console'), entryPoints: [`src/console/${name}.ts`], format: 'esm', write: false, outdir: undefined, outfile: 'part.js' });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);
}

const { visible, textOf } = await part('safe');
const { amountOf, assetOf, bytesText, settlerName, shareText, shortId, sinceText, spanText, valueText } = await part('format');
const { hashOf, readRoute } = await part('route');
const { PaymentList } = await part('list');
const { laneOf, marksOf, transactionsOf, verifiersOf, LANES } = await part('lanes');
const { indexAt, pathOf, roundUp } = await part('graph');
const { backOff } = await part('poll');
const { ActsRecord, toldOf, whoPaused } = await part('acts');
const origin = await part('origin');

test('every type of event has a lane and a text', () => {
  const folder = at('../../events/src/event');
  const sources = readdirSync(folder).map((name) => readFileSync(`${folder}/${name}`, 'utf8').split('#[cfg(test)]')[0]);
  // The names of types are the texts in camel case.
  const types = new Set(sources.flatMap((source) => [...source.matchAll(/(?:=> |= )"((?:[A-Z][a-z]+)+)"/g)].map(([, name]) => name)));
  const { lanes, events } = json('lanes.json');
  assert.ok(types.size > 30, `${types.size} types are found`);
  assert.deepEqual(Object.keys(events).sort(), [...types].sort());
  assert.ok(Object.values(events).every((lane) => lanes.includes(lane)));
  const texts = json('console.en.json');
  assert.deepEqual([...types].filter((type) => !texts[`event.${type}`]), []);
  assert.deepEqual(lanes.filter((lane) => !texts[`lane.${lane}`]), []);
  for (const unknown of ['SomethingNew', 'constructor', '__proto__']) assert.equal(LANES[laneOf(unknown)], 'gateway');
});

test('every text is used', () => {
  const folder = at('../src/console');
  const sources = readdirSync(folder, { recursive: true }).filter((name) => /\.tsx?$/.test(name)).map((name) => readFileSync(`${folder}/${name}`, 'utf8')).join('\n');
  const groups = [...sources.matchAll(/named\('([a-z._]+)'/g), ...sources.matchAll(/`([a-z._]+)\.\$\{/g)].map(([, group]) => `${group}.`);
  const unused = Object.keys(json('console.en.json')).filter((name) => !sources.includes(`'${name}'`) && !groups.some((group) => name.startsWith(group)));
  assert.deepEqual(unused, []);
});

test('what cannot be seen in a text is written out', () => {
  assert.equal(visible('a\u202eb\u0007\u200b\n\tc\ud800'), 'a\\u{202e}b\\u{7}\\u{200b}\n\tc\\u{d800}');
  // Fillers, joiners, selectors and tags, which a screen shows nothing of.
  assert.equal(visible('a\u180eb\u3164c\u034fd\u{e0041}\u{e007f}e\ufe0f\u115f\u2028\ufff9'), 'a\\u{180e}b\\u{3164}c\\u{34f}d\\u{e0041}\\u{e007f}e\\u{fe0f}\\u{115f}\\u{2028}\\u{fff9}');
  assert.equal(visible('Zürich 😀 漢字 عربى'), 'Zürich 😀 漢字 عربى');
  assert.deepEqual([textOf(null), textOf(7), textOf({ a: '\u202e' })], ['', '7', '{"a":"\\u{202e}"}']);
});

test('amounts are exact', () => {
  const asset = { asset_identifier: 'x', symbol: 'X', decimals: 18 };
  assert.equal(amountOf(asset, '123456789012345678901234567'), '123 456 789.012345678901234567');
  assert.equal(amountOf({ ...asset, decimals: 6 }, '25500000'), '25.5');
  assert.equal(amountOf(undefined, '25500000'), '25 500 000');
  const largest = (2n ** 256n - 1n).toString();
  assert.equal(amountOf({ ...asset, decimals: 0 }, largest).replaceAll(' ', ''), largest);
  for (const strange of ['1e9', '-5', '', 'NaN', '1'.repeat(79)]) assert.equal(amountOf(asset, strange), strange);
  const chains = [{ chain_id: 'eip155:1', name: 'E', assets: [{ ...asset, asset_identifier: 'eip155:1/erc20:0xAb' }] }];
  assert.equal(assetOf(chains, 'eip155:1/erc20:0xaB').symbol, 'X');
  assert.equal(assetOf(chains, 'eip155:2/erc20:0xab'), undefined);
});

test('spans and figures are short, and say no more than is so', () => {
  assert.deepEqual([0, 12, 1_804, 59_600, 65_000, 3_720_000, 90_000_000].map(spanText), ['0 ms', '12 ms', '1.8 s', '59 s', '1 min 5 s', '1 h 2 min', '1 d 1 h']);
  assert.equal(sinceText('2026-01-01T00:00:00Z', Date.parse('2026-01-01T02:59:00Z')), '2 h');
  assert.equal(sinceText('nonsense'), '–');
  assert.deepEqual([shareText(999_999, 1_000_000), shareText(1, 1_000_000), shareText(5, 5), shareText(0, 7), shareText(0, 0)], ['99.9 %', '< 0.1 %', '100 %', '0.0 %', '–']);
  assert.deepEqual([bytesText(17), bytesText(2_804_331_221)], ['17 B', '2.6 GiB']);
  assert.deepEqual([valueText('per_second', 8.177), valueText('seconds', 0.0042), valueText('ratio', 1), valueText('coins', 0.0412), valueText('count', null)], ['8.18/s', '4 ms', '100 %', '0.0412', '–']);
  assert.deepEqual([shortId(`pay_${'a'.repeat(52)}`), shortId(`eip155:1:0x${'b'.repeat(40)}`), shortId('order-7')], ['pay_aaaaaa…aaaaaa', '0xbbbbbb…bbbbbb', 'order-7']);
  assert.deepEqual([shortId('7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV'), shortId(`did:key:z6Mk${'a'.repeat(30)}bcdefghijk`)], ['7EcDhS…wCFLtV', 'did:key:z6Mkaaaa…bcdefghijk']);
});

test('whose domain it is is never left out of a name', () => {
  assert.equal(settlerName('did:web:settler.example'), 'settler.example');
  const whole = 'a-settler-with-a-name-that-is-longer-than-any-room.co.uk';
  assert.equal(settlerName(`did:web:${whole}`), whole);
  assert.equal(settlerName(`did:web:bank.example.${'www.'.repeat(20)}thief.city.kawasaki.jp`), '…www.www.www.thief.city.kawasaki.jp');
  assert.equal(settlerName('did:web:bank.example%3A8443:users:of:the:house:alice:and:bob'), 'bank.example%3A8443:users:…nd:bob');
  assert.equal(shortId('did:web:settler.of.a.bank.example.com'), 'did:web:settler.of.a.bank.example.com');
});

test('an address says the view and its filters, and nothing else is read from it', () => {
  const query = { status: 'failed', settler: 'did:web:a.example', q: undefined };
  assert.equal(hashOf('payments', undefined, query), '#/payments?status=failed&settler=did%3Aweb%3Aa.example');
  assert.deepEqual(readRoute(hashOf('payments', undefined, query)), { view: 'payments', id: undefined, query: { status: 'failed', settler: 'did:web:a.example' } });
  assert.deepEqual(readRoute('#/payments/pay_x?status=failed'), { view: 'payments', id: 'pay_x', query: {} });
  assert.deepEqual(readRoute('#/parked?q=1'), { view: 'parked', id: undefined, query: {} });
  for (const strange of ['', '#', '#/nothing', '#/payments?token=gwc_x', '#//', '#/constructor']) assert.deepEqual(readRoute(strange).query, {});
  assert.equal(readRoute('#/payments/%E0%A4%A').id, '%E0%A4%A');
});

const row = (n, more = {}) => ({ payment_id: `p${n}`, submitted_at: new Date(1_800_000_000_000 + n * 1000).toISOString(), status: 'pending', stage: 'auction', source: { asset_identifier: 'a', account: 'b', permitted_amount: '1', refunded: false }, shard: 0, parked: false, version: 1, ...more });
const page = (rows, next = 'more') => ({ payments: rows, next_cursor: next, looked_at: rows.length, uncertain_shards: [] });
const shown = (list) => Array.from({ length: list.length }, (_, n) => list.at(n).row.payment_id);
const down = (from, to) => Array.from({ length: from - to + 1 }, (_, n) => row(from - n));

test('the list holds each payment once, newest first, whatever comes when', () => {
  const list = new PaymentList();
  list.older(page(down(20, 11)));
  list.older(page(down(12, 1), null));
  assert.deepEqual(shown(list), down(20, 1).map(({ payment_id }) => payment_id));
  assert.equal(list.newest(page([row(22), row(21), ...down(20, 14)])), false);
  assert.deepEqual([list.freshCount, list.length], [2, 20]);
  list.show();
  assert.deepEqual(shown(list).slice(0, 3), ['p22', 'p21', 'p20']);
  // One of a shard that was behind comes to where its time is.
  list.newest(page([row(22), row(21.5), row(21)]));
  list.newest(page([row(23), row(22), row(21.5)]));
  list.show();
  assert.deepEqual(shown(list).slice(0, 4), ['p23', 'p22', 'p21.5', 'p21']);
});

test('the list tells a gap, what changed, and what is not among the filtered any more', () => {
  const list = new PaymentList();
  list.older(page(down(20, 11)));
  assert.equal(list.newest(page(down(40, 31))), true);
  assert.equal(list.between(page(down(30, 25))), false);
  assert.equal(list.between(page(down(24, 15))), true);
  list.show();
  assert.equal(list.length, 30);
  list.newest(page([row(40, { version: 3, status: 'completed' }), ...down(39, 31)]));
  assert.equal(list.at(0).row.status, 'completed');
  // An older answer that comes late changes nothing.
  list.newest(page([row(40, { version: 2 }), ...down(39, 31)]));
  assert.equal(list.at(0).row.status, 'completed');
  list.newest(page([row(40, { version: 3 }), ...down(38, 30)]));
  assert.deepEqual([list.at(0).isGone, list.at(1).isGone, list.at(2).isGone], [false, true, false]);
  // While a shard is not current, nothing is said to be gone.
  const other = new PaymentList();
  other.older(page(down(5, 1)));
  other.newest({ ...page([row(5), row(3)]), uncertain_shards: [2] });
  assert.equal(other.at(1).isGone, false);
});

test('a verifier set is shown with those who have attested, each once', () => {
  const [first, second, third] = ['1', '2', '3'].map((digit) => `0x${digit.repeat(40)}`);
  const set = { threshold: 2, members: [first, second, third].map((account) => ({ account, endpoint: 'https://verifier.example' })) };
  const of = (verifier, ...events) => [{ events: [{ type: 'Submitted', data: { verifier } }] }, { events: events.map(([type, member]) => ({ type, data: { member } })) }];
  const seen = verifiersOf(of({ set }, ['DeliveryAttested', third], ['DeliveryAttested', third], ['FulfillmentConfirmed', first]));
  assert.deepEqual(seen, { threshold: 2, members: [first, second, third], attested: [third] });
  assert.deepEqual(verifiersOf(of({ set }, ['NonDeliveryAttested', second])).attested, [second]);
  const another = [['NonDeliveryAttested', second], ['ReservationLapsed', second], ['EscrowReassigned', second], ['DeliveryAttested', third]];
  assert.deepEqual(verifiersOf(of({ set }, ...another)).attested, [third]);
  for (const nothing of [{ account: first }, { set: { threshold: 2 } }, undefined, 'text']) assert.equal(verifiersOf(of(nothing)), undefined);
  const [mark] = marksOf([{ version: 1, stored_at: 'x', events: [{ type: 'DeliveryAttested', data: { member: first } }] }]);
  assert.deepEqual([LANES[mark.lane], mark.detail, mark.isBad], ['verifier', shortId(first), false]);
});

test('events are at their time in their lane', () => {
  const commit = (second, ...types) => ({ version: second, stored_at: new Date(1_800_000_000_000 + second * 1000).toISOString(), events: types.map((type) => ({ type, data: { inclusion: { chain_id: 'eip155:1', transaction_hash: `0x${second}`, block_number: 7 } } })) });
  const marks = marksOf([commit(0, 'Submitted'), commit(2, 'AuctionClosed', 'QuoteAwarded'), commit(1_000, 'Failed')]);
  assert.deepEqual(marks.map(({ lane }) => LANES[lane]), ['payer', 'gateway', 'settler', 'gateway']);
  assert.deepEqual(marks.map(({ sinceMs }) => sinceMs), [undefined, 2_000, 0, 998_000]);
  assert.ok(marks.every(({ top }, n) => n === 0 || top >= marks[n - 1].top + 30));
  assert.deepEqual(marks.map(({ isBad }) => isBad), [false, false, false, true]);
  assert.deepEqual(transactionsOf([commit(1, 'DepositMined'), commit(1, 'EscrowSecured')]).map(({ hash, type, block }) => [hash, type, block]), [['0x1', 'EscrowSecured', 7]]);
  assert.deepEqual(marksOf([{ version: 1, stored_at: 'never', events: [{ type: 'X', data: null }, { type: 'Y', data: 'text' }] }]).map(({ sinceMs }) => sinceMs), [undefined, undefined]);
});

test('a graph has a gap where there is no value', () => {
  const surface = { width: 100, height: 10, most: 4 };
  assert.equal(pathOf([0, 4, null, 2, null], surface), 'M0.0 10.0h.1L25.0 0.0M75.0 5.0h.1');
  assert.equal(pathOf([Number.NaN, 9], surface), 'M100.0 0.0h.1');
  assert.deepEqual([0, 0.09, 1, 7.3, 8.2, 1_201].map(roundUp), [1, 0.1, 1, 8, 10, 1_500]);
  assert.deepEqual([indexAt(-5, 360, 300), indexAt(150, 360, 300), indexAt(900, 360, 300), indexAt(5, 0, 300)], [0, 180, 359, 0]);
});

test('who fails asks less and less often, and not before the gateway wants it', () => {
  const spans = [1, 2, 3, 10, 100].map((failures) => [backOff(failures, 0, 0), backOff(failures, 0, 1)]);
  assert.deepEqual(spans, [[500, 1_000], [1_000, 2_000], [2_000, 4_000], [30_000, 60_000], [30_000, 60_000]]);
  assert.ok(backOff(1, 120_000, 0) >= 120_000);
});

test('an order is told with its end, and one without says so', () => {
  const told = toldOf([
    { sequence: 1, stored_at: 'a', entry: { entry: 'ordered', id: 'act_1', at: 'a', by: 'ana', origin: 'console', act: { act: 'pause' } } },
    { sequence: 3, stored_at: 'c', entry: { entry: 'ended', id: 'act_1', at: 'c', outcome: { outcome: 'failed', error: 'no' } } },
    { sequence: 2, stored_at: 'b', entry: { entry: 'ordered', id: 'act_2', at: 'b', by: 'ben', origin: 'command_line', act: { act: 'resume' } } },
    { sequence: 4, stored_at: 'd', entry: { entry: 'unknown', id: 'act_3', reason: 'newer' } },
  ]);
  assert.deepEqual(told.map(({ id, order, end, unknown }) => [id, order?.by, end?.outcome.error, unknown]), [['act_3', undefined, undefined, 'newer'], ['act_2', 'ben', undefined, undefined], ['act_1', 'ana', 'no', undefined]]);
  // What the stream says of the time is what is told; what whoever ordered says of it is his word.
  const [claimed] = toldOf([{ sequence: 1, stored_at: '2026-01-02T00:00:00Z', entry: { entry: 'ordered', id: 'a', at: '1999-01-01T00:00:00Z', by: 'ana', origin: 'command_line', act: { act: 'resume' } } }]);
  assert.deepEqual([claimed.storedAt, claimed.order.at], ['2026-01-02T00:00:00Z', '1999-01-01T00:00:00Z']);
});

test('who paused is known where one order alone can have been it', () => {
  const at = (second) => new Date(1_800_000_000_000 + second * 1000).toISOString();
  const ordered = (id, by, second, reason) => ({ sequence: second * 2 + 1, stored_at: at(second), entry: { entry: 'ordered', id, at: at(second), by, origin: 'console', act: { act: 'pause', ...(reason ? { reason } : {}) } } });
  const ended = (id, second) => ({ sequence: second * 2 + 2, stored_at: at(second), entry: { entry: 'ended', id, at: at(second), outcome: { outcome: 'done' } } });
  const entries = [ordered('a', 'ana', 1, 'x'), ended('a', 3), ordered('b', 'ben', 5, 'x'), ended('b', 7)];
  const who = (second, reason, of = entries) => whoPaused(of, { paused: true, since: at(second), reason })?.by;
  assert.deepEqual([who(2, 'x'), who(6, 'x'), who(4, 'x'), who(2, 'y'), who(2, null), who(9, 'x')], ['ana', 'ben', undefined, undefined, undefined, undefined]);
  // One without an end may have been it.
  assert.equal(who(9, null, [ordered('c', 'carol', 8)]), 'carol');
  assert.equal(who(9, null, [ordered('c', 'carol', 8), ordered('d', 'dave', 8)]), undefined);
});

test('the record has no gap, however much came at once', async () => {
  let count = 30;
  const asked = [];
  const page = async (before = count + 1) => {
    asked.push(before);
    const first = Math.max(1, before - 10);
    return { acts: Array.from({ length: before - first }, (_, n) => ({ sequence: before - 1 - n, stored_at: 'x', entry: { entry: 'unknown' } })), next_before: first > 1 ? first : null };
  };
  const record = new ActsRecord();
  const sequences = () => record.entries.map(({ sequence }) => sequence).sort((a, b) => a - b);
  const between = (from, to) => Array.from({ length: to - from + 1 }, (_, n) => from + n);
  await record.update(page);
  assert.deepEqual([sequences(), record.next, asked.length], [between(21, 30), 21, 1]);
  count = 75;
  await record.update(page);
  assert.deepEqual([sequences(), record.next, asked.length], [between(21, 75), 21, 6]);
  await record.older(page);
  assert.deepEqual([sequences(), record.next], [between(11, 75), 11]);
  await record.update(page);
  assert.deepEqual(sequences(), between(11, 75));
  // More than is followed: it begins anew.
  count = 2_000;
  await record.update(page);
  assert.deepEqual([sequences(), record.next], [between(1_501, 2_000), 1_501]);
  await record.older(page);
  assert.equal(sequences()[0], 1_491);
  // A page that fails half-way changes nothing.
  count = 2_050;
  await assert.rejects(record.update((before) => (before ? Promise.reject(new Error('away')) : page())));
  assert.equal(sequences().at(-1), 2_000);
  await record.update(page);
  assert.deepEqual(sequences(), between(1_491, 2_050));
});

test('who was not heard for a while is looked at, and is known by the page', async () => {
  const answers = [];
  globalThis.fetch = async (path, { headers, credentials }) => {
    assert.deepEqual([path, headers, credentials], ['/', undefined, 'omit']);
    const [status, text] = answers.shift();
    return new Response(text, { status });
  };
  assert.equal(origin.isHeard(), false);
  answers.push([502, 'bad gateway'], [200, 'the page'], [200, 'another'], [404, 'the page'], [503, 'the page'], [200, 'the page']);
  await assert.rejects(origin.isSamePage());
  assert.deepEqual(await Promise.all([origin.isSamePage(), origin.isSamePage()]), [true, true]);
  assert.equal(origin.isHeard(), true);
  origin.lost();
  assert.equal(origin.isHeard(), false);
  assert.deepEqual([await origin.isSamePage(), await origin.isSamePage()], [false, false]);
  await assert.rejects(origin.isSamePage());
  assert.equal(origin.isHeard(), false);
  assert.equal(await origin.isSamePage(), true);
  const { now } = Date;
  try {
    for (const [later, is] of [[14_000, true], [16_000, false], [-60_000, false]]) {
      Date.now = () => now() + later;
      assert.equal(origin.isHeard(), is, `${later}`);
    }
  } finally {
    Date.now = now;
  }
});
