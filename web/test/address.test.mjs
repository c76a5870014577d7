// Payers without a wallet, in Chromium, before a gateway that says what a test wants: the address that money is sent to is shown where
// it is that of the order, and nowhere else.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, beforeEach, test } from 'node:test';

import { build } from 'esbuild';
import { encode } from 'uqr';
import { getAddress } from 'viem';

import { optionsOf } from '../bundle.mjs';
import { addressFor, computed, derived, EVM, onKey, paidOn, SOLANA, toTron, TRON, twenty } from './honest_gateway.mjs';
import { launch, linkOf, open, picture, serious } from './browser.mjs';

const { request, chain, token } = EVM;
const [to] = request.destination;
const REFUND = EVM.refund;
const OTHER = EVM.other;

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
  world = { asked: [], edit: () => {}, entries: [], streams: [], isFailed: false, isUnserved: false, status: 'pending' };
};
beforeEach(begin);
after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
});

const entry = (id, event, data, more = {}) => ({ id: String(id), event, at: new Date().toISOString(), status: 'pending', summary: event, data, ...more });

/** What the timeline of the payment begins with. */
const submitted = ({ request: asked }) => {
  const { scheme, served } = paidOn(asked);
  return entry(1, 'Submitted', {
    request_id: asked.quote_request_id,
    source: asked.source,
    destination: asked.destination,
    fulfillment_amount: asked.fulfillment_amount,
    max_source_amount: asked.max_source_amount,
    quote_deadline: asked.quote_deadline,
    fulfillment_deadline: asked.fulfillment_deadline,
    message_scheme: scheme,
    escrow: { contract_address: served.escrow_contract_address, reserve_deadline: asked.fulfillment_deadline, refund_after: asked.fulfillment_deadline },
    fulfillment_verifier: { account: served.releaser, endpoint: '' },
  });
};

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
  const there = { ...EVM.served, assets: [{ asset_identifier: to.asset_identifier, symbol: 'DEV', decimals: 6 }] };
  const onSolana = () => (world.isUnserved ? { ...SOLANA.served, assets: [] } : SOLANA.served);
  const chains = () => ({ [chain]: EVM.served, [SOLANA.chain]: onSolana(), [TRON.chain]: TRON.served, [to.asset_identifier.split('/')[0]]: there });
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
    [/^GET \/v1\/defaults$/, (_, { searchParams }) => (searchParams.has('chain_id') ? chains()[searchParams.get('chain_id')] : { chains: chains() })],
    [/^POST \/v1\/payments\/quote-requests$/, (_, __, body) => {
      const originator = paidOn(body).originator(body.source.account);
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

/** What may pay, on a chain. */
const payWith = ({ request: { source, max_source_amount } }) => ({ asset_identifier: source.asset_identifier, max_source_amount });

const link = (more = {}) => ({
  request_id: 'order-7',
  destination: request.destination,
  fulfillment_amount: request.fulfillment_amount,
  pay_with: [payWith(EVM)],
  ...more,
});

async function visit(page, more) {
  await page.goto(process.env.GATEWAY_URL + linkOf(link(more)));
  await page.getByText('Send from an exchange or any wallet').click();
}

/** The page of a link, where no wallet is needed. */
async function opened(more = {}, options = {}) {
  const made = await open(browser, [], options);
  await visit(made.page, more);
  return made;
}

/** The page of the payment itself. */
const visitPayment = (page) => page.goto(`${process.env.GATEWAY_URL}/pay/${world.payment.id}`);
const kept = (page) => page.evaluate(() => Object.keys(localStorage).length);

const refund = (page) => page.getByLabel('Where money should come back to');
const ask = (page) => page.getByRole('button', { name: 'Show the address' }).click();
const shown = (page) => page.getByRole('heading', { name: 'Send the money' }).waitFor();

/** The names and values that stand beside the code. */
const rowsOf = async (page) =>
  (await page.locator('dl').filter({ has: page.getByText('To this address') }).innerText()).replaceAll(/\s+/g, ' ');

/** The code that is shown is of this text. */
async function scans(page, name, text) {
  const { data } = encode(text, { ecc: 'L', border: 2 });
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])));
  const code = page.getByRole('img', { name });
  assert.equal(await code.locator('path').getAttribute('d'), dark.join(''));
}

async function asked(page, account = REFUND) {
  await refund(page).fill(account);
  await ask(page);
}

