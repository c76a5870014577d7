// Parts of batches and mandates that need no browser: what a list says line by line, what is signed for it, and what a link may ask for.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { build } from 'esbuild';
import { privateKeyToAccount } from 'viem/accounts';

import { optionsOf } from '../bundle.mjs';
import { preparedBatch } from './honest_batch.mjs';
import { EVM, onKey, toTron, twenty } from './honest_gateway.mjs';
import { addressOf, preparedMandate, structOf } from './honest_mandate.mjs';

// What modules of the page look at when they are loaded.
Object.assign(globalThis, { window: globalThis, location: { origin: 'http://gateway.example' }, addEventListener: () => {} });
Object.defineProperty(globalThis, 'navigator', { value: { onLine: true }, configurable: true });

/** A module of the page. */
async function part(name) {
  const { outputFiles } = await build({ ...optionsOf('page'), entryPoints: [`src/${name}`], format: 'esm', write: false, outdir: undefined, outfile: 'part.js' });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);
}

const [{ rowsOf }, { listOf }, { askedFor, fund }, { readMandateLink }, { readDocument, returnLink, spendOfDocument }, { rebuildBatch }, { rebuildMandate }, { spanText }] = await Promise.all(
  ['csv.ts', 'batch/list.ts', 'batch/pay.ts', 'mandate/link.ts', 'mandate/document.ts', '../../sdk/typescript/src/evm/batches.ts', '../../sdk/typescript/src/evm/mandates.ts', 'format.ts'].map(part),
);

const SCHEMES = ['EVM_PERMIT2_ESCROW', 'EVM_PERMIT2_BATCH', 'EVM_PERMIT2_MANDATE'];
const SOURCE = EVM.request.source.asset_identifier;
const BASE = { asset_identifier: `eip155:8453/erc20:${twenty('b')}`, symbol: 'DEV', decimals: 18 };
const TRONS = { asset_identifier: `tron:728126428/trc20:${toTron(twenty('c'))}`, symbol: 'TDEV', decimals: 6 };
const SOLS = { asset_identifier: `solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/token:${onKey('7')}`, symbol: 'DEV', decimals: 6 };
const DEFAULTS = {
  chains: {
    [EVM.chain]: { ...EVM.served, message_schemes: SCHEMES },
    'eip155:8453': { ...EVM.served, refund_delay_seconds: 90, assets: [BASE, { asset_identifier: 'eip155:8453/slip44:60', symbol: 'ETH', decimals: 18 }] },
    'tron:728126428': { ...EVM.served, assets: [TRONS] },
    'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': { ...EVM.served, assets: [SOLS] },
  },
};
const OPTIONS = { source: SOURCE, asset: SOURCE, margin: '2' };
const [A, B] = [twenty('1'), twenty('2')];
const read = (text, more = {}) => listOf(text, { ...OPTIONS, ...more }, DEFAULTS);
const faults = (text, more) => read(text, more).faults?.map(({ line, text: rule }) => [line, rule]);

test('rows are read as spreadsheets write them, and each knows its line', () => {
  const cells = (text) => rowsOf(text).map((row) => [row.line, ...row.cells]);
  assert.deepEqual(cells('\ufeffa,b\r\n\r\n c , d \n'), [[1, 'a', 'b'], [3, 'c', 'd']]);
  assert.deepEqual(cells('a;b,c\nd;e'), [[1, 'a', 'b,c'], [2, 'd', 'e']]);
  assert.deepEqual(cells('a\tb;c\r"d\ne"\tf\r\ng'), [[1, 'a', 'b;c'], [2, 'd\ne', 'f'], [4, 'g']]);
  assert.deepEqual(cells('"say ""a, b""" ,"",x\n"y"'), [[1, 'say "a, b"', '', 'x'], [2, 'y']]);
  assert.deepEqual([cells(''), cells('\n \n,,\n')], [[], []]);
  for (const [text, line] of [['a\n"b', 2], ['"a"b', 1], ['"a\nb" c', 2]]) assert.throws(() => rowsOf(text), (error) => error.line === line, text);
});

