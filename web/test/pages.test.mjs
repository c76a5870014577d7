// The pages as the gateway serves them: without script, of a quote-request, of a payment that fails or waits for its money, and where one
// begins.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';

import { launch, need, open, picture, serious } from './browser.mjs';
import { evmWallet, newPayer } from './evm.mjs';

const gateway = need('GATEWAY_URL');
const rpc = need('EVM_RPC_URL');
const order = JSON.parse(need('EVM_ORDER'));
const bank = `0x${need('EVM_KEY').trim().replace(/^0x/, '')}`;
const token = order.source.asset_identifier.split('/erc20:')[1];
const chainId = Number(order.source.asset_identifier.split(/[:/]/)[1]);
const TOKENS = 100_000_000n;
const QUOTE_MS = 4_000;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const later = (ms) => new Date(Date.now() + ms).toISOString().replace(/\.\d+Z$/, 'Z');

/** A payer, and the page of a quote-request that was opened for it. */
async function requested(fulfillmentMs) {
  const payer = await newPayer(rpc, bank, token, TOKENS);
  const body = {
    ...order,
    request_id: `quotes-${randomUUID()}`,
    source: { ...order.source, account: payer.address },
    quote_deadline: later(QUOTE_MS),
    fulfillment_deadline: later(fulfillmentMs),
  };
  const answer = await fetch(`${gateway}/v1/payments/quote-requests`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  assert.equal(answer.status, 200);
  const { quote_request_id: id } = await answer.json();
  const wallet = evmWallet(rpc, payer.key, { chainId, known: new Set([chainId]) });
  const opened = await open(browser, [wallet]);
  await opened.page.goto(`${gateway}/pay/${id}`);
  return { ...opened, payer, id };
}

async function allowed(page) {
  await page.getByRole('button', { name: 'Connect Test Wallet' }).click();
  await page.getByRole('button', { name: /^Allow/ }).click();
  await page.getByRole('button', { name: /^Pay/ }).waitFor();
}

test('a quote-request is paid on its page, which then shows the payment, with and without script', async () => {
  const { page, payer, id, faults, foreign } = await requested(300_000);
  await page.getByText(payer.address).first().waitFor();
  await allowed(page);
  await picture(page, 'quote-request');
  await page.getByRole('button', { name: /^Pay/ }).click();
  await page.getByRole('heading', { name: 'Payment completed' }).waitFor();
  const address = page.url();
  await page.goto(`${gateway}/pay/${id}`);
  await page.getByRole('heading', { name: 'Payment completed' }).waitFor();
  assert.deepEqual([faults, foreign], [[], []]);

  const paymentId = /pay_[a-z2-7]{52}/.exec(address)[0];
  const still = await open(browser, [], { javaScriptEnabled: false });
  for (const [name, path] of [['pay', `/pay/${paymentId}`], ['status', `/v1/payments/${paymentId}/status`]]) {
    const response = await still.page.goto(gateway + path);
    const policy = response.headers()['content-security-policy'];
    assert.match(policy, /^default-src 'none'; style-src 'sha256-[^']+'; script-src 'self'; connect-src 'self'; img-src data:; /);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe|http|\*/);
    assert.equal(response.headers()['referrer-policy'], 'no-referrer');
    const text = await still.page.locator('main').innerText();
    for (const words of ['Payment completed', '25 DEV', '25.025 DEV', payer.address.toLowerCase(), order.destination[0].account, 'Delivered']) {
      assert.ok(text.includes(words), `${path} does not show ${words}:\n${text}`);
    }
    await picture(still.page, `without-script-${name}`);
  }
});

test('a payment that nobody delivers fails, and the page shows the money come back', async () => {
  const { page, faults } = await requested(25_000);
  await allowed(page);
  // The settler with this price wins and never delivers.
  await page.getByText('25.125 DEV').click();
  await page.getByRole('button', { name: 'Pay 25.125 DEV' }).click();
  await page.getByRole('heading', { name: 'Payment failed' }).waitFor();
  await picture(page, 'failed');
  await page.getByRole('status').getByText('The payer has the money back').waitFor();
  await page.getByText('Returned to the payer').waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'refunded');
  assert.deepEqual(faults, []);
});

test('a payment that waits for its money shows the address without a script, too, and then that nothing came', async () => {
  const { address: account } = await newPayer(rpc, bank, token, TOKENS);
  const post = async (path, body) => {
    const answer = await fetch(gateway + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    assert.equal(answer.status, 200);
    return answer.json();
  };
  const body = { ...order, request_id: `address-${randomUUID()}`, source: { ...order.source, account }, quote_deadline: later(QUOTE_MS), fulfillment_deadline: later(300_000) };
  const { quote_request_id: id } = await post('/v1/payments/quote-requests', body);
  const { payment_id: paymentId, deposit_address: given } = await post(`/v1/payments/quote-requests/${id}/address`, { pay_by: later(15_000) });
  const still = await open(browser, [], { javaScriptEnabled: false });
  await still.page.goto(`${gateway}/pay/${paymentId}`);
  const text = await still.page.locator('main').innerText();
  for (const words of ['Send the money', '25.5 DEV', given.address, account.toLowerCase(), 'the money at the deposit address']) {
    assert.ok(text.includes(words), `the page does not show ${words}:\n${text}`);
  }
  await picture(still.page, 'without-script-address');
  // The page loads itself again.
  await still.page.getByText('Whatever comes there goes back to the refund account.').waitFor();
  assert.ok(!(await still.page.locator('main').innerText()).includes(given.address));
  const { page, faults } = await open(browser);
  await page.goto(`${gateway}/pay/${paymentId}`);
  await page.getByRole('status').getByText('Whatever comes there goes back to the refund account.').waitFor();
  assert.deepEqual(await serious(page), []);
  assert.deepEqual(faults, []);
});

test('one begins at the first page, and an id that nothing has is told so', async () => {
  const { page, faults, foreign } = await open(browser);
  await page.goto(gateway);
  await page.getByRole('heading', { name: 'Payment gateway' }).waitFor();
  await page.getByLabel('Payment id').waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'start');
  const unknown = `pay_${'a'.repeat(52)}`;
  await page.getByLabel('Payment id').fill(`  ${unknown} `);
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
  assert.match(page.url(), new RegExp(unknown));
  assert.deepEqual(await serious(page), []);
  await picture(page, 'missing');
  for (const path of [`/pay/${unknown}`, '/pay/nonsense', '/pay/%3Cscript%3E']) {
    assert.equal((await fetch(gateway + path)).status, 404);
  }
  assert.deepEqual([faults, foreign], [[], []]);
});
