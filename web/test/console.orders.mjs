// The orders of operators, and what is told of their end.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { picture, serious } from './browser.mjs';
import { HOSTILE, idOf } from './console-server.mjs';
import { FEW, opened, seen, soon, until } from './console.opened.mjs';

test('what is parked is replayed, one by one and all at once, and each result is told', () =>
  opened(async ({ page, server }) => {
    const [first] = server.parked;
    await page.goto(`${server.url}/#/payments/${idOf(first)}`);
    await page.getByText('Mend it, then replay.').waitFor();
    await picture(page, 'console-parked-payment');
    assert.deepEqual(await serious(page), []);
    await page.getByRole('button', { name: 'Replay' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/is driven again/).waitFor();
    assert.deepEqual(await serious(page), []);
    // Calling it off does nothing.
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.ok(!server.requests.some(({ method }) => method === 'POST'));
    await page.getByRole('button', { name: 'Replay' }).click();
    await dialog.getByRole('button', { name: 'Replay' }).click();
    await dialog.getByText('1 of 1 done').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByText('Mend it, then replay.').waitFor({ state: 'detached' });

    await page.goto(`${server.url}/#/parked`);
    await page.getByLabel('All 39').check();
    await page.getByRole('button', { name: 'Replay 39' }).click();
    await dialog.getByRole('button', { name: 'Replay' }).click();
    // The quote-request is one that the server finds not to be parked.
    await dialog.getByText('38 of 39 done').waitFor();
    await dialog.getByText('it is not parked').waitFor();
    await picture(page, 'console-replayed');
    assert.deepEqual(await serious(page), []);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByText('38 were replayed').waitFor();
    const orders = server.requests.filter(({ method }) => method === 'POST').length;
    assert.equal(orders, 2);
  }));

test('an operator pauses with a reason, resumes, and both are in the record', () =>
  opened(async ({ page, server }) => {
    const dialog = page.getByRole('dialog');
    const close = () => dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Pause' }).click();
    await dialog.getByLabel('Reason').fill('a fork on Base');
    assert.equal(await dialog.getByLabel('Reason').getAttribute('maxlength'), '500');
    await picture(page, 'console-pause');
    await dialog.getByRole('button', { name: 'Pause' }).click();
    await dialog.getByText('Done').waitFor();
    await close();
    await page.locator('.state').getByText('a fork on Base').waitFor();
    assert.deepEqual(await serious(page), []);
    const resume = async () => {
      await page.getByRole('button', { name: 'Resume' }).click();
      await dialog.getByRole('button', { name: 'Resume' }).click();
    };
    // The answer to an order is lost: nobody says that it failed, and it is not given again.
    server.fail('/api/acts/resume', 0, '', '', { times: 1 });
    await resume();
    await dialog.getByText('Whether it was carried out is not known').waitFor();
    await dialog.getByText('Look at the acts before').waitFor();
    await close();
    assert.equal(server.requests.filter(({ method }) => method === 'POST').length, 2);
    // The gateway itself says that it cannot tell.
    server.fail('/api/acts/resume', 503, 'UNAVAILABLE', 'it is not known whether the pause was stored');
    await resume();
    await dialog.getByText('it is not known whether the pause was stored').waitFor();
    await dialog.getByText('Look at the acts before').waitFor();
    assert.doesNotMatch(await dialog.innerText(), /failed|did not carry/i);
    await close();
    server.fail('/api/acts/resume', 403, 'FORBIDDEN', 'the operator may not act any more');
    await resume();
    await dialog.getByText('the operator may not act any more').waitFor();
    await close();
    await resume();
    await dialog.getByText('Done').waitFor();
    await close();
    await page.getByText('Accepting payments').waitFor();
    await page.getByRole('link', { name: 'Acts' }).click();
    await page.getByText('reason: a fork on Base').waitFor();
    await page.getByText('end unknown').waitFor();
    assert.equal(await page.getByRole('row', { name: /alice/ }).count(), 2);
    await page.getByRole('link', { name: 'Gateways' }).click();
    await page.getByRole('button', { name: 'Acknowledge' }).click();
    await dialog.getByRole('button', { name: 'Acknowledge' }).click();
    await dialog.getByText('Done').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Rebuild', exact: true }).first().click();
    await dialog.getByText('of gw-0').waitFor();
    await dialog.getByRole('button', { name: 'Rebuild' }).click();
    await dialog.getByText('Done').waitFor();
  }, FEW));

test('a pause is ended by whoever was shown that one', () =>
  opened(async ({ page, server }) => {
    const dialog = page.getByRole('dialog');
    server.orderBy('carol', 'pause', { reason: 'a fork on Base' });
    await page.reload();
    await page.locator('.state').getByText('a fork on Base').waitFor();
    // Meanwhile it was paused anew, which nobody here was told.
    for (const [status, by, reason] of [[409, 'bob', `a fork on Ethereum ${HOSTILE}`], [200, 'dave', 'a leaked key']]) {
      if (!(await dialog.count())) {
        await page.getByRole('button', { name: 'Resume' }).click();
        await dialog.getByText('a fork on Base').waitFor();
        await dialog.getByText('carol').waitFor();
      }
      server.orderBy(by, 'pause', { reason }, status);
      await dialog.getByRole('button', { name: 'Resume' }).click();
      await dialog.getByRole('alert').getByText('It was changed meanwhile').waitFor();
      await dialog.locator('dl').getByText(reason.slice(0, 12)).waitFor();
      await dialog.locator('dl').getByText(by).waitFor();
      assert.ok(await dialog.getByRole('button', { name: 'Cancel' }).evaluate((button) => button === document.activeElement), 'what calls it off has the focus');
      assert.deepEqual(await serious(page), []);
      await picture(page, `console-changed-${status}`);
    }
    await dialog.getByRole('button', { name: 'Resume' }).click();
    await dialog.getByText('Done').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByText('Accepting payments').waitFor();
    // The state is named as the gateway wrote it, which is finer than a browser's clock.
    const named = server.requests.filter(({ path }) => path === '/api/acts/resume').map(({ body }) => body.since);
    assert.equal(new Set(named).size, 3);
    for (const since of named) assert.match(since, /\d\.\d{3}456789Z$/);
    const paused = async () => {
      server.orderBy('carol', 'pause', {});
      await page.reload();
      await page.getByRole('button', { name: 'Resume' }).click();
      await dialog.getByText('none was given').waitFor();
    };
    const close = async () => {
      await dialog.getByRole('button', { name: 'Close' }).click();
      await page.getByText('Accepting payments').waitFor();
    };
    // Somebody else was faster: there is nothing to do.
    await paused();
    server.orderBy('bob', 'resume');
    await dialog.getByRole('button', { name: 'Resume' }).click();
    await dialog.getByText('Done').waitFor();
    await close();
    // It was paused anew and resumed before this page could see it.
    await paused();
    server.orderBy('bob', 'pause', { reason: 'a leaked key' });
    const held = server.hold('/api/me', () => true);
    await dialog.getByRole('button', { name: 'Resume' }).click();
    await until(() => server.requests.filter(({ path, body }) => path === '/api/acts/resume' && body).length === 5, 'the order is refused');
    server.orderBy('bob', 'resume');
    held.release();
    await dialog.getByText('somebody else resumed').waitFor();
    await close();
  }, FEW));

test('more that is parked than one order replays is told as what is left', () =>
  opened(async ({ page, server }) => {
    const dialog = page.getByRole('dialog');
    await page.getByText('Shown are the 10 of 40').waitFor();
    await page.getByRole('button', { name: 'Replay all 40' }).click();
    await dialog.getByRole('button', { name: 'Replay' }).click();
    await dialog.getByText('15 are still parked').waitFor();
    await picture(page, 'console-left');
    assert.deepEqual(server.requests.filter(({ method }) => method === 'POST').map(({ body }) => body), [{ all: true }]);
    await dialog.getByRole('button', { name: 'Close' }).click();
    // Nobody can tell for now: nothing is said to be parked, and none not to be.
    server.knowParking(false);
    await page.getByRole('link', { name: 'Payments' }).click();
    const unknown = page.getByText('Which payments are parked cannot be told');
    await seen(page, unknown);
    await seen(page, page.locator('.counts').getByText('–'));
    server.knowParking(true);
    await soon(page, async () => !(await unknown.count()), 'it is known again');
  }, { fragment: '#/parked', parkedMax: 10, replayMax: 25, hasClock: true }));