test('a list says whom it pays, how much, and what may be taken for it', () => {
  const { payments } = read(`Recipient,Amount,Most,Chain,Asset,Reference\n${A.toUpperCase().replace('0X', '0x')},25.5,,,,wages-7\n${B},1,,Base\n${toTron(B)},3,4.5,Tron,TDEV\n${onKey('3')},2,,solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp\n${B},0.5,1,,eip155:8453/slip44:60`);
  assert.deepEqual(
    payments.map(({ line, reference, to, amount, most }) => [line, reference, to.asset_identifier, to.account, amount, most]),
    [
      [2, 'wages-7', SOURCE.toLowerCase(), A, 25_500_000n, 26_010_000n],
      [3, undefined, BASE.asset_identifier, B, 10n ** 18n, 1_020_000n],
      [4, undefined, TRONS.asset_identifier, toTron(B), 3_000_000n, 4_500_000n],
      [5, undefined, SOLS.asset_identifier, onKey('3'), 2_000_000n, 2_040_000n],
      [6, undefined, 'eip155:8453/slip44:60', B, 5n * 10n ** 17n, 1_000_000n],
    ],
  );
  assert.equal(payments[0].requestId, 'wages-7');
  assert.equal(new Set(payments.map(({ requestId }) => requestId)).size, 5);
  // What is taken is rounded up, and a line that pays as another does is told.
  assert.equal(read(`${A},0.000001`, { margin: '0.5' }).payments[0].most, 2n);
  assert.deepEqual(read(`${A},1\n${B},1\n${A},1.0`).payments.map(({ like }) => like), [undefined, undefined, 1]);
});

test('each line that keeps a rule not is named with the rule, all of them at once', () => {
  const bad = [
    ['', `1`, 'the recipient is missing'],
    ['0x12', '1', '0x12 is not an account on'],
    ['0x52908400098527886E0F7030069857D2E4169Ee7', '1', 'Look for a typing error'],
    [A, '', 'the amount is missing'],
    [A, '0', '0 is not an amount of DEV'],
    [A, '-1', '-1 is not an amount'],
    [A, '1e6', '1e6 is not an amount'],
    [A, '0.0000001', 'at most 6 places'],
    [A, '1,once more', 'once more cannot be a reference'],
    [A, '1,ref', ''],
    [A, '1,ref', 'the reference is that of line 10'],
    [A, '1,,Nowhere', 'Nowhere is not served'],
    [A, '1,,,XYZ', 'serves no XYZ'],
    [A, `1,,Base,${SOURCE}`, 'is not on Base'],
    [A, `1,,,eip155:1/erc20:${A}`, 'is not served'],
    [B, '1,,Tron,TDEV', 'is not an account on Tron'],
    [A, '1,,Base,ETH', 'is another kind of money than DEV'],
    [A, '1,,,,zero', 'zero is not an amount of DEV'],
    [A, '1,,,,,1,2', 'at most 6 are known'],
  ];
  const found = faults(bad.map(([recipient, rest]) => `${recipient},${rest}`).join('\n'));
  const wanted = bad.map(([, , rule], at) => [at + 1, rule]).filter(([, rule]) => rule);
  assert.deepEqual(found.map(([line]) => line), wanted.map(([line]) => line).map((line) => line));
  for (const [at, [line, rule]] of wanted.entries()) assert.ok(found[at][1].includes(rule), `line ${line}: ${found[at][1]}`);
  // Of the list as a whole.
  const whole = (text, more) => faults(text, more)[0];
  assert.match(whole('')[1], /no payment/);
  assert.match(whole('recipient,amount')[1], /no payment/);
  assert.match(whole('recipient,amount,memo\n')[1], /“memo” is not a column/);
  assert.match(whole('recipient,amount,amount\n')[1], /there twice/);
  assert.match(whole(`${A},1`, { margin: '-1' })[1], /from 0 to 100/);
  assert.deepEqual(whole(`${A},1\n"${A},1`), [2, 'a quotation mark does not close its cell.']);
  assert.match(whole(`${A},1\n`.repeat(257))[1], /at most 256 payments, and this one has 257/);
  assert.equal(read(`${A},1\n`.repeat(256)).payments.length, 256);
});

