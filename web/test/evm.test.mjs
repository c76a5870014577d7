import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { randomUUID } from 'node:crypto';

import { createWalletClient, erc20Abi, http, parseAbi } from 'viem';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';

import { launch, linkOf, need, open, picture, serious } from './browser.mjs';
import { evmWallet, newPayer } from './evm.mjs';

const gateway = need('GATEWAY_URL');
const rpc = need('EVM_RPC_URL');
const order = JSON.parse(need('EVM_ORDER'));
const bank = `0x${need('EVM_KEY').replace(/^0x/, '')}`;
const token = order.source.asset_identifier.split('/erc20:')[1];
const chainId = Number(order.source.asset_identifier.split(/[:/]/)[1]);
const MILLION = 1_000_000n;
const balanceOf = parseAbi(['function balanceOf(address) view returns (uint256)']);

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const link = (more = {}) => ({
  request_id: `link-${randomUUID()}`,
  destination: order.destination,
  fulfillment_amount: order.fulfillment_amount,
  pay_with: [{ asset_identifier: order.source.asset_identifier, max_source_amount: order.max_source_amount }],
  ...more,
});

test('an order of a link is paid from the link to the receipt', async () => {
  const payer = await newPayer(rpc, bank, token, 100n * MILLION);
  const wallet = evmWallet(rpc, payer.key, { chainId, known: new Set([chainId]) });
  const { page, faults, foreign } = await open(browser, [wallet]);
  await page.goto(gateway + linkOf(link({ memo: 'Invoice 7 <b>bold</b>' })));
  await page.getByRole('button', { name: 'Connect Test Wallet' }).waitFor();
  assert.deepEqual(await serious(page), []);
  await page.getByText('Invoice 7 <b>bold</b>').waitFor();
  await picture(page, 'evm-1-link');
  await page.getByRole('button', { name: 'Connect Test Wallet' }).click();
  await page.getByRole('button', { name: /^Allow/ }).waitFor();
  await picture(page, 'evm-2-allow');
  await page.getByRole('button', { name: /^Allow/ }).click();
  await page.getByRole('button', { name: /^Pay/ }).waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'evm-3-quotes');
  await page.getByRole('button', { name: /^Pay/ }).click();
  await page.getByRole('heading', { name: /^Payment/ }).waitFor();
  await picture(page, 'evm-4-pending');
  await page.getByRole('heading', { name: 'Payment completed' }).waitFor();
  await page.getByRole('heading', { name: 'Receipt' }).waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'evm-5-receipt');
  await page.emulateMedia({ media: 'print' });
  await picture(page, 'evm-6-print');
  assert.match(page.url(), /\/pay\/pay_[a-z2-7]{52}$/);
  assert.deepEqual([faults, foreign], [[], []]);
});

/** A page with a link to pay, and a wallet whose account has given the allowance before where `allowed`. */
async function ready(state = {}, more = {}, options = {}) {
  const payer = await newPayer(rpc, bank, token, 100n * MILLION);
  const wallet = evmWallet(rpc, payer.key, { chainId, known: new Set([chainId]), ...state });
  const opened = await open(browser, [wallet], options);
  const asked = link(more);
  await opened.page.goto(gateway + linkOf(asked));
  return { ...opened, payer, wallet, asked };
}

const connect = (page) => page.getByRole('button', { name: 'Connect Test Wallet' }).click();
const allow = (page) => page.getByRole('button', { name: /^Allow/ }).click();
const pay = (page) => page.getByRole('button', { name: /^Pay/ }).click();
const completed = (page) => page.getByRole('heading', { name: 'Payment completed' }).waitFor();

test('a signature that is declined takes nothing, and can be given after all', async () => {
  const rejects = new Set(['eth_requestAccounts', 'eth_sendTransaction', 'eth_signTypedData_v4']);
  const { page, wallet, faults } = await ready({ rejects });
  for (const [method, act] of [['eth_requestAccounts', connect], ['eth_sendTransaction', allow], ['eth_signTypedData_v4', pay]]) {
    await act(page);
    await page.getByText('You did not confirm in your wallet').waitFor();
    await picture(page, `evm-declined-${method}`);
    rejects.delete(method);
    await page.getByRole('button', { name: 'Try again' }).click();
  }
  await completed(page);
  assert.equal(wallet.asked.filter((method) => method === 'eth_signTypedData_v4').length, 2);
  assert.deepEqual(faults, []);
});