/** Whatever is changed so of an address, neither the link's page nor the payment's own shows it, and nothing is kept. */
async function shownNowhere(edits, family = EVM) {
  const { page, context } = await opened({ pay_with: [payWith(family)] });
  const { page: own, context: other } = await open(browser);
  for (const edit of edits) {
    begin();
    world.edit = edit;
    // Asked for anew, what was told before is gone.
    await asked(page, family.refund);
    await page.getByText('The address that the gateway gave is not the one of this payment').waitFor();
    assert.equal(world.asked.filter(([path]) => path.endsWith('/address')).length, 1);
    assert.ok(!(await page.content()).includes(world.payment.given.address));
    assert.equal(await kept(page), 0);
    await visitPayment(own);
    await own.getByText('so it is not shown. Send nothing').waitFor();
    assert.ok(!(await own.content()).includes(world.payment.given.address));
    assert.equal(await kept(own), 0);
  }
  await other.close();
  await context.close();
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
  await scans(page, `QR code of the transfer: 25.5 DEV to ${given.address}`, given.uri);
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

test('on Tron the code is the address alone, and network, token and amount stand beside it', async () => {
  const { page, context, faults, foreign } = await opened({ pay_with: [payWith(EVM), payWith(TRON)] });
  await page.getByLabel('What you send').selectOption({ label: 'DEV on Tron' });
  await asked(page, TRON.refund);
  await shown(page);
  const { given, id } = world.payment;
  assert.deepEqual([given.refund_account, given.chain_id, new URL(page.url()).pathname], [TRON.refund, TRON.chain, `/pay/${id}`]);
  const look = async () => {
    await scans(page, `QR code of the address ${given.address}`, given.address);
    assert.equal(await page.getByRole('link', { name: 'Open in a wallet' }).getAttribute('href'), `tron:${given.address}`);
    await page.getByText('Send DEV on the network Tron (TRC-20) and nothing else.').waitFor();
    await page.getByText('Choose the network, the token and the amount yourself').waitFor();
    const rows = await rowsOf(page);
    for (const row of ['Network Tron (TRC-20)', 'Exact amount 25.5 DEV', `To this address ${given.address}`, `Token ${TRON.token}`, `Refund account ${TRON.refund}`]) {
      assert.ok(rows.includes(row), `${row}: ${rows}`);
    }
  };
  await look();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'address-tron');
  await page.setViewportSize({ width: 320, height: 640 });
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 320);
  // The payment's own page holds it against the order in its timeline.
  await page.goto('about:blank');
  await page.goto(`${process.env.GATEWAY_URL}/pay/${id}`);
  await look();
  happens(entry(2, 'AddressFunded', { amount: given.amount }));
  await page.getByRole('heading', { name: 'Send the money' }).waitFor({ state: 'detached' });
  assert.deepEqual([faults, foreign], [[], []]);
  await context.close();
});

test('on Solana the code is a transfer in whole tokens, and it is said who cannot pay to the address', async () => {
  const { page, context, faults, foreign } = await opened({ pay_with: [payWith(EVM), payWith(SOLANA)] });
  await page.getByLabel('What you send').selectOption({ label: 'DEV on Solana' });
  await page.getByText('an account of your own on Solana that holds DEV or has held it before').waitFor();
  await asked(page, SOLANA.refund);
  await shown(page);
  const { given, id } = world.payment;
  assert.deepEqual([given.refund_account, given.chain_id, new URL(page.url()).pathname], [SOLANA.refund, SOLANA.chain, `/pay/${id}`]);
  const look = async (label, link, amount) => {
    await scans(page, `${label} ${given.address}`, link);
    assert.equal(await page.getByRole('link', { name: 'Open in a wallet' }).getAttribute('href'), link);
    await page.getByText('A wallet or an exchange that refuses an address off the curve, to which nobody holds a key, cannot pay to this one.').waitFor();
    const rows = await rowsOf(page);
    for (const row of [`Exact amount ${amount}`, `To this address ${given.address}`, `Token ${SOLANA.token}`, `Refund account ${SOLANA.refund}`]) {
      assert.ok(rows.includes(row), `${row}: ${rows}`);
    }
  };
  const whole = ['QR code of the transfer: 25.5 DEV to', `solana:${given.address}?amount=25.5&spl-token=${SOLANA.token}`, '25.5 DEV'];
  await look(...whole);
  await page.getByText('Send DEV on the network Solana (SPL) and nothing else.').waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'address-solana');
  await page.setViewportSize({ width: 320, height: 640 });
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 320);
  // The payment's own page holds it against the order in its timeline.
  const again = async () => {
    await page.goto('about:blank');
    await page.goto(`${process.env.GATEWAY_URL}/pay/${id}`);
    await shown(page);
  };
  await again();
  await look(...whole);
  // Of a token of which nobody says the decimals the link has no amount.
  world.isUnserved = true;
  await again();
  await look('QR code of a transfer of this token to', given.uri, '25500000');
  await page.getByText('The code and the link do not hold the amount').waitFor();
  happens(entry(2, 'AddressFunded', { amount: given.amount }));
  await page.getByRole('heading', { name: 'Send the money' }).waitFor({ state: 'detached' });
  assert.deepEqual([faults, foreign], [[], []]);
  await context.close();
});

