// Payers without a wallet, in Chromium, before a gateway that says what a test wants: the address that money is sent to is shown where
// it is that of the order, and nowhere else.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, beforeEach, test } from 'node:test';

import { build } from 'esbuild';
import { concat, encodeAbiParameters, getAddress, getContractAddress, keccak256, stringToHex } from 'viem';

import { optionsOf } from '../bundle.mjs';
import { launch, linkOf, open, picture, serious } from './browser.mjs';

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'));
const { evm } = read('../../sdk/typescript/test/fixtures/prepared.json');
const { abi, bytecode } = read('../../contracts/artifacts/DepositAddresses.json');
const { source: served } = evm.defaults;
const { request } = evm;
const [chain, token] = request.source.asset_identifier.split('/erc20:');
const [to] = request.destination;
const REFUND = '0x2222222222222222222222222222222222222222';
const OTHER = `0x${'5'.repeat(40)}`;
/** Where the deterministic deployer puts the contract of the artefact, and what that makes first. */
const MAKER = getContractAddress({ opcode: 'CREATE2', from: '0x4e59b44847b379578588920ca78fbf26c0b4956c', salt: `0x${'0'.repeat(64)}`, bytecode });
const CODE = getContractAddress({ from: MAKER, nonce: 1n });
const TERMS = abi.find(({ name }) => name === 'addressOf').inputs;

/** The ids of payments and quote-requests, by the rule of docs/clients.md. */
function derived(prefix, ...texts) {
  const length = (bytes) => Buffer.from(bytes.length.toString(16).padStart(16, '0'), 'hex');
  const parts = texts.map((text) => Buffer.from(text)).flatMap((part) => [length(part), part]);
  const bits = [...createHash('sha256').update(Buffer.concat(parts)).digest()].map((byte) => byte.toString(2).padStart(8, '0'));
  const fives = bits.join('').padEnd(260, '0').match(/.{5}/g);
  return prefix + fives.map((five) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(five, 2)]).join('');
}

/** SHA-256 of the order's canonical JSON. */
function termsHash({ destination, fulfillment_amount, max_source_amount, source }) {
  const owned = ({ account, asset_identifier }) => ({ account, asset_identifier });
  const terms = { destination: destination.map(owned), fulfillment_amount, max_source_amount, source: owned(source) };
  return `0x${createHash('sha256').update(JSON.stringify(terms)).digest('hex')}`;
}

/** The address of a payment, by the letter of EIP-1014 and ERC-1167. */
function computed({ deposit, ...terms }) {
  const members = Object.fromEntries(Object.entries(deposit).map(([name, value]) => [name.replace(/_(.)/g, (_, char) => char.toUpperCase()), value]));
  const salt = keccak256(encodeAbiParameters(TERMS, [{ ...terms, deposit: members }]));
  const code = concat(['0x3d602d80600a3d3981f3363d3d373d3d3d363d73', CODE, '0x5af43d82803e903d91602b57fd5bf3']);
  return getContractAddress({ opcode: 'CREATE2', from: MAKER, salt, bytecode: code }).toLowerCase();
}

/** What an honest gateway gives for a quote-request. */
function addressFor(asked, payBy) {
  const originator = `eip155:${asked.source.account}`;
  const id = derived('pay_', 'gw:payment:v1', originator, derived('qrq_', 'gw:quote-request:v1', originator, asked.request_id));
  const fulfilled = Date.parse(asked.fulfillment_deadline) / 1000;
  const deposit = {
    payment_id: keccak256(stringToHex(id)),
    terms_hash: termsHash(asked),
    quote_hash: `0x${'0'.repeat(64)}`,
    payer: asked.source.account,
    reserver: served.reserver,
    releaser: served.releaser,
    reserve_deadline: fulfilled - 60,
    fulfillment_deadline: fulfilled,
    refund_after: fulfilled + served.refund_delay_seconds,
  };
  const terms = { escrow: served.escrow_contract_address, token, amount: asked.max_source_amount, deposit };
  const address = computed(terms);
  const given = {
    address,
    chain_id: chain,
    asset_identifier: asked.source.asset_identifier,
    amount: asked.max_source_amount,
    pay_by: payBy ?? new Date((fulfilled - 120) * 1000).toISOString(),
    refund_account: asked.source.account,
    uri: `ethereum:${token}@${chain.split(':')[1]}/transfer?address=${address}&uint256=${asked.max_source_amount}`,
    factory: MAKER.toLowerCase(),
    terms,
  };
  return { id, given };
}