test('what is signed for a list is what viem makes of it, and whatever a gateway changes is noticed', () => {
  const { payments } = read(`${A},25\n${B},10,,Base\n${A},7,wages-8`);
  const plan = { payments, source: SOURCE.toLowerCase(), account: EVM.request.source.account };
  const { request, batch } = askedFor(plan, { chains: { ...DEFAULTS.chains, 'eip155:8453': { ...DEFAULTS.chains['eip155:8453'], refund_delay_seconds: 30 } } });
  const prepared = (more) => preparedBatch(request, more);
  assert.equal(rebuildBatch(batch, prepared()).digest, prepared().signed_messages[0].message);
  const OTHER = twenty('5');
  const lies = {
    'witness.payments': { change: (all) => [all[0], { ...all[1], destination: [{ ...all[1].destination[0], account: OTHER }] }, all[2]], edit: (data) => { data.message.nonce = BigInt(honestRoot).toString(); } },
    nonce: { change: (all) => [all[0], { ...all[1], fulfillment_amount: '1' }, all[2]] },
    'permitted.amount': { change: (all) => [all[0], all[1], { ...all[2], max_source_amount: '9000000' }] },
    permitted: { edit: (data) => data.message.permitted.push({ token: OTHER, amount: '1' }) },
    spender: { edit: (data) => { data.message.spender = OTHER; } },
    deadline: { edit: (data) => { data.message.deadline = '9999999999'; } },
    'witness.escrow': { edit: (data) => { data.message.witness.escrow = OTHER; } },
    verifyingContract: { edit: (data) => { data.domain.verifyingContract = OTHER; } },
    payment_id: { more: { payments: [...prepared().payments].reverse() } },
    message: { more: { signed_messages: [{ ...prepared().signed_messages[0], message: `0x${'1'.repeat(64)}` }] } },
  };
  const honestRoot = JSON.parse(prepared().signed_messages[0].message_prehash).message.witness.payments;
  for (const [field, lie] of Object.entries(lies)) {
    assert.throws(() => rebuildBatch(batch, prepared(lie)), (error) => error.name === 'VerificationError' && error.field.includes(field.split('.').at(-1)), field);
  }
  // One payment more, or less, than the list has.
  assert.throws(() => rebuildBatch(batch, prepared({ change: (all) => [...all, all[0]] })), { name: 'VerificationError' });
  // The more payments, the longer the waves of their deposits have.
  const many = askedFor({ ...plan, payments: read(`${A},1\n`.repeat(65)).payments }, DEFAULTS);
  assert.ok(many.batch.reserveDeadline - batch.reserveDeadline >= 600);
});

const MANDATE = { merchant: twenty('9'), amount: '25500000', least: '25000000', period_seconds: 2_592_000, periods: 12 };
const LINK = { v: 1, source: { asset_identifier: SOURCE }, destination: EVM.request.destination, mandate: MANDATE };
const link = (members) => Buffer.from(JSON.stringify({ ...LINK, ...members })).toString('base64url');
const asked = (members) => readMandateLink(link(members));

test('a merchant’s link is read, and one that nobody should sign for is not', () => {
  assert.deepEqual(asked({ mandate: { ...MANDATE, salt: `0x${'1'.repeat(64)}`, address: twenty('6') }, memo: 'Rent', escrow_contract_address: twenty('6') }), {
    ...MANDATE,
    source: { asset_identifier: SOURCE },
    destination: EVM.request.destination.map((to) => ({ ...to, asset_identifier: to.asset_identifier.toLowerCase() })),
    memo: 'Rent',
  });
  const bad = {
    'not a document': () => readMandateLink('e30'),
    'another merchant than one': () => asked({ mandate: { ...MANDATE, merchant: 'shop' } }),
    'a mistyped merchant': () => asked({ mandate: { ...MANDATE, merchant: '0x52908400098527886E0F7030069857D2E4169Ee7' } }),
    'nobody as merchant': () => asked({ mandate: { ...MANDATE, merchant: twenty('0') } }),
    'no recipient': () => asked({ destination: [] }),
    'a coin': () => asked({ source: { asset_identifier: 'eip155:1/slip44:60' } }),
    'another family': () => asked({ source: { asset_identifier: TRONS.asset_identifier } }),
    'no amount': () => asked({ mandate: { ...MANDATE, amount: '0' } }),
    'an amount that is no text': () => asked({ mandate: { ...MANDATE, amount: 25500000 } }),
    'no bound above zero': () => asked({ mandate: { ...MANDATE, least: '0' } }),
    'no period': () => asked({ mandate: { ...MANDATE, period_seconds: 0 } }),
    'half a period': () => asked({ mandate: { ...MANDATE, periods: 1.5 } }),
    'too many periods': () => asked({ mandate: { ...MANDATE, periods: 2 ** 32 } }),
    'more than an allowance holds': () => asked({ mandate: { ...MANDATE, amount: (2n ** 160n).toString(), periods: 2 } }),
    'an end that no calendar has': () => asked({ mandate: { ...MANDATE, periods: 2 ** 32 - 1 } }),
    'money that is held for months': () => asked({ mandate: { ...MANDATE, lock_seconds: 5_000_000 } }),
    'a note that is none': () => asked({ memo: 'x'.repeat(281) }),
  };
  for (const [name, reads] of Object.entries(bad)) assert.throws(reads, { name: 'BadLink', reason: 'damaged' }, name);
  assert.throws(() => asked({ v: 2 }), { reason: 'newer' });
});