test('on Solana an account has the form that it has there, and the token is none', async () => {
  const { page, context } = await opened({ pay_with: [payWith(SOLANA)] });
  for (const [entered, words] of [
    ['', 'Enter the account that money should come back to.'],
    [REFUND, '32 to 44 letters and digits'],
    [TRON.refund, '32 to 44 letters and digits'],
    [`${SOLANA.refund}1`, '32 to 44 letters and digits'],
    [SOLANA.refund.replace(/.$/, 'l'), '32 to 44 letters and digits'],
    [onKey('0'), '32 to 44 letters and digits'],
    [SOLANA.token, 'the address of the token itself'],
  ]) {
    await asked(page, entered);
    await page.getByRole('alert').getByText(words).waitFor();
  }
  assert.deepEqual(world.asked, []);
  await context.close();
});

test('on Tron an account has the form that it has there, and the token is none', async () => {
  const { page, context } = await opened({ pay_with: [payWith(TRON)] });
  const { refund: account } = TRON;
  for (const [entered, words] of [
    ['', 'Enter the account that money should come back to.'],
    [REFUND, 'begin with T'],
    [account.slice(0, -1), 'begin with T'],
    [account.toLowerCase(), 'begin with T'],
    [toTron(twenty('0')), 'begin with T'],
    [TRON.token, 'the address of the token itself'],
  ]) {
    await asked(page, entered);
    await page.getByRole('alert').getByText(words).waitFor();
  }
  assert.deepEqual(world.asked, []);
  await context.close();
});

for (const { name, family, lower, foreign } of [
  // Whatever makes it has to be an account on Tron, and to make this one; on Solana it has to be the escrow's program.
  { name: 'Tron', family: TRON, lower: ['address', 'factory'], foreign: (given) => EVM.link(given.address, TRON) },
  { name: 'Solana', family: SOLANA, lower: ['address', 'factory', 'uri'], foreign: (given) => `${given.uri}&amount=25.5` },
]) {
  test(`on ${name} an address that is not the one of the order is shown to nobody`, async () => {
    /** The address follows other terms. */
    const made = (edit) => (given) => {
      edit(given);
      given.address = computed(given.terms, family);
      given.uri = family.link(given.address, family);
    };
    const edits = [
      (given) => (given.address = family.other),
      (given) => (given.uri = family.link(family.other, family)),
      (given) => (given.uri = foreign(given)),
      ...lower.map((member) => (given) => (given[member] = given[member].toLowerCase())),
      (given) => (given.factory = family.other),
      (given) => (given.factory = EVM.factory),
      made(({ terms }) => (terms.deposit.payer = family.other)),
      made(({ terms }) => (terms.escrow = family.other)),
      made(({ terms }) => (terms.token = family.other)),
      made((given) => (given.factory = given.terms.escrow = family.other)),
    ];
    await shownNowhere(edits, family);
  });
}

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

test('an address that is not the one of the order is shown to nobody', () =>
  shownNowhere([
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
  ]));

test('an address of before is shown to nobody, and one sentence says so', async () => {
  const seconds = (more) => new Date(Math.floor(Date.now() / 1000 + more) * 1000).toISOString();
  const { page, context } = await open(browser);
  for (const [more, edit] of [
    // Somebody else has asked first, for another time than the link's.
    [{ expires_at: seconds(600) }, (given) => (given.pay_by = seconds(900))],
    [{}, (given) => (given.pay_by = seconds(3))],
    [{}, (given) => (given.pay_by = seconds(-60))],
  ]) {
    begin();
    world.edit = edit;
    // Links differ behind the # alone.
    await page.goto('about:blank');
    await visit(page, more);
    await asked(page);
    await page.getByText("This order's address with this refund account was asked for before").waitFor();
    assert.ok(!(await page.content()).includes(world.payment.given.address));
    assert.equal(await kept(page), 0);
    assert.deepEqual(await serious(page), []);
    if (more.expires_at === undefined) {
      await visitPayment(page);
      await page.getByText(`what comes now goes back to the refund account, ${REFUND}.`).waitFor();
      assert.ok(!(await page.locator('article').innerText()).includes(world.payment.given.address));
      assert.equal(await kept(page), 0);
    }
  }
  await context.close();
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