test('a wallet on another network is asked to change, and one that does not know it is told so', async () => {
  const known = new Set([1]);
  const { page, wallet } = await ready({ chainId: 1, known });
  await connect(page);
  await page.getByText('Your wallet does not know eip155:31337').waitFor();
  await picture(page, 'evm-unknown-network');
  known.add(chainId);
  await page.getByRole('button', { name: 'Change to eip155:31337' }).click();
  await allow(page);
  await pay(page);
  await completed(page);
  assert.equal(wallet.asked.filter((method) => method === 'wallet_switchEthereumChain').length, 2);
});

test('a page that is loaded again at any stage goes on, and pays once', async () => {
  const { page, payer, asked } = await ready();
  await page.getByRole('button', { name: 'Connect Test Wallet' }).waitFor();
  await page.reload();
  await connect(page);
  await page.getByRole('button', { name: /^Allow/ }).waitFor();
  await page.reload();
  await connect(page);
  await allow(page);
  await page.getByRole('button', { name: /^Pay/ }).waitFor();
  await page.reload();
  await connect(page);
  // The gateway takes what was signed, and its answer is lost; then the browser is closed.
  let submitted = 0;
  await page.route('**/award', async (route) => {
    submitted += 1;
    if (submitted === 1) await route.fetch();
    // The page may be gone by then.
    await route.abort('connectionreset').catch(() => undefined);
  });
  await pay(page);
  await page.waitForFunction(() => Object.keys(localStorage).length > 0);
  while (!submitted) await page.waitForEvent('requestfailed');
  await page.goto('about:blank');
  await page.unroute('**/award');
  await page.goto(gateway + linkOf(asked));
  await page.waitForURL('**/pay/pay_*');
  await page.reload();
  await completed(page);
  // The link again shows the payment, and asks nobody to pay once more.
  await page.goto('about:blank');
  await page.goto(gateway + linkOf(asked));
  await page.waitForURL('**/pay/pay_*');
  await completed(page);
  const left = await payer.reader.readContract({ address: token, abi: balanceOf, functionName: 'balanceOf', args: [payer.address] });
  assert.ok(left < 75n * MILLION && left > 74n * MILLION, `${left}`);
});

test('what was signed and never arrived is handed in when the page is loaded again', async () => {
  const { page, asked, wallet } = await ready();
  await connect(page);
  await allow(page);
  await page.route('**/award', (route) => route.abort('internetdisconnected'));
  await pay(page);
  await page.waitForFunction(() => Object.keys(localStorage).length > 0);
  await page.getByText('What you signed is kept').waitFor();
  await picture(page, 'evm-lost');
  await page.unroute('**/award');
  await page.goto('about:blank');
  await page.goto(gateway + linkOf(asked));
  await completed(page);
  assert.equal(wallet.asked.filter((method) => method === 'eth_signTypedData_v4').length, 1);
});

test('a connection that is lost while a payment is watched comes back by itself', async () => {
  const { page, context } = await ready();
  await connect(page);
  await allow(page);
  await pay(page);
  await page.getByRole('heading', { name: 'Payment pending' }).waitFor();
  await context.setOffline(true);
  await page.getByText('The connection is lost').waitFor();
  await picture(page, 'evm-offline');
  await context.setOffline(false);
  await completed(page);
  await page.getByText('The connection is lost').waitFor({ state: 'detached' });
});

test('a phone of 320 pixels shows everything without scrolling sideways, in the dark too', async () => {
  const { page } = await ready({}, {}, { viewport: { width: 320, height: 640 }, colorScheme: 'dark', isMobile: true, hasTouch: true, reducedMotion: 'reduce' });
  const fits = async (name) => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 320, `${name}: ${wide}`);
    assert.deepEqual(await serious(page), []);
    await picture(page, `phone-${name}`);
  };
  await page.getByText('Or pay with your phone').click();
  await fits('1-link');
  await connect(page);
  await page.getByRole('button', { name: /^Allow/ }).waitFor();
  await fits('2-allow');
  await allow(page);
  await page.getByRole('button', { name: /^Pay/ }).waitFor();
  await fits('3-quotes');
  await pay(page);
  await completed(page);
  await page.getByText('Technical details').click();
  await fits('4-receipt');
});

