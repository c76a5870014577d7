// A gateway's listener for operators as the console sees it, with payments that are made up: for the page's own behaviour.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { gunzipSync } from 'node:zlib';

export const TOKEN = `gwc_${'a'.repeat(43)}`;
export const READER = `gwc_${'r'.repeat(43)}`;
/** As the gateway serves its pages. */
const POLICY =
  "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/** Payments that are looked at for one page. */
const LOOKED_AT_MAX = 2_000;
const EVERY_MS = 700;
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
/** Text of somebody who means ill. */
export const HOSTILE = '<img src=x onerror="document.body.dataset.broken=1">\u202egnp.exe\u0007';

const ETHEREUM = 'eip155:1';
const BASE = 'eip155:8453';
const USDC = `${ETHEREUM}/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48`;
const DEV = `${BASE}/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913`;

const hash = (text) => createHash('sha256').update(text).digest();
const hex = (text) => hash(text).toString('hex');
const base32 = (text) => Array.from(createHash('sha512').update(text).digest().subarray(0, 52), (byte) => BASE32[byte & 31]).join('');
const account = (text) => `0x${hex(text).slice(0, 40)}`;
const payers = Array.from({ length: 500 }, (_, n) => account(`payer ${n}`));
const verifier = account('verifier');
/** One has a name that is longer than its room and begins like another's. */
const settlers = [...Array.from({ length: 6 }, (_, n) => `did:web:settler-${n}.example`), 'did:web:settler-1.example.a.name-that-is-longer-than-its-room.co.uk'];

export const idOf = (index) => `pay_${base32(`payment ${index}`)}`;
export const hashOf = (index, leg) => `0x${hex(`${leg} ${index}`)}`;

const stageOf = (index, count) => {
  const age = count - 1 - index;
  if (index % 97 === 5) return ['failed', 'ended'];
  if (age < 3) return ['pending', 'auction'];
  if (age < 10) return ['pending', age % 2 ? 'deposit' : 'delivery'];
  if (age < 20) return ['finalizing', 'finality'];
  return ['completed', age < 60 && age % 3 === 0 ? 'release' : 'ended'];
};

/** A time as the gateway writes it, finer than a browser's clock. */
const finely = (ms) => new Date(ms).toISOString().replace('Z', '456789Z');

/**
 * What `serve` gives: the address, and how its answers are turned. `port` is one that was free before, `parkedMax` how many of those
 * parked are shown and `replayMax` how many one order replays.
 */