test('what was signed goes back to an address with TLS and to no other form of one', () => {
  assert.equal(asked({ return_url: 'https://shop.example/back?customer=7' }).return_url, 'https://shop.example/back?customer=7');
  const hostile = [
    'http://shop.example/', 'javascript:alert(1)', 'data:text/html,x', '//shop.example/', '/pay', 'https:shop.example', 'https:/\\shop.example',
    'https://shop.example@evil.example/', 'https://user:secret@evil.example/', 'https://shop.example\\@evil.example/', 'https://shop.example/ x',
    'https://shöp.example/', 'https://shop.example/#x', 'https://', 'https://shop.example/\n', ' https://shop.example/', 7, {}, `https://shop.example/${'x'.repeat(2048)}`,
  ];
  for (const url of hostile) assert.throws(() => asked({ return_url: url }), { name: 'BadLink' }, String(url));
});

const payer = privateKeyToAccount(`0x${'7'.repeat(64)}`);

/** A document as the page hands it over, of a mandate that was signed. */
async function signed(more = {}) {
  const source = { asset_identifier: SOURCE.toLowerCase(), account: payer.address.toLowerCase() };
  const mandate = { ...MANDATE, begins: 1_893_456_000, lock_seconds: 90_000, salt: `0x${'3'.repeat(64)}`, ...more };
  const { permit, address, fulfillment_verifier } = preparedMandate({ source, destination: EVM.request.destination, mandate });
  const { EIP712Domain: _, ...types } = JSON.parse(permit.message_prehash).types;
  const signature = await payer.signTypedData({ ...JSON.parse(permit.message_prehash), types });
  return { v: 1, mandate, permit: signature, address, source, destination: EVM.request.destination, escrow_contract_address: EVM.served.escrow_contract_address, fulfillment_verifier };
}

test('a document ends the mandate that was signed, and an altered one is refused', async () => {
  const document = await signed();
  const reads = (more) => () => readDocument(JSON.stringify({ ...document, ...more }));
  assert.deepEqual(readDocument(JSON.stringify(document)), document);
  assert.equal(addressOf(structOf(document)), document.address);
  // A signature without its last byte (ERC-2098), and with 0 and 1 at its end.
  const [r, s, v] = [document.permit.slice(2, 66), document.permit.slice(66, 130), Number(`0x${document.permit.slice(130)}`) - 27];
  const compact = (BigInt(`0x${s}`) | (BigInt(v) << 255n)).toString(16).padStart(64, '0');
  for (const permit of [`0x${r}${compact}`, `0x${r}${s}0${v}`]) assert.equal(reads({ permit })().permit, permit);
  const other = await signed({ merchant: twenty('8') });
  const refused = (reason, more) => assert.throws(reads(more), { name: 'BadDocument', reason }, JSON.stringify(more));
  refused('address', { mandate: other.mandate });
  refused('address', { destination: [{ ...document.destination[0], account: twenty('4') }] });
  refused('address', { escrow_contract_address: twenty('4') });
  refused('address', { fulfillment_verifier: { account: twenty('4') } });
  refused('permit', { mandate: other.mandate, address: other.address });
  refused('permit', { permit: `0x${'1'.repeat(130)}` });
  refused('permit', { permit: '0x' });
  refused('incomplete', { source: undefined });
  refused('damaged', { mandate: undefined });
  refused('damaged', { mandate: { ...document.mandate, salt: '0x1' } });
  for (const text of ['', '{', '7', 'null', '[]', 'x'.repeat(70_000)]) assert.throws(() => readDocument(text), { reason: 'damaged' });
});