test('a link that nobody could pay says why', async () => {
  const { page } = await open(browser);
  for (const [path, words] of [
    ['/pay', 'Nothing to pay'],
    ['/pay#%%%', 'This link cannot be paid'],
    ['/pay#e30', 'This link cannot be paid'],
    [`/pay#${Buffer.from('{"v":2}').toString('base64url')}`, 'newer version'],
    [linkOf(link({ expires_at: '2020-01-01T00:00:00Z' })), 'has expired'],
    [linkOf(link({ destination: [{ asset_identifier: 'eip155:1/erc20:0x00', account: '0x00' }] })), 'cannot pay that'],
    [linkOf(link({ fulfillment_amount: '-1' })), 'This link cannot be paid'],
  ]) {
    await page.goto('about:blank');
    await page.goto(gateway + path);
    await page.getByText(words).waitFor();
  }
});

test('the keyboard alone pays', async () => {
  const { page } = await ready();
  const press = async (name) => {
    const button = page.getByRole('button', { name });
    await button.waitFor();
    for (let tabs = 0; tabs < 40; tabs += 1) {
      if (await button.evaluate((it) => it === document.activeElement)) break;
      await page.keyboard.press('Tab');
    }
    assert.ok(await button.evaluate((it) => it === document.activeElement), `${name} is not reached`);
    await page.keyboard.press('Enter');
  };
  await press('Connect Test Wallet');
  await press(/^Allow/);
  await press(/^Pay/);
  await completed(page);
});

test('without a limit of the recipient the price is asked for first, and the limit is close above it', async () => {
  const { page } = await ready({}, { pay_with: [{ asset_identifier: order.source.asset_identifier }] });
  await connect(page);
  await page.getByRole('button', { name: 'Allow 25.27525 DEV' }).click();
  await page.getByText('at most 25.27525 DEV').waitFor();
  await pay(page);
  await completed(page);
});

test('an allowance that was sent is waited for when the page is loaded again, and not asked for twice', async () => {
  const { page, wallet } = await ready();
  await connect(page);
  // The gateway's node sees it late.
  let late = true;
  await page.route('**/v1/payments/prepare', async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    const amount = order.max_source_amount;
    const approval = { asset_identifier: order.source.asset_identifier, spender: '0x', amount, call: {} };
    await route.fulfill({ response, json: late ? { ...body, approval } : body });
  });
  await allow(page);
  await page.waitForFunction(() => Object.keys(localStorage).some((key) => key.startsWith('gateway-sent')));
  await page.reload();
  await connect(page);
  await page.getByText('Waiting until it is on chain').waitFor();
  late = false;
  await pay(page);
  await completed(page);
  assert.equal(wallet.asked.filter((method) => method === 'eth_sendTransaction').length, 1);
});

test('two tabs pay once: the one that comes second is told so, and goes on with what the first one signed', async () => {
  const { page, context, wallet, asked, payer } = await ready();
  await connect(page);
  await allow(page);
  await page.getByRole('button', { name: /^Pay/ }).waitFor();
  const second = await context.newPage();
  await second.goto(gateway + linkOf(asked));
  await connect(second);
  await second.getByRole('button', { name: /^Pay/ }).waitFor();
  const { handle } = wallet;
  let sign;
  const held = new Promise((resolve) => (sign = resolve));
  const isAsked = new Promise((resolve) => {
    wallet.handle = async (method, params) => {
      if (method === 'eth_signTypedData_v4') {
        resolve();
        await held;
      }
      return handle(method, params);
    };
  });
  await pay(page);
  await isAsked;
  await pay(second);
  await second.getByText('being paid in another tab').waitFor();
  await picture(second, 'evm-second-tab');
  sign();
  await completed(page);
  await completed(second);
  assert.equal(second.url(), page.url());
  assert.equal(wallet.asked.filter((method) => method === 'eth_signTypedData_v4').length, 1);
  const left = await payer.reader.readContract({ address: token, abi: balanceOf, functionName: 'balanceOf', args: [payer.address] });
  assert.ok(left < 75n * MILLION && left > 74n * MILLION, `${left}`);
  // Of what was signed nothing is left but the payment's id.
  const kept = await page.evaluate(() => Object.entries(localStorage).filter(([key]) => key.startsWith('gateway-pay')).map(([, value]) => JSON.parse(value)));
  assert.deepEqual(kept, [{ paymentId: page.url().split('/').at(-1), accepted: true }]);
});