let browser;
let server;
/** What the gateway was asked, what it changes of the addresses that it gives, and what happened to the payment besides. */
let world;
before(async () => {
  browser = await launch();
  server = await gateway();
  process.env.GATEWAY_URL = `http://127.0.0.1:${server.address().port}`;
});
const begin = () => {
  world = { asked: [], edit: () => {}, entries: [], streams: [], isFailed: false, status: 'pending' };
};
beforeEach(begin);
after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
});

const entry = (id, event, data, more = {}) => ({ id: String(id), event, at: new Date().toISOString(), status: 'pending', summary: event, data, ...more });

/** What the timeline of the payment begins with. */
const submitted = ({ request: asked }) =>
  entry(1, 'Submitted', {
    request_id: asked.quote_request_id,
    source: asked.source,
    destination: asked.destination,
    fulfillment_amount: asked.fulfillment_amount,
    max_source_amount: asked.max_source_amount,
    quote_deadline: asked.quote_deadline,
    fulfillment_deadline: asked.fulfillment_deadline,
    message_scheme: 'EVM_DEPOSIT_ADDRESS',
    escrow: { contract_address: served.escrow_contract_address, reserve_deadline: asked.fulfillment_deadline, refund_after: asked.fulfillment_deadline },
    fulfillment_verifier: { account: served.releaser, endpoint: '' },
  });

const timeline = () => [submitted(world.payment), ...world.entries];

/** Something happens to the payment, and is told. */
function happens(...said) {
  for (const one of said) {
    world.entries.push(one);
    for (const stream of world.streams) stream.write(`id: ${one.id}\ndata: ${JSON.stringify(one)}\n\n`);
  }
}

/** The page, built from its sources, and as much of the API as it takes to pay by an address. */
async function gateway() {
  const { outputFiles } = await build({ ...optionsOf('page'), write: false });
  const part = (ending) => outputFiles.find(({ path }) => path.endsWith(ending)).text;
  const page = (kind, id) => `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Payment gateway</title><style>${part('.css')}</style>
<script src="/page.js" defer></script></head><body data-page="${kind}" data-id="${id}"><main id="main"></main></body></html>`;
  const there = { ...served, assets: [{ asset_identifier: to.asset_identifier, symbol: 'DEV', decimals: 6 }] };
  const chains = { [chain]: served, [to.asset_identifier.split('/')[0]]: there };
  const none = { code: 'PAYMENT_NOT_FOUND', message: 'there is none' };
  const status = () => ({
    payment_id: world.payment.id,
    status: world.isFailed ? 'failed' : world.status,
    updated_at: new Date().toISOString(),
    deposit_address: world.payment.given,
    ...(world.isFailed ? { error: { code: 'DEPOSIT_NOT_RECEIVED', message: 'nothing came' } } : {}),
  });
  const answers = [
    [/^GET \/page\.js$/, () => part('.js')],
    [/^GET \/pay$/, () => page('link', '')],
    [/^GET \/pay\/(pay_\w+)$/, ([, id]) => page('payment', id)],
    [/^GET \/v1\/defaults$/, (_, { searchParams }) => (searchParams.has('chain_id') ? chains[searchParams.get('chain_id')] : { chains })],
    [/^POST \/v1\/payments\/quote-requests$/, (_, __, body) => {
      const originator = `eip155:${body.source.account}`;
      const quote_request_id = derived('qrq_', 'gw:quote-request:v1', originator, body.request_id);
      world.request = { ...body, quote_request_id };
      return { ...world.request, status: 'collecting' };
    }],
    [/^POST \/v1\/payments\/quote-requests\/(qrq_\w+)\/address$/, (_, __, { pay_by: payBy }) => {
      world.payment = { ...addressFor(world.request, payBy), request: world.request };
      world.edit(world.payment.given);
      return { ...status(), idempotent_replay: world.isFailed };
    }],
    [/^GET \/v1\/payments\/(pay_\w+)\/status$/, ([, id]) => (id === world.payment?.id ? status() : undefined)],
    [/^GET \/v1\/payments\/(pay_\w+)\/timeline$/, ([, id]) =>
      id === world.payment?.id ? { payment_id: id, status: status().status, at_rest: false, entries: timeline() } : undefined],
  ];
  const listening = createServer(async (asked, answer) => {
    let body = '';
    for await (const chunk of asked) body += chunk;
    const url = new URL(asked.url, 'http://gateway');
    const line = `${asked.method} ${url.pathname}`;
    if (asked.method === 'POST') world.asked.push([url.pathname, JSON.parse(body)]);
    if (line.endsWith('/events')) {
      answer.writeHead(200, { 'content-type': 'text/event-stream' });
      const last = Number(asked.headers['last-event-id'] ?? 0);
      for (const one of timeline().filter(({ id }) => Number(id) > last)) answer.write(`id: ${one.id}\ndata: ${JSON.stringify(one)}\n\n`);
      return void world.streams.push(answer);
    }
    const found = answers.find(([form]) => form.test(line));
    const given = found?.[1](found[0].exec(line), url, body ? JSON.parse(body) : undefined);
    const isText = typeof given === 'string';
    answer.setHeader('content-type', !isText ? 'application/json' : url.pathname.endsWith('.js') ? 'text/javascript' : 'text/html');
    answer.statusCode = given ? 200 : 404;
    answer.end(isText ? given : JSON.stringify(given ?? none));
  });
  await new Promise((resolve) => listening.listen(0, '127.0.0.1', resolve));
  return listening;
}

