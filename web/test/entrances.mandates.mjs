// Tests of mandates: what a merchant's link asks for, and its end.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { decodeFunctionData, recoverTypedDataAddress } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';

import { KEY, MERCHANT, mandateLink, payerWallet, SOURCE, to } from './entrances-server.mjs';
import { open, picture, serious } from './browser.mjs';
import { EVM, twenty } from './honest_gateway.mjs';
import { addressOf, CONTRACT, MANDATES_ABI, preparedMandate, structOf } from './honest_mandate.mjs';

const MANDATE = { merchant: MERCHANT, amount: '25500000', least: '25000000', period_seconds: 2_592_000, periods: 12 };
const SHOP = 'https://shop.example';
const DIFFERS = 'The gateway asked for a signature for another spender, or over something else than this page shows. Nothing was signed.';

export function mandates(shared) {
  const worldNow = () => shared.world;
  /** The page of a link, with a wallet. */
  async function asked(members, wallet = payerWallet(worldNow)) {
    const opened = await open(shared.browser, [wallet]);
    await opened.page.goto(process.env.GATEWAY_URL + mandateLink({ mandate: MANDATE, ...members }));
    return { ...opened, wallet };
  }
  const connect = (page) => page.getByRole('button', { name: 'Connect Test Wallet' }).click();
  const stored = (page) => page.evaluate(() => Object.entries({ ...localStorage }).filter(([key]) => key.startsWith('gateway-mandate')).map(([, text]) => JSON.parse(text)));
  const main = (page) => page.locator('main').innerText();

  test('a merchant’s link is told in plain words, signed once for the address that the page computes, handed over, and ended', async () => {
    const world = worldNow();
    world.allowance = 1n;
    const salt = `0x${'1'.repeat(64)}`;
    const { page, wallet, faults, foreign, context } = await asked({ mandate: { ...MANDATE, salt }, memo: 'Rent <b>7</b> \u202eevil', return_url: `${SHOP}/back?customer=7` });
    await context.route(`${SHOP}/**`, (route) => route.fulfill({ contentType: 'text/html', body: '<title>Shop</title><h1>Thank you</h1>' }));
    await page.getByRole('heading', { name: 'Allow payments of up to 25.5 DEV in every 30 days' }).waitFor();
    const words = await main(page);
    for (const said of [MERCHANT, to.account, 'at most 25.5 DEV in 30 days', '12 of 30 days each', '306 DEV on eip155:31337 This is the amount that your wallet shows', 'at least 25 DEV', 'when you sign', 'you can send what you signed to https://shop.example', 'Rent <b>7</b> \\u{202e}evil']) {
      assert.ok(words.includes(said), `the page does not say ${said}:\n${words}`);
    }
    await connect(page);
    await page.getByText('Your wallet asks to allow 306 DEV first').waitFor();
    assert.deepEqual([wallet.signed, wallet.sent], [[], []]);
    assert.deepEqual(await serious(page), []);
    await picture(page, 'mandate-offer');
    await page.getByRole('button', { name: 'Allow 306 DEV and sign' }).click();
    await page.getByRole('heading', { name: 'You have signed' }).waitFor();
    assert.deepEqual(await serious(page), []);
    await picture(page, 'mandate-signed');

    // The salt is the page's, and the spender what the contract makes of all that was shown.
    const [{ document }] = await stored(page);
    assert.notEqual(document.mandate.salt, salt);
    assert.notEqual(document.mandate.salt, world.requests[0].mandate.salt);
    assert.deepEqual(Object.fromEntries(Object.keys(MANDATE).map((name) => [name, document.mandate[name]])), MANDATE);
    assert.deepEqual([document.source, document.destination], [{ asset_identifier: SOURCE.toLowerCase(), account: wallet.account.toLowerCase() }, [{ asset_identifier: to.asset_identifier.toLowerCase(), account: to.account }]]);
    const [data] = wallet.signed;
    assert.equal(data.message.spender, addressOf(structOf(document)));
    assert.deepEqual([document.address, data.message.details.amount], [data.message.spender, '306000000']);
    const { EIP712Domain: _, ...types } = data.types;
    assert.equal(await recoverTypedDataAddress({ ...data, types, signature: document.permit }), wallet.account);
    assert.equal(wallet.sent.length, 2);
    assert.equal(world.allowance, 306_000_000n);

    // It is handed over as a file, as a text, and where the link names an address, by pressing what shows that address.
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download' }).click()]);
    assert.equal(download.suggestedFilename(), `mandate-${document.address}.json`);
    assert.deepEqual(JSON.parse(await readFile(await download.path(), 'utf8')), document);
    await page.getByText('Show what is handed over').click();
    assert.deepEqual(JSON.parse(await page.locator('code.document').innerText()), document);
    assert.deepEqual(foreign, []);

    // Loaded again, the link does not ask for a second signature.
    await page.reload();
    await page.getByRole('heading', { name: 'You have signed' }).waitFor();
    const send = page.getByRole('link', { name: `Send it to ${SHOP}` });
    await send.waitFor();
    assert.deepEqual(foreign, []);
    await send.click();
    await page.getByRole('heading', { name: 'Thank you' }).waitFor();
    const at = new URL(page.url());
    assert.deepEqual([at.origin, at.pathname, at.searchParams.get('customer')], [SHOP, '/back', '7']);
    assert.deepEqual(JSON.parse(Buffer.from(at.searchParams.get('mandate'), 'base64url').toString()), document);
    assert.equal(wallet.signed.length, 1);

    // It is ended out of this browser, by the call of the contract that keeps mandates.
    await page.goto(`${process.env.GATEWAY_URL}/pay#mandates`);
    await page.getByRole('button', { name: '25.5 DEV in every 30 days, for' }).click();
    await page.getByText('End the mandate', { exact: true }).click();
    await connect(page);
    await page.getByRole('button', { name: 'End it for ever' }).click();
    await page.getByRole('heading', { name: 'It is ended' }).waitFor();
    assert.deepEqual(await serious(page), []);
    const { to: called, data: call, value } = wallet.sent.at(-1);
    const { functionName, args } = decodeFunctionData({ abi: MANDATES_ABI, data: call });
    assert.deepEqual([called, functionName, value, addressOf(args[0]), args[1]], [CONTRACT, 'cancel', '0x0', document.address, '0x']);
    assert.ok((await stored(page))[0].ended);
    assert.deepEqual(faults, []);
    await context.close();
  });

  test('a gateway that shows another spender, or another mandate, gets no signature', async () => {
    const world = worldNow();
    const { page, wallet, faults, context } = await asked();
    await connect(page);
    const sign = page.getByRole('button', { name: 'Sign', exact: true });
    await sign.waitFor();
    const thief = twenty('6');
    // An account of its own, which could draw the total at once; and a mandate that is honest but for its recipient.
    const lies = [
      { edit: (data) => (data.message.spender = thief) },
      { change: (request) => ({ ...request, destination: [{ ...request.destination[0], account: thief }] }) },
    ];
    for (const lie of lies) {
      world.lie = lie;
      await sign.click();
      await page.getByText(DIFFERS).waitFor();
      world.lie = {};
      await page.getByRole('button', { name: 'Use another wallet' }).click();
      await connect(page);
      await page.getByText(DIFFERS).waitFor({ state: 'detached' });
      await sign.waitFor();
    }
    assert.deepEqual([wallet.signed, wallet.sent, await stored(page)], [[], [], []]);
    // The control.
    await sign.click();
    await page.getByRole('heading', { name: 'You have signed' }).waitFor();
    // Without an address of the merchant's there is nowhere to be sent to.
    assert.equal(await page.getByRole('link', { name: 'Send it to' }).count(), 0);
    assert.deepEqual([wallet.signed.length, faults], [1, []]);
    await context.close();
  });

  test('a hostile link leads nowhere by itself, and what it leaves open is said', async () => {
    const { page, foreign, faults, context } = await asked({ return_url: 'javascript:alert(1)' });
    const refused = page.getByRole('heading', { name: 'This link cannot be paid' });
    await refused.waitFor();
    const visit = async (members) => {
      await page.goto('about:blank');
      await page.goto(process.env.GATEWAY_URL + mandateLink({ mandate: MANDATE, ...members }));
    };
    await visit({ return_url: 'https://shop.example@evil.example/' });
    await refused.waitFor();
    // Another host than it reads like is shown as it is, and nothing is asked of it.
    const { least: _, ...unbound } = MANDATE;
    await visit({ mandate: { ...unbound, period_seconds: 1, periods: 1_000_000 }, return_url: 'https://xn--shp-tna.example:8443/back' });
    await page.getByText('you can send what you signed to https://xn--shp-tna.example:8443').waitFor();
    const words = await main(page);
    for (const said of ['The link sets no bound', 'in every 1 second', '25500000 DEV', 'This page cannot know who made the link']) assert.ok(words.includes(said), `${said}:\n${words}`);
    assert.equal(await page.getByRole('link', { name: /Send it/ }).count(), 0);
    assert.deepEqual(await serious(page), []);
    // A link for another account is not signed by this one, nor one that is over, nor one that the gateway does not serve.
    await visit({ source: { asset_identifier: SOURCE, account: twenty('3') } });
    await connect(page);
    await page.getByText(`This request is for the account ${twenty('3')}`).waitFor();
    await visit({ expires_at: '2020-01-01T00:00:00Z' });
    await page.getByText('It was to be signed until').waitFor();
    await visit({ source: { asset_identifier: `eip155:31337/erc20:${twenty('4')}` } });
    await page.getByRole('heading', { name: 'This gateway cannot pay that' }).waitFor();
    // Without a fragment the page leads to what needs no link.
    await page.goto(`${process.env.GATEWAY_URL}/pay`);
    await page.getByRole('link', { name: 'See and end what you allowed merchants' }).click();
    await page.getByRole('heading', { name: 'What you allowed merchants' }).waitFor();
    await page.goBack();
    await page.getByRole('link', { name: 'Pay many at once' }).click();
    await page.getByRole('heading', { name: 'Pay many at once' }).waitFor();
    assert.deepEqual([foreign, faults], [[], []]);
    await context.close();
  });

  test('a mandate is ended from its document by its payer or merchant, and an altered document is refused', async () => {
    const first = await asked();
    await connect(first.page);
    await first.page.getByRole('button', { name: 'Sign', exact: true }).click();
    await first.page.getByRole('heading', { name: 'You have signed' }).waitFor();
    const [{ document }] = await stored(first.page);
    await first.context.close();
    // Another browser, and an account that has nothing to do with it.
    const stranger = payerWallet(worldNow, `0x${'5'.repeat(64)}`);
    const { page, context, faults } = await open(shared.browser, [stranger]);
    await page.goto(`${process.env.GATEWAY_URL}/pay#mandates`);
    await page.getByText('Nothing was signed in this browser.').waitFor();
    const paste = async (text) => {
      await page.getByLabel('Paste what was handed over').fill(text);
      await page.getByRole('button', { name: 'Read it' }).click();
    };
    await paste(JSON.stringify({ ...document, mandate: { ...document.mandate, merchant: twenty('8') } }));
    await page.getByText('Its address is not that of this mandate').waitFor();
    const altered = { ...document, mandate: { ...document.mandate, salt: `0x${'4'.repeat(64)}` } };
    await paste(JSON.stringify({ ...altered, address: addressOf(structOf(altered)) }));
    await page.getByText('Its signature is not that of the payer').waitFor();
    assert.deepEqual(await serious(page), []);
    await paste(JSON.stringify(document));
    await page.getByRole('heading', { name: 'This was signed' }).waitFor();
    await page.getByText('End the mandate', { exact: true }).click();
    await connect(page);
    await page.getByText(`Only the account that signed, ${document.source.account}`).waitFor();
    assert.deepEqual([stranger.sent, faults], [[], []]);
    await context.close();
  });

  test('money is held for no longer than was shown, whatever the gateway says afterwards', async () => {
    const world = worldNow();
    const { page, wallet, context } = await asked();
    await connect(page);
    const sign = page.getByRole('button', { name: 'Sign', exact: true });
    await sign.waitFor();
    const shown = await page.getByText('a payment that is not delivered, within').innerText();
    world.served = { refund_delay_seconds: 86_000 };
    await sign.click();
    await page.getByRole('heading', { name: 'You have signed' }).waitFor();
    assert.equal(await page.getByText('a payment that is not delivered, within').innerText(), shown);
    assert.equal(wallet.signed.length, 1);
    await context.close();
  });

  test('a mandate that ends behind every calendar is shown, and can be ended', async () => {
    const { page, context, faults } = await open(shared.browser, [payerWallet(worldNow)]);
    const source = { asset_identifier: SOURCE.toLowerCase(), account: payerWallet(worldNow).account.toLowerCase() };
    const mandate = { ...MANDATE, begins: 1_893_456_000, periods: 2 ** 26, lock_seconds: 90_000, salt: `0x${'3'.repeat(64)}` };
    const { permit, address, fulfillment_verifier } = preparedMandate({ source, destination: [to], mandate });
    const data = JSON.parse(permit.message_prehash);
    const { EIP712Domain: _, ...types } = data.types;
    const signature = await privateKeyToAccount(KEY).signTypedData({ ...data, types });
    const document = { mandate, permit: signature, address, source, destination: [to], escrow_contract_address: EVM.served.escrow_contract_address, fulfillment_verifier };
    await page.goto(`${process.env.GATEWAY_URL}/pay#mandates`);
    await page.getByLabel('Paste what was handed over').fill(JSON.stringify(document));
    await page.getByRole('button', { name: 'Read it' }).click();
    await page.getByText('after the year 9999').waitFor();
    await page.getByText('End the mandate', { exact: true }).click();
    await connect(page);
    await page.getByRole('button', { name: 'End it for ever' }).click();
    await page.getByRole('heading', { name: 'It is ended' }).waitFor();
    assert.deepEqual(faults, []);
    await context.close();
  });
}