test('a mandate is signed for the spender that viem makes of it, and whatever a gateway changes is noticed', async () => {
  const document = await signed();
  const { source, destination, mandate } = document;
  const spend = spendOfDocument(document);
  const prepared = (lie) => preparedMandate({ source, destination, mandate }, lie);
  assert.equal(rebuildMandate(spend, prepared({ approves: true })).typedData.message.spender, document.address);
  const thief = twenty('6');
  const with_ = (more) => ({ change: (request) => ({ ...request, mandate: { ...request.mandate, ...more } }) });
  const lies = [
    { edit: (data) => (data.message.spender = thief) },
    { edit: (data) => (data.message.details.amount = '9'.repeat(20)) },
    { edit: (data) => (data.message.details.expiration = '9'.repeat(10)) },
    { edit: (data) => (data.domain.verifyingContract = thief) },
    with_({ merchant: thief }),
    with_({ salt: `0x${'2'.repeat(64)}` }),
    with_({ least: '1' }),
    with_({ lock_seconds: 4_000_000 }),
    { change: (request) => ({ ...request, destination: [{ ...destination[0], account: thief }] }) },
    { places: { escrow: thief } },
    { places: { releaser: thief } },
    { more: { address: thief } },
    { more: { contract: thief } },
    { more: { cancel: prepared(with_({ salt: `0x${'2'.repeat(64)}` })).cancel } },
    { more: { approval: { ...prepared({ approves: true }).approval, spender: thief } } },
  ];
  for (const [at, lie] of lies.entries()) assert.throws(() => rebuildMandate(spend, prepared(lie)), { name: 'VerificationError' }, `lie ${at}`);
});

test('what is handed over stands in the query of the merchant’s address, beside its own', async () => {
  const document = await signed();
  const url = new URL(returnLink('https://shop.example/back?customer=7&mandate=old', document));
  assert.deepEqual([url.origin, url.pathname, url.searchParams.get('customer'), url.searchParams.getAll('mandate').length], ['https://shop.example', '/back', '7', 1]);
  assert.deepEqual(JSON.parse(Buffer.from(url.searchParams.get('mandate'), 'base64url').toString()), document);
  const long = { ...document, destination: Array.from({ length: 60 }, () => document.destination[0]) };
  assert.equal(returnLink('https://shop.example/', long), undefined);
});

test('spans of time are told exactly', () => {
  assert.deepEqual([2_592_000, 86_400, 90_061, 3600, 1, 0].map(spanText), ['30 days', '1 day', '1 day 1 hour 1 minute 1 second', '1 hour', '1 second', '0 seconds']);
});

test('what is quoted of a list shows what cannot be seen, and names of members are no assets', () => {
  const [[, text]] = faults(`${A.slice(0, 20)}\u200b${A.slice(20)},1`);
  assert.ok(text.includes('\\u{200b}'), text);
  const [[, turned]] = faults(`${A},1,\u202eref`);
  assert.ok(turned.includes('\\u{202e}'), turned);
  for (const asset of ['constructor/x', '__proto__/x', 'toString/erc20:0x']) assert.match(faults(`${A},1,,,${asset}`)[0][1], /is not served/, asset);
  assert.ok(faults(`recipient,amount,${'x'.repeat(5000)}\n`)[0][1].length < 300);
});

test('a time that no calendar has ends no link', () => {
  for (const expires_at of ['2027-13-45T00:00:00Z', '2027-01-01T99:00:00Z']) assert.throws(() => asked({ expires_at }), { name: 'BadLink', reason: 'damaged' }, expires_at);
  assert.equal(asked({ expires_at: '2027-01-01T00:00:00Z' }).expires_at, '2027-01-01T00:00:00Z');
});

test('coins are wrapped for a list where the page has said so, and not otherwise', async () => {
  const { payments } = read(`${A},25`);
  const plan = { payments, source: SOURCE.toLowerCase(), account: EVM.request.source.account };
  const wrapped = { ...EVM.served, assets: EVM.served.assets.map((asset) => ({ ...asset, wraps: 'eip155:31337/slip44:60' })) };
  const chains = { ...DEFAULTS.chains, [EVM.chain]: { ...wrapped, message_schemes: SCHEMES } };
  const asked = askedFor(plan, { chains });
  const answered = { fetch: globalThis.fetch };
  globalThis.fetch = async (url, { body }) => Response.json(String(url).includes('/v1/defaults') ? { chains } : preparedBatch(JSON.parse(body)));
  const funded = [];
  const wallet = { account: plan.account, connect: async () => {}, verifyBatch: () => {}, signBatch: () => {}, fund: async (_, { wrap }) => (funded.push(wrap), []) };
  try {
    for (const wraps of [undefined, [], [{ asset_identifier: SOURCE, amount: '1', coin: '' }]]) {
      await fund(plan, wallet, { ...asked, prepared: { ...preparedBatch(asked.request), approvals: [{}], ...(wraps ? { wraps } : {}) } }, () => {});
    }
  } finally {
    Object.assign(globalThis, answered);
  }
  assert.deepEqual(funded, [false, false, true]);
});
