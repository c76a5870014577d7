// Drives the operators' console in a browser. With the address and the token of a gateway's console it looks through it, and
// leaves pictures: node web/test/console.mjs http://127.0.0.1:8099 gwc_…
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';

import { launch, open, picture, serious } from './browser.mjs';

const TIMEOUT_MS = 30_000;
const VIEWS = ['Parked', 'Settlers', 'Verifiers', 'Chains', 'Gateways', 'Streams', 'Graphs', 'Acts'];

/** A page of the console at `url`, and its faults. */
export async function openConsole(browser, url, options = {}) {
  // What is asked of another origin is foreign.
  process.env.GATEWAY_URL = url;
  const opened = await open(browser, [], { viewport: { width: 1360, height: 860 }, ...options });
  opened.context.setDefaultTimeout(TIMEOUT_MS);
  return opened;
}

export async function signIn(page, url, token, fragment = '') {
  await page.goto(`${url}/${fragment}`);
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Views' }).waitFor();
}

/** The rows of the list that are in the document. */
export const rows = (page) => page.locator('.row[role=row]');

/** Signs in, looks at the list, at a payment and at every view, and leaves pictures of them. The gateway has a payment at least. */
export async function lookThrough(browser, url, token, { name = 'console', payments = 1 } = {}) {
  const { page, context, faults, foreign } = await openConsole(browser, url);
  try {
    await signIn(page, url, token);
    await rows(page).nth(payments - 1).waitFor();
    await picture(page, `${name}-payments`);
    assert.deepEqual(await serious(page), [], 'the list');
    await rows(page).first().focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Journal' }).waitFor();
    const id = decodeURIComponent(new URL(page.url()).hash.split('/')[2]);
    assert.match(id, /^pay_/);
    assert.ok(await page.locator('.mark').count(), 'the payment has no events');
    await picture(page, `${name}-payment`);
    assert.deepEqual(await serious(page), [], 'a payment');
    await page.goBack();
    await page.getByLabel('Search by an id, a hash or an account').fill(id.slice(0, 20));
    await page.keyboard.press('Enter');
    await page.getByText('1 payment found').waitFor();
    for (const view of VIEWS) {
      await page.getByRole('link', { name: new RegExp(`^${view}`) }).first().click();
      await page.getByRole('heading', { name: view, level: 1 }).waitFor();
      await page.locator('.busy').waitFor({ state: 'detached' });
      assert.equal(await page.locator('.problem').count(), 0, `${view}: ${await page.locator('#view').innerText()}`);
      await picture(page, `${name}-${view.toLowerCase()}`);
      assert.deepEqual(await serious(page), [], view);
    }
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token').waitFor();
    assert.deepEqual([faults, foreign], [[], []]);
    return id;
  } finally {
    await context.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [url = process.env.CONSOLE_URL, token = process.env.CONSOLE_TOKEN] = process.argv.slice(2);
  if (!url || !token) throw new Error('the address and the token of a console are needed');
  const browser = await launch();
  try {
    console.log(await lookThrough(browser, url.replace(/\/$/, ''), token));
  } finally {
    await browser.close();
  }
}