test('what was paid to another shop under the same request id is not taken for this payment', async () => {
  const { page, asked } = await ready();
  await connect(page);
  await allow(page);
  await pay(page);
  await completed(page);
  const [{ asset_identifier: asset }] = asked.destination;
  for (const other of [{ fulfillment_amount: '20000000' }, { destination: [{ asset_identifier: asset, account: `0x${'5'.repeat(40)}` }] }]) {
    await page.goto('about:blank');
    await page.goto(gateway + linkOf({ ...asked, ...other }));
    await connect(page);
    await page.getByText("paid something else under this order's number").waitFor();
  }
  await picture(page, 'evm-taken');
  // By the link itself it is still found, also where this browser knows nothing of it.
  await page.evaluate(() => localStorage.clear());
  await page.goto('about:blank');
  await page.goto(gateway + linkOf(asked));
  await connect(page);
  await completed(page);
});

test('of several assets that may arrive each has its amount, and a quote that delivers elsewhere is not shown', async () => {
  const [to] = order.destination;
  const { page } = await ready({}, { destination: [to, { ...to, asset_identifier: order.source.asset_identifier }] });
  await page.getByRole('heading', { name: /^Pay 25 DEV on eip155:\d+ or 25 DEV on eip155:\d+$/ }).waitFor();
  for (const asset of [to.asset_identifier, order.source.asset_identifier]) await page.locator('.money', { hasText: asset }).waitFor();
  assert.deepEqual(await serious(page), []);
  const lies = [`0x${'5'.repeat(40)}`];
  await page.route('**/v1/payments/quote-requests?wait=true', async (route) => {
    const response = await route.fetch();
    const batch = await response.json();
    const [account] = lies;
    if (account) for (const { fulfillment_quote: quote } of batch.quotes) quote.destination.account = account;
    await route.fulfill({ response, json: batch });
  });
  await connect(page);
  await allow(page);
  await page.getByText('Nobody delivers this').waitFor();
  lies.pop();
  await page.getByRole('button', { name: 'Ask again' }).click();
  await page.getByText(/Delivers 25 DEV on eip155:\d+ to 0x/).first().waitFor();
  await picture(page, 'evm-several');
  await pay(page);
  await completed(page);
});

test('who has no wallet sends the money to an address, and what is over comes back', async () => {
  // What an exchange has; the page knows no wallet.
  const exchange = await newPayer(rpc, bank, token, 100n * MILLION);
  const { address: refund } = privateKeyToAccount(generatePrivateKey());
  const asked = link();
  const { page, faults, foreign } = await open(browser, []);
  await page.goto(gateway + linkOf(asked));
  await page.getByText('Send from an exchange or any wallet').click();
  await page.getByLabel('Where money should come back to').fill(refund);
  await page.getByRole('button', { name: 'Show the address' }).click();
  await page.getByRole('heading', { name: 'Send the money' }).waitFor();
  await page.getByRole('img', { name: /^QR code of the transfer: 25.5 DEV to 0x/ }).waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'evm-address');
  // The link shows the same again, and so does the payment's own page.
  const shown = () => page.getByRole('definition').filter({ hasText: 'Copy the address' }).locator('code').innerText();
  const to = await shown();
  await page.goto('about:blank');
  await page.goto(gateway + linkOf(asked));
  await page.waitForURL('**/pay/pay_*');
  await page.reload();
  await page.getByRole('heading', { name: 'Send the money' }).waitFor();
  assert.equal(await shown(), to);
  const account = privateKeyToAccount(exchange.key);
  const purse = createWalletClient({ account, transport: http(rpc) });
  const transfer = (units) => purse.writeContract({ address: token, abi: erc20Abi, functionName: 'transfer', args: [to, units], chain: null });
  await exchange.reader.waitForTransactionReceipt({ hash: await transfer(25n * MILLION) });
  await exchange.reader.waitForTransactionReceipt({ hash: await transfer(MILLION) });
  await completed(page);
  await picture(page, 'evm-address-completed');
  const held = (of) => exchange.reader.readContract({ address: token, abi: balanceOf, functionName: 'balanceOf', args: [of] });
  while ((await held(refund)) === 0n) await new Promise((resolve) => setTimeout(resolve, 500));
  const over = await held(refund);
  assert.ok(over > 900_000n && over < MILLION, `${over}`);
  assert.equal(await held(to), 0n);
  assert.deepEqual([faults, foreign], [[], []]);
});
