// A gateway that went, cannot answer or is not looked at, and whoever takes its place.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';

import { picture, serious } from './browser.mjs';
import { TOKEN, serve } from './console-server.mjs';
import { openConsole, rows, signIn } from './console.mjs';
import { browser, FEW, opened, seen, soon, until } from './console.opened.mjs';

/** Another program that has the port of a gateway which restarts. */
async function intruder(url, answers) {
  const asked = [];
  const server = createServer(({ method, url: path, headers }, answer) => {
    asked.push({ method, path, headers });
    const [status, body] = answers;
    answer.writeHead(status, { 'content-type': 'text/html' }).end(body);
  });
  await new Promise((resolve) => server.listen(Number(new URL(url).port), '127.0.0.1', resolve));
  return {
    asked,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

const tokenOf = (page) => page.evaluate(() => sessionStorage.getItem('console.token'));
const hide = (page, isHidden) => page.evaluate((hidden) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}, isHidden);
const wake = (page) => page.evaluate(() => dispatchEvent(new Event('online')));

/** What is closed after a test, whatever came of it. */
async function closing(run) {
  const opened = [];
  try {
    await run((one) => {
      opened.push(one);
      return one;
    });
  } finally {
    for (const one of opened.reverse()) await one.close();
  }
}

/** That nobody here was asked for anything but the page, or shown the token. */
function sawNothing({ asked }) {
  assert.deepEqual([...new Set(asked.map(({ method, path }) => `${method} ${path}`))], ['GET /']);
  assert.ok(!JSON.stringify(asked).includes(TOKEN), 'the token was sent');
}

test('whoever takes the port of a gateway that went is shown no token', () =>
  closing(async (closed) => {
    let server = closed(await serve(FEW));
    const { url } = server;
    const { page, context, faults, foreign } = await openConsole(browser, url);
    closed(context);
    await page.clock.install();
    await signIn(page, url, TOKEN);
    await rows(page).first().waitFor();
    for (const answers of [[200, '<h1>Another program</h1>'], [404, 'not here'], [502, 'bad gateway']]) {
      const bar = page.locator('.troubles');
      await server.close();
      await seen(page, bar.getByText('cannot be reached'));
      const other = closed(await intruder(url, answers));
      await wake(page);
      await soon(page, () => other.asked.length > 3, 'it looks at who is there');
      if (answers[0] < 500) await bar.getByText('Another page answers at this address').waitFor();
      if (answers[0] === 200) {
        await picture(page, 'console-other');
        assert.deepEqual(await serious(page), []);
        // An order is not sent, and it is said that it was not.
        await page.getByRole('button', { name: 'Pause' }).click();
        await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
        await page.getByRole('dialog').getByText('It was not ordered').waitFor();
        await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
      }
      assert.ok(await rows(page).count(), 'what is shown stays');
      assert.equal(await tokenOf(page), null);
      await other.close();
      sawNothing(other);
      server = closed(await serve({ ...FEW, port: Number(new URL(url).port) }));
      await wake(page);
      await soon(page, async () => (await bar.innerText()) === '', 'it goes on');
      assert.equal(await tokenOf(page), TOKEN);
      await soon(page, () => server.requests.length > 0, 'the API is asked');
    }
    assert.ok(server.pages.length > 0 && server.pages.every(({ authorization }) => authorization === undefined));
    assert.equal(server.requests.filter(({ method }) => method === 'POST').length, 0);
    assert.deepEqual([faults.filter((fault) => !/Failed to load resource/.test(fault)), foreign], [[], []]);
  }));

test('a tab that was hidden looks at who is there before it shows its token', () =>
  closing(async (closed) => {
    const server = closed(await serve(FEW));
    const { page, context } = await openConsole(browser, server.url);
    closed(context);
    await signIn(page, server.url, TOKEN);
    await rows(page).first().waitFor();
    await page.clock.install();
    await hide(page, true);
    await page.waitForLoadState('networkidle');
    await server.close();
    const other = closed(await intruder(server.url, [200, '{}']));
    await page.clock.runFor(60_000);
    assert.deepEqual(other.asked, []);
    await hide(page, false);
    await page.locator('.troubles').getByText('Another page answers at this address').waitFor();
    sawNothing(other);
  }));

test('a gateway that is not heard, cannot answer or is asked too much is told of, and what is shown stays', () =>
  opened(async ({ page, server }) => {
    await rows(page).first().waitFor();
    const bar = page.locator('.troubles');
    const shown = async (text) => {
      await seen(page, bar.getByText(text));
      assert.ok(await rows(page).count(), 'the rows are gone');
    };
    for (const [status, code, text] of [[503, 'UNAVAILABLE', 'cannot answer all of this'], [429, 'TOO_BUSY', 'asked too much'], [0, '', 'cannot be reached']]) {
      const failure = server.fail('/api/', status, code, `because of ${status}`, { times: Infinity });
      await shown(text);
      if (status) await shown(`because of ${status}`);
      await picture(page, `console-trouble-${status}`);
      assert.deepEqual(await serious(page), []);
      failure.left = 0;
      await page.evaluate(() => dispatchEvent(new Event('online')));
      await soon(page, async () => (await bar.innerText()) === '', `the bar goes after ${status}`);
    }
    // The gateway's own wait is kept to.
    const failure = server.fail('/api/alarms', 429, 'TOO_BUSY', 'later', { times: 1, headers: { 'retry-after': '3600' } });
    await soon(page, () => failure.left === 0, 'the alarms are asked for');
    await shown('asked too much');
    const seconds = Number(/again in (\d+) s/.exec(await bar.innerText())[1]);
    assert.ok(seconds > 3_500, `${seconds} s`);
    // What is refused for good is told where it would be.
    server.fail('/api/streams', 403, 'FORBIDDEN', 'not for you', { times: 1 });
    await page.getByRole('link', { name: 'Streams' }).click();
    await page.getByRole('alert').getByText('not for you').waitFor();
  }, { ...FEW, hasClock: true }));

test('nothing is asked for while the tab is hidden', () =>
  opened(async ({ page, server }) => {
    await rows(page).first().waitFor();
    await page.clock.install();
    const asked = () => server.requests.length;
    await hide(page, true);
    // What was under way may end.
    await page.waitForLoadState('networkidle');
    const before = asked();
    await page.clock.runFor(120_000);
    assert.equal(asked(), before);
    await hide(page, false);
    await until(() => asked() > before, 'it asks again');
  }, FEW));