export async function serve({ count: first = 100_000, parkedCount = 40, parkedMax = 2_000, replayMax = 1_000, port = 0 } = {}) {
  let count = first;
  const beginning = Date.now() - first * EVERY_MS;
  const parked = new Set(Array.from({ length: parkedCount }, (_, n) => first - 30 - n * 11));
  const isOverdue = (index) => index % 211 === 7 && index > count - 3_000;
  const paused = { paused: false, since: null, reason: null };
  let isParkingKnown = true;
  /** How it is said that a pause was changed: with this status. */
  let changedStatus = 409;
  const acts = [];
  const requests = [];
  /** Headers of those who asked for the page. */
  const pages = [];
  const failures = [];
  const holds = [];
  const alarms = [];
  const tokens = new Map([[TOKEN, { name: 'alice', may_act: true }], [READER, { name: `bob ${HOSTILE}`, may_act: false }]]);

  const rowOf = (index) => {
    const [status, stage] = stageOf(index, count);
    const amount = String(1_000_000n + (BigInt(index) * 7_919_333n) % 90_000_000_000n);
    const has = (leg) => ({ chain_id: leg === 'fulfillment' ? BASE : ETHEREUM, transaction_hash: hashOf(index, leg), block_number: 21_000_000 + index });
    const isAwarded = stage !== 'auction';
    const isPaid = isAwarded && stage !== 'deposit' && status !== 'failed';
    return {
      payment_id: idOf(index),
      request_id: `order-${index}`,
      originator: `eip155:1:${payers[index % 500]}`,
      submitted_at: new Date(beginning + index * EVERY_MS).toISOString(),
      ...(status === 'completed' ? { finished_at: new Date(beginning + index * EVERY_MS + 41_000).toISOString() } : {}),
      status,
      stage,
      ...(isOverdue(index) ? { overdue: { step: 'unreleased', since: new Date(Date.now() - 754_000).toISOString() } } : {}),
      ...(status === 'failed' ? { failure_code: 'NO_QUOTES' } : {}),
      source: { asset_identifier: USDC, account: payers[index % 500], permitted_amount: amount, ...(isPaid ? { paid_amount: amount } : {}), refunded: false },
      ...(isAwarded && status !== 'failed' ? { destination: { asset_identifier: DEV, account: account(`recipient ${index}`), amount: String(BigInt(amount) * 10n ** 12n), delivered: status === 'completed' }, settler: settlers[index % 7] } : {}),
      verifier: `eip155:1:${verifier}`,
      transactions: isPaid ? { deposit: has('deposit'), ...(status === 'completed' ? { fulfillment: has('fulfillment'), release: has('release') } : {}) } : {},
      shard: index % 16,
      parked: isParkingKnown ? parked.has(index) : null,
      version: status === 'completed' ? 12 : 4,
    };
  };

  const matches = (row, asked) => {
    const is = (name, value) => !asked.has(name) || asked.get(name) === String(value);
    const amount = BigInt(row.source.permitted_amount);
    return is('status', row.status) && is('stage', row.stage) && is('settler', row.settler) && is('originator', row.originator)
      && is('overdue', Boolean(row.overdue)) && is('parked', row.parked) && is('in_flight', row.stage !== 'ended')
      && (!asked.has('chain_id') || [row.source, row.destination].some((side) => side?.asset_identifier.startsWith(`${asked.get('chain_id')}/`)))
      && (!asked.has('submitted_from') || row.submitted_at >= asked.get('submitted_from'))
      && (!asked.has('submitted_until') || row.submitted_at < asked.get('submitted_until'))
      && (!asked.has('amount_from') || amount >= BigInt(asked.get('amount_from')))
      && (!asked.has('amount_to') || amount <= BigInt(asked.get('amount_to')));
  };

  const page = (asked) => {
    const limit = Number(asked.get('limit') ?? 50);
    let index = asked.has('cursor') ? Number(asked.get('cursor')) : count - 1;
    const payments = [];
    let looked = 0;
    for (; index >= 0 && payments.length < limit && looked < LOOKED_AT_MAX; index -= 1, looked += 1) {
      const row = rowOf(index);
      if (matches(row, asked)) payments.push(row);
    }
    return { payments, next_cursor: index >= 0 ? String(index) : null, looked_at: looked, uncertain_shards: [] };
  };

  const indexOfId = (id) => {
    for (let index = count - 1; index >= Math.max(0, count - 5_000); index -= 1) if (idOf(index) === id) return index;
    return -1;
  };

  const search = (text) => {
    const payments = [];
    for (let index = count - 1; index >= Math.max(0, count - 3_000) && payments.length < 50; index -= 1) {
      const row = rowOf(index);
      const texts = [row.payment_id, row.request_id, row.originator, row.source.account, row.destination?.account, ...Object.values(row.transactions).map(({ transaction_hash }) => transaction_hash)];
      if (texts.some((one) => one?.startsWith(text))) payments.push(row);
    }
    return { payments, quote_requests: text.startsWith('qrq_') ? [{ quote_request_id: `qrq_${base32('batch')}`, status: 'collecting' }] : [], incomplete: payments.length === 50, uncertain_shards: [] };
  };

  const detail = (index) => {
    const row = rowOf(index);
    const inclusion = (leg, chain_id) => ({ inclusion: { chain_id, transaction_hash: hashOf(index, leg), block_number: 21_000_000 + index, block_hash: `0x${hex(`block ${index}`)}`, block_time: 1_800_000_000 } });
    const prepared = (leg) => ({ attempt: 1, chain_id: ETHEREUM, sender: account('gateway'), validity: { nonce: 7 }, transaction_hash: hashOf(index, leg), raw: '0x02f8', prepared_at: row.submitted_at });
    const set = { threshold: 2, members: ['v1', 'v2', 'v3'].map((name) => ({ account: account(name), endpoint: `https://${name}.example` })) };
    const all = [
      [0, ['Submitted', { payment_id: row.payment_id, request_id: row.request_id, memo: HOSTILE, verifier: { account: verifier, endpoint: 'https://verifier.example', set } }]],
      [1_804, ['AuctionClosed', { addressed: settlers, quotes: settlers.slice(0, 3).map((settler) => ({ settler })), declines: [] }], ['QuoteAwarded', { quote_id: 'q-1' }]],
      [12, ['DepositPrepared', prepared('deposit')]],
      [11_930, ['DepositMined', inclusion('deposit', ETHEREUM)]],
      [16_020, ['EscrowSecured', { ...inclusion('deposit', ETHEREUM), amount: row.source.permitted_amount }], ['WinnerTold', {}]],
      [4_210, ['FulfillmentSeen', inclusion('fulfillment', BASE)]],
      [5_995, ['FulfillmentFinalized', inclusion('fulfillment', BASE)]],
      [320, ...set.members.slice(0, 2).map((member) => ['DeliveryAttested', { member: member.account, signature: '0xabcd', attested_at: row.submitted_at }])],
      [320, ['FulfillmentConfirmed', { ...inclusion('fulfillment', BASE), attestation: '0xabcd' }]],
      [65_000, ['ReleasePrepared', prepared('release')]],
      [12_400, ['ReleaseRepriced', { ...prepared('release'), attempt: 2 }], ['SomethingOfTomorrow', { text: HOSTILE }]],
      [9_000, ['EscrowReleased', inclusion('release', ETHEREUM)]],
    ].slice(0, row.status === 'completed' ? 12 : row.status === 'failed' ? 2 : 4);
    let at = Date.parse(row.submitted_at);
    let previous = '0'.repeat(64);
    const commits = all.map(([after, ...events], version) => {
      at += after;
      const own = hex(`${row.payment_id} ${version}`);
      const commit = { version: version + 1, sequence: index * 13 + version, stream: `GW_${row.shard}`, stored_at: new Date(at).toISOString(), commit_id: base32(`${own} id`).slice(0, 26), previous, hash: own, events: events.map(([type, data]) => ({ type, data })) };
      previous = own;
      return commit;
    });
    const state = parked.has(index)
      ? { since: new Date(Date.now() - 3_600_000).toISOString(), kind: 'unacceptable', text: `maximum payload exceeded ${HOSTILE}`, attempts: 5, gateway: 'gw-1', advice: 'The journal refuses what the engine decided, for the reason above;\nMend it, then replay.', history: [{ stored_at: row.submitted_at, entry: 'parked', cause: { kind: 'unacceptable', text: 'maximum payload exceeded' }, attempts: 5 }, { stored_at: row.submitted_at, entry: 'replayed', by: 'carol', at: row.submitted_at }] }
      : null;
    return { payment: row, commits, has_more: false, parked: state };
  };

  const shard = (number, own) => ({ shard: number, owned: number % 2 === own, state: number === 5 && own === 1 ? 'catching_up' : number === 11 && own === 0 ? 'stopped' : 'live', ...(number === 11 && own === 0 ? { reason: `a commit cannot be read ${HOSTILE}` } : {}), checkpoint: 90_000 + number, head: number === 5 && own === 1 ? 91_234 : 90_000 + number });
  const gateway = (name, own) => ({ gateway: name, result: { instance: hex(name).slice(0, 8), version: '1.4.0', listen: `10.0.0.${own + 1}:8080`, started_at: new Date(Date.now() - 90_000_000).toISOString(), uptime_seconds: 90_000, shards: Array.from({ length: 16 }, (_, n) => shard(n, own)), journal_alarms: own ? [{ shard: 3, checkpoint: 9, commit_id: 'x', head: 8, found_at: new Date(Date.now() - 60_000).toISOString(), message: 'the stream of shard 3 lost commits 8 to 9' }] : [], unattested: own ? 0 : 2, misconfigured: 0, ...(own ? { rebuild: { id: 'r', started_at: new Date().toISOString(), state: 'building', shards: Array.from({ length: 16 }, (_, n) => ({ shard: n, done: 40_000 + n * 900, total: 90_000 })) } } : {}) } });
  const wave = (points, least, most, phase) => Array.from({ length: points }, (_, n) => (n > 200 && n < 215 ? null : least + ((most - least) * (1 + Math.sin(n / 17 + phase))) / 2));

  const reads = {
    me: (_, who) => ({ ...who, gateway: 'gw-0', version: '1.4.0', now: new Date().toISOString(), pause: paused.paused ? paused : null, network: { chains: [{ chain_id: ETHEREUM, name: 'Ethereum', explorer_tx: 'javascript:alert(1)', assets: [{ asset_identifier: USDC, symbol: 'USDC', decimals: 6 }] }, { chain_id: BASE, name: 'Base', explorer_tx: null, assets: [{ asset_identifier: DEV, symbol: 'DEV', decimals: 18 }] }] } }),
    payments: (asked) => page(asked),
    search: (asked) => search(asked.get('q')),
    parked: () => ({ total: parked.size, parked: [...parked].slice(0, parkedMax).map((index, n) => ({ id: n === 1 ? `qrq_${base32('batch')}` : idOf(index), kind: n === 1 ? 'quote_request' : 'payment', since: new Date(Date.now() - 3_600_000 - n * 60_000).toISOString(), cause: ['unreadable', 'illegal', 'unacceptable', 'panicked'][n % 4], text: n === 0 ? HOSTILE : 'the stream holds events that cannot follow each other: EscrowReleased after Failed', attempts: 5, gateway: `gw-${n % 2}` })) }),
    settlers: () => ({ has_more: false, settlers: settlers.map((did, n) => ({ did, registered: n !== 6, corridors: n === 6 ? [] : [{ source_asset: USDC, destination_asset: DEV }], record: { settler: did, asked: 40_000, offered: 38_000, declined: 1_200, won: 3_000 - n * 217, acknowledged: 2_990 - n * 217, refused: n, unanswered: 10 - n, delivered: 2_900 - n * 217, late: 20 + n, missed: n, median_delivery_seconds: 12 + n * 3, last_won_at: new Date(Date.now() - n * 41_000).toISOString(), ...(n === 5 ? { passed_over_until: new Date(Date.now() + 90_000).toISOString() } : {}) } })) }),
    verifiers: () => ({ surveyed: { payments: 20_000, since: null }, observed: [['first', 'ok', 412], ['second', 'silent'], ['third', HOSTILE]].map(([name, state, median_ms]) => ({ endpoint: `https://${name}.example`, accounts: [{ account: account(name), set: account('set'), threshold: 2, members: 3, has_signed: state === 'ok' }], answers: { attested: median_ms === undefined ? 0 : 18_998, pending: 12, unreachable: state === 'silent' ? 40 : 0 }, state, ...(median_ms === undefined ? {} : { median_ms, p99_ms: 900, last_answered_at: new Date(Date.now() - 4_000).toISOString() }) })), verifiers: [{ endpoint: 'https://first.example', account: account('set'), set: { threshold: 2, members: ['first', 'second', 'third'].map((name) => ({ account: account(name), endpoint: `https://${name}.example` })) }, trusted: true, record: { delivered: 1_000, attested: 1_000, unattested: 0 } }, { endpoint: 'https://verifier.example', account: verifier, trusted: true, record: { delivered: 19_000, attested: 18_998, unattested: 2 } }, { endpoint: 'https://other.example', account: account('other'), trusted: false, record: { delivered: 0, attested: 0, unattested: 0 } }] }),
    chains: () => ({ chains: [[ETHEREUM, 'Ethereum', true], [BASE, 'Base', false]].map(([chain_id, name, ready]) => ({ chain_id, name, ready, cause: ready ? null : 'two of three nodes are behind', head: 21_400_123, settled: 21_400_059, submitters: [0, 1].map((n) => ({ account: account(`${name} ${n}`), coins: n ? 0.0412 : 3.2, nonces_in_flight: n ? null : 4 })), nodes: [0, 1, 2].map((n) => ({ origin: `https://node-${n}.example`, up: n < 2 || ready, head_lag: ready ? n : n * 9, latency_ms: 31.25 + n * 40, errors: n * 17, calls: 120_342, disagreements: ready ? 0 : n })) })) }),
    gateways: () => ({ gateways: [gateway('gw-0', 0), gateway('gw-1', 1)], silent: ['gw-2'] }),
    streams: () => ({ streams: [...Array.from({ length: 4 }, (_, n) => `GW_${n}`), 'OPERATOR_ACTS', 'PARKED'].map((name, n) => ({ name, messages: 1_204_331 >> n, bytes: 2_804_331_221 >> n, first_sequence: 1, last_sequence: 1_204_331 >> n, last_at: new Date(Date.now() - n * 1_300).toISOString(), replicas: 3, consumers: 2 })), epochs: [{ number: 0, first_shard: 0, shards: 8, sealed: true, begun_at: null }, { number: 1, first_shard: 8, shards: 16, sealed: false, begun_at: new Date(beginning).toISOString() }] }),
    alarms: () => ({ ready: alarms.length === 0, not_ready_reason: alarms.length ? 'a chain is not ready' : null, alarms, overdue: 14, parked: isParkingKnown ? parked.size : null, unattested: 0, misconfigured: 0 }),
    graphs: () => ({ every_seconds: 10, points: 360, ends_at: new Date().toISOString(), series: [['payments', { event: 'submitted' }, 'per_second', 2, 9], ['payments', { event: 'completed' }, 'per_second', 2, 8], ['payment_seconds', {}, 'seconds', 31, 44], ['http_seconds_p95', {}, 'seconds', 0.03, 0.09], ['node_lag', { chain: ETHEREUM, node: 'https://node-0.example' }, 'count', 0, 3], ['node_lag', { chain: BASE, node: 'https://node-1.example' }, 'count', 1, 7], ['submitter_coins', { chain: BASE, account: account('gateway') }, 'coins', 3.1, 3.2], ['ready', {}, 'ratio', 0.91, 0.99], ['of_tomorrow', {}, 'count', 0, 1]].map(([name, labels, unit, least, most], n) => ({ name, labels, unit, values: wave(360, least, most, n) })) }),
    acts: (asked) => {
      const limit = Number(asked.get('limit') ?? 100);
      const before = asked.has('before') ? Number(asked.get('before')) : Infinity;
      const left = acts.filter(({ sequence }) => sequence < before).reverse();
      return { acts: left.slice(0, limit), next_before: left.length > limit ? left[limit - 1].sequence : null };
    },
  };
  const recorded = (entry) => acts.push({ sequence: acts.length + 1, stored_at: new Date().toISOString(), entry });
  const order = (by, act) => {
    const id = `act_${base32(`act ${acts.length}`).slice(0, 26)}`;
    recorded({ entry: 'ordered', id, at: new Date().toISOString(), by, origin: 'console', gateway: 'gw-0', act });
    return id;
  };
  order('carol', { act: 'pause', reason: HOSTILE });
  const resumed = order('dave', { act: 'resume' });
  recorded({ entry: 'ended', id: resumed, at: new Date().toISOString(), outcome: { outcome: 'done' } });

  const ended = (id, outcome) => recorded({ entry: 'ended', id, at: new Date().toISOString(), outcome });

  /** The answer to an order: its status, and its body. */
  const carryOut = (name, body, who) => {
    const named = body.all ? [...parked].slice(0, replayMax).map(idOf) : body.ids;
    const act_id = order(who.name, { act: name, ...(name === 'replay' ? { streams: named } : body) });
    if (name === 'resume' && paused.paused && body.since !== paused.since) {
      const error = `it was changed by somebody else meanwhile: paused since ${paused.since}: ${paused.reason}`;
      ended(act_id, { outcome: 'failed', error });
      return changedStatus === 200 ? [200, { act_id, outcome: { outcome: 'failed', error } }] : [changedStatus, { error: { code: 'CHANGED', message: error } }];
    }
    if (name === 'pause') Object.assign(paused, { paused: true, since: finely(Date.now()), reason: body.reason ?? null });
    if (name === 'resume') Object.assign(paused, { paused: false, since: finely(Date.now()), reason: null });
    const results = named?.map((id) => (parked.delete(indexOfId(id)) ? { id, outcome: 'replayed' } : { id, outcome: 'failed', error: 'it is not parked' }));
    const details = results && `${results.filter(({ outcome }) => outcome === 'replayed').length} driven again`;
    const outcome = { outcome: 'done', ...(details ? { details } : {}) };
    ended(act_id, outcome);
    return [200, { act_id, outcome, ...(results ? { results } : {}), ...(body.all ? { left: parked.size } : {}) }];
  };

  const file = (name) => readFileSync(new URL(`../${name}`, import.meta.url));
  const files = {
    '/': ['text/html; charset=utf-8', () => file('data/console.html')],
    '/console.js': ['text/javascript; charset=utf-8', () => gunzipSync(file('dist/console.js.gz'))],
    '/console.css': ['text/css; charset=utf-8', () => file('dist/console.css')],
  };

  const server = createServer(async (asked, answer) => {
    const url = new URL(asked.url, 'http://localhost');
    const found = files[url.pathname];
    answer.setHeader('cache-control', 'no-store');
    if (found) {
      if (url.pathname === '/') pages.push(asked.headers);
      answer.setHeader('content-security-policy', POLICY).setHeader('content-type', found[0]).end(found[1]());
      return;
    }
    const json = (status, body, headers = {}) => {
      answer.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
    };
    const refuse = (status, code, message, headers) => json(status, { error: { code, message } }, headers);
    const request = { method: asked.method, path: url.pathname, search: url.searchParams, at: Date.now() };
    requests.push(request);
    const hold = holds.find((one) => !one.isOver && one.path === url.pathname && one.isOf({ search: url.searchParams }));
    if (hold) await hold.over;
    const failure = failures.find(({ path, left }) => left > 0 && url.pathname.startsWith(path));
    if (failure) {
      failure.left -= 1;
      // An answer that breaks off: a connection without any would be tried again by the browser.
      if (failure.status === 0) {
        answer.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' }).write('{');
        return setImmediate(() => asked.socket.destroy());
      }
      return refuse(failure.status, failure.code, failure.message, failure.headers);
    }
    const who = tokens.get(asked.headers.authorization?.replace('Bearer ', ''));
    if (!who) return refuse(401, 'UNAUTHORIZED', 'the token is not known');
    const [, , kind, rest] = url.pathname.split('/');
    if (asked.method === 'POST') {
      if (!who.may_act) return refuse(403, 'FORBIDDEN', 'the operator may not act');
      let text = '';
      for await (const chunk of asked) text += chunk;
      request.body = JSON.parse(text);
      return json(...carryOut(rest, request.body, who));
    }
    if (kind === 'payments' && rest) {
      const index = indexOfId(decodeURIComponent(rest));
      return index < 0 ? refuse(404, 'NOT_FOUND', 'there is no such payment') : json(200, detail(index));
    }
    const read = reads[kind];
    return read ? json(200, read(url.searchParams, who)) : refuse(404, 'NOT_FOUND', 'there is no such thing');
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    pages,
    alarms,
    parked,
    /** Whether it is known what is parked. */
    knowParking: (isKnown) => void (isParkingKnown = isKnown),
    /** Somebody else orders something. From now on it is said with `status` that a pause was changed. */
    orderBy: (name, act, body, status = changedStatus) => {
      changedStatus = status;
      carryOut(act, act === 'resume' ? { since: paused.since } : body, { name });
    },
    /** Lets so many payments come. */
    add: (more) => void (count += more),
    count: () => count,
    /** Answers the next requests under `path` so; a status of 0 is no answer at all. */
    fail: (path, status, code, message = code, { times = 1, headers = {} } = {}) => {
      const failure = { path, status, code, message, left: times, headers };
      failures.push(failure);
      return failure;
    },
    /** Lets requests of `path` wait until they are released. */
    hold: (path, isOf) => {
      const one = { path, isOf, isOver: false };
      one.over = new Promise((resolve) => {
        one.release = () => {
          one.isOver = true;
          resolve();
        };
      });
      holds.push(one);
      return one;
    },
    forget: (token) => tokens.delete(token),
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
