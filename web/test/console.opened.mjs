// What tests of the operators' console in a browser begin with. One browser is for all of them.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';

import { launch } from './browser.mjs';
import { TOKEN, serve } from './console-server.mjs';
import { openConsole, signIn } from './console.mjs';

/** What goes by at once of a page's time, longer than from one look at the newest payments to the next. */
const SPAN_MS = 2_500;

export let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** So few payments where the list is not what a test is about. */
export const FEW = { count: 12 };

/** A server of its own, and a page that is signed in to it, for one test. With `hasClock` the page's time is the test's to turn on. */
export async function opened(run, { fragment = '', token = TOKEN, options = {}, hasClock = false, ...served } = {}) {
  const server = await serve({ count: 5_000, ...served });
  const { page, context, faults, foreign } = await openConsole(browser, server.url, options);
  try {
    if (hasClock) await page.clock.install();
    await signIn(page, server.url, token, fragment);
    await run({ page, server, context });
    assert.deepEqual([faults, foreign], [[], []]);
  } finally {
    await context.close();
    await server.close();
  }
}

/** Until it is so. */
export async function until(isSo, what) {
  const end = Date.now() + 30_000;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`it never came to this: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Until it is so, while the page's time goes by faster than ours: nobody waits for when it asks next. */
export const soon = (page, isSo, what) =>
  until(async () => {
    await page.clock.fastForward(SPAN_MS);
    return isSo();
  }, what);

/** Until this is to be seen, as soon. */
export const seen = (page, locator) => soon(page, () => locator.isVisible(), String(locator));