const link = (more = {}) => ({
  request_id: 'order-7',
  destination: request.destination,
  fulfillment_amount: request.fulfillment_amount,
  pay_with: [{ asset_identifier: request.source.asset_identifier, max_source_amount: request.max_source_amount }],
  ...more,
});

/** The page of a link, where no wallet is needed. */
async function opened(more = {}, options = {}) {
  const made = await open(browser, [], options);
  await made.page.goto(process.env.GATEWAY_URL + linkOf(link(more)));
  await made.page.getByText('Send from an exchange or any wallet').click();
  return made;
}

const refund = (page) => page.getByLabel('Where money should come back to');
const ask = (page) => page.getByRole('button', { name: 'Show the address' }).click();
const shown = (page) => page.getByRole('heading', { name: 'Send the money' }).waitFor();

async function asked(page, account = REFUND) {
  await refund(page).fill(account);
  await ask(page);
}

test('a payer without a wallet gets an address that is checked, and the payment goes on once the money is there', async () => {
  const { page, context, faults, foreign } = await opened({}, { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.getByText('Never enter a deposit address of an exchange').waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'address-1-refund');
  // As wallets show it, with its checksum.
  await asked(page, getAddress(REFUND));
  await shown(page);
  const { given, id } = world.payment;
  assert.deepEqual([given.refund_account, world.request.request_id, new URL(page.url()).pathname], [REFUND, 'order-7', `/pay/${id}`]);
  await page.getByRole('img', { name: `QR code of the transfer: 25.5 DEV to ${given.address}` }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Open in a wallet' }).getAttribute('href'), given.uri);
  await page.getByText(`Send DEV on ${chain} and nothing else.`).waitFor();
  assert.match(await page.getByRole('timer').first().innerText(), /^\d+ min \d+ s$/);
  for (const [name, text] of [['Copy the amount', '25.5'], ['Copy the address', given.address]]) {
    await page.getByRole('button', { name }).click();
    await page.getByText('Copied.').first().waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
  }
  assert.deepEqual(await serious(page), []);
  await picture(page, 'address-2-shown');
  await page.setViewportSize({ width: 320, height: 640 });
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 320);
  await picture(page, 'address-3-phone');
  happens(entry(2, 'AddressFunded', { amount: given.amount }));
  await page.getByRole('heading', { name: 'Send the money' }).waitFor({ state: 'detached' });
  await page.getByText('quotes of settlers').waitFor();
  assert.deepEqual([faults, foreign], [[], []]);
  await context.close();
});

test('an account that money cannot come back to is refused before anything is asked for', async () => {
  const { page, context } = await opened();
  for (const [entered, words] of [
    ['', 'Enter the account that money should come back to.'],
    ['0x1234', 'Look for a typing error'],
    ['0xFB6916095ca1df60bB79Ce92cE3Ea74c37c5d358', 'Look for a typing error'],
    [`0x${'0'.repeat(40)}`, 'Look for a typing error'],
    [token, 'the address of the token itself'],
  ]) {
    await asked(page, entered);
    await page.getByRole('alert').getByText(words).waitFor();
    assert.equal(await refund(page).getAttribute('aria-invalid'), 'true');
    assert.ok(await refund(page).evaluate((it) => it === document.activeElement));
  }
  assert.deepEqual(await serious(page), []);
  await picture(page, 'address-refused');
  assert.deepEqual(world.asked, []);
  await context.close();
});

test('an address that is not the one of the order is shown to nobody', async () => {
  for (const edit of [
    (given) => (given.address = OTHER),
    (given) => (given.uri = given.uri.replace(/address=0x\w+/, `address=${OTHER}`)),
    (given) => (given.factory = OTHER),
    (given) => {
      given.terms.deposit.payer = OTHER;
      given.address = computed(given.terms);
    },
    (given) => {
      given.terms.escrow = OTHER;
      given.address = computed(given.terms);
    },
  ]) {
    begin();
    world.edit = edit;
    const { page, context } = await opened();
    await asked(page);
    await page.getByText('The address that the gateway gave is not the one of this payment').waitFor();
    assert.ok(!(await page.content()).includes(world.payment.given.address));
    assert.equal(await page.evaluate(() => Object.keys(localStorage).length), 0);
    // The payment's own page does not show it either.
    await page.goto('about:blank');
    await page.goto(`${process.env.GATEWAY_URL}/pay/${world.payment.id}`);
    await page.getByText('so it is not shown. Send nothing').waitFor();
    assert.ok(!(await page.content()).includes(world.payment.given.address));
    await context.close();
  }
});

test('an address of before is shown to nobody, and one sentence says so', async () => {
  const seconds = (more) => new Date(Math.floor(Date.now() / 1000 + more) * 1000).toISOString();
  for (const [more, edit] of [
    // Somebody else has asked first, for another time than the link's.
    [{ expires_at: seconds(600) }, (given) => (given.pay_by = seconds(900))],
    [{}, (given) => (given.pay_by = seconds(3))],
    [{}, (given) => (given.pay_by = seconds(-60))],
  ]) {
    begin();
    world.edit = edit;
    const { page, context } = await opened(more);
    await asked(page);
    await page.getByText("This order's address with this refund account was asked for before").waitFor();
    assert.ok(!(await page.content()).includes(world.payment.given.address));
    assert.equal(await page.evaluate(() => Object.keys(localStorage).length), 0);
    assert.deepEqual(await serious(page), []);
    if (more.expires_at === undefined) {
      await page.goto('about:blank');
      await page.goto(`${process.env.GATEWAY_URL}/pay/${world.payment.id}`);
      await page.getByText(`what comes now goes back to the refund account, ${REFUND}.`).waitFor();
      assert.ok(!(await page.locator('article').innerText()).includes(world.payment.given.address));
    }
    await context.close();
  }
});

test('an address that somebody has paid already leads to its payment, and is not shown', async () => {
  world.status = 'finalizing';
  const { page, context } = await opened();
  happens(entry(2, 'AddressFunded', { amount: request.max_source_amount }));
  await asked(page);
  await page.waitForURL('**/pay/pay_*');
  await page.getByText('quotes of settlers').waitFor();
  assert.ok(!(await page.locator('article').innerText()).includes(world.payment.given.address));
  await context.close();
});

test('a link that ends sooner is waited for no longer, and then nothing is to be sent', async () => {
  const expires_at = new Date(Math.floor(Date.now() / 1000 + 600) * 1000).toISOString();
  const { page, context } = await opened({ expires_at });
  await asked(page);
  await shown(page);
  const [[, body]] = world.asked.filter(([path]) => path.endsWith('/address'));
  assert.equal(Date.parse(body.pay_by), Date.parse(expires_at));
  await page.clock.setFixedTime(Date.parse(expires_at) + 1000);
  await page.getByText('The time to send money is over. Send nothing any more').waitFor();
  assert.ok(!(await page.locator('article').innerText()).includes(world.payment.given.address));
  await context.close();
});

test('a link shows its address again, and can be paid after all where nobody paid', async () => {
  const { page, context } = await opened();
  await asked(page);
  await shown(page);
  const again = async () => {
    await page.goto('about:blank');
    await page.goto(process.env.GATEWAY_URL + linkOf(link()));
  };
  await again();
  await page.waitForURL('**/pay/pay_*');
  await shown(page);
  world.isFailed = true;
  await again();
  await page.getByText('The address that you had was not paid in time').waitFor();
  await page.getByText('Send from an exchange or any wallet').click();
  // The account has one address for the order, whose time is over.
  await asked(page);
  await page.getByText("The time for this order's address with this refund account is over").waitFor();
  world.isFailed = false;
  await asked(page, OTHER);
  await shown(page);
  assert.equal(world.payment.given.refund_account, OTHER);
  await context.close();
});

test('too little that came is told in one sentence, and so is that it is back', async () => {
  const { page, context } = await opened();
  await asked(page);
  await shown(page);
  const failed = { status: 'failed' };
  const error = { code: 'DEPOSIT_NOT_RECEIVED', message: '1 of 25500000 came to the deposit address in time; it goes back' };
  happens(entry(2, 'Failed', { error, refund: 'nothing_due' }, failed));
  await page.getByText('Whatever comes there goes back to the refund account.').waitFor();
  happens(entry(3, 'AddressHeld', { amount: '1' }, failed));
  await page.getByText('Too little came to the deposit address in time, so the payment did not begin. It goes back').waitFor();
  assert.deepEqual(await serious(page), []);
  happens(entry(4, 'EscrowRefunded', { amount: '1' }, failed));
  await page.getByText('Too little came to the deposit address in time, so the payment did not begin. It is back').waitFor();
  await page.getByText('Returned to the payer').waitFor();
  await picture(page, 'address-too-little');
  await context.close();
});
