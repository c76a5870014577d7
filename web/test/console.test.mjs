// The operators' console against a server that speaks its API, with a hundred thousand payments.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import { launch, picture, serious } from './browser.mjs';
import { HOSTILE, READER, TOKEN, hashOf, idOf, serve } from './console-server.mjs';
import { lookThrough, openConsole, rows, signIn } from './console.mjs';

const COUNT = 100_000;
const HEAP_BYTES_MAX = 200_000_000;
const VIEWS = ['payments', 'parked', 'settlers', 'verifiers', 'chains', 'gateways', 'streams', 'graphs', 'acts'];

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A server of its own, and a page that is signed in to it, for one test. */
async function opened(run, { fragment = '', token = TOKEN, options = {}, ...served } = {}) {
  const server = await serve({ count: 5_000, ...served });
  const { page, context, faults, foreign } = await openConsole(browser, server.url, options);
  try {
    await signIn(page, server.url, token, fragment);
    await run({ page, server, context });
    assert.deepEqual([faults, foreign], [[], []]);
  } finally {
    await context.close();
    await server.close();
  }
}

/** Until it is so. */
async function until(isSo, what) {
  const end = Date.now() + 30_000;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`it never came to this: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const loaded = (page) => page.locator('.list [role=grid]').getAttribute('aria-rowcount').then((text) => Number(text) - 1);

test('an operator signs in, is told what may be done, and leaves no token behind', async () => {
  const server = await serve({ count: 100 });
  const { page, context, faults, foreign } = await openConsole(browser, server.url);
  await page.goto(server.url);
  assert.deepEqual(await serious(page), []);
  await picture(page, 'console-signin');
  await page.getByLabel('Token').fill('gwc_ two words');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('A token is the text that begins with gwc_').waitFor();
  server.fail('/api/me', 0, '', '');
  await page.getByLabel('Token').fill(TOKEN);
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('The answer did not come').waitFor();
  await page.getByLabel('Token').fill(`gwc_${'x'.repeat(43)}`);
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('does not know this token').waitFor();
  assert.deepEqual(await serious(page), []);
  await page.getByLabel('Token').fill(TOKEN);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('alice').waitFor();
  await page.getByText('may act').waitFor();
  const kept = await page.evaluate(() => ({ local: Object.keys(localStorage), session: Object.values(sessionStorage), cookie: document.cookie, html: document.documentElement.outerHTML, url: location.href }));
  assert.deepEqual([kept.local, kept.session, kept.cookie], [[], [TOKEN], '']);
  assert.ok(!kept.html.includes(TOKEN) && !kept.url.includes(TOKEN));
  await page.reload();
  await page.getByText('may act').waitFor();
  const other = await context.newPage();
  await other.goto(server.url);
  await other.getByLabel('Token').waitFor();
  // Withdrawn while one looks: one is signed out, and told why.
  server.forget(TOKEN);
  await page.getByRole('alert').getByText('You have been signed out').waitFor();
  assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage)), []);
  assert.deepEqual([faults, foreign], [[], []]);
  await context.close();
  await server.close();
});

test('who may not act has no buttons to act with', () =>
  opened(async ({ page }) => {
    await page.getByText('may read').waitFor();
    await rows(page).first().waitFor();
    for (const view of ['parked', 'gateways', 'payments']) {
      await page.goto(page.url().replace(/#.*/, `#/${view}`));
      await page.locator('.busy').waitFor({ state: 'detached' });
      for (const name of [/^Pause/, /^Replay/, /^Rebuild/, /^Acknowledge/]) assert.equal(await page.getByRole('button', { name }).count(), 0, `${view} ${name}`);
    }
    // A name that means ill is text, too.
    assert.equal(await page.locator('.who strong').innerText(), `bob ${HOSTILE.replace('\u202e', '\\u{202e}').replace('\u0007', '\\u{7}')}`);
    assert.equal(await page.evaluate(() => document.body.dataset.broken), undefined);
  }, { token: READER }));

test('a hundred thousand payments are scrolled through, and the list stays fluid', (t) =>
  opened(async ({ page }) => {
    await rows(page).first().waitFor();
    await page.evaluate(() => {
      window.tasks = [];
      new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask' });
    });
    const began = Date.now();
    await page.evaluate((count) => new Promise((resolve) => {
      const box = document.querySelector('.list');
      const grid = box.querySelector('[role=grid]');
      let last = 0;
      const step = () => {
        const loaded = Number(grid.getAttribute('aria-rowcount'));
        if (loaded > count) return resolve();
        if (loaded !== last) box.scrollTop = box.scrollHeight;
        last = loaded;
        requestAnimationFrame(step);
      };
      step();
    }), COUNT);
    const loading = await page.evaluate(() => window.tasks.splice(0));
    const seconds = (Date.now() - began) / 1000;
    assert.ok((await loaded(page)) >= COUNT);
    await page.locator('.list').evaluate((box) => void (box.scrollTop = box.scrollHeight));
    await page.getByText('These are all').waitFor();
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    const cpu = async () => (await session.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration').value * 1000;
    const cpuBefore = await cpu();
    const frames = await page.evaluate(() => new Promise((resolve) => {
      const box = document.querySelector('.list');
      const times = [];
      let [last, left] = [performance.now(), 240];
      const step = (now) => {
        times.push(now - last);
        last = now;
        // From end to end and back, and small steps in between.
        box.scrollTop = left % 3 === 0 ? box.scrollHeight * Math.abs(Math.sin(left)) : box.scrollTop + 137;
        left -= 1;
        if (left) requestAnimationFrame(step);
        else resolve(times.slice(1));
      };
      requestAnimationFrame(step);
    }));
    const cpuMs = ((await cpu()) - cpuBefore) / (frames.length + 1);
    const scrolling = await page.evaluate(() => window.tasks);
    const inDocument = await rows(page).count();
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize: heap } = await session.send('Runtime.getHeapUsage');
    frames.sort((a, b) => a - b);
    const [median, late, last] = [frames[frames.length >> 1], frames[Math.floor(frames.length * 0.95)], frames.at(-1)];
    const longest = (tasks) => Math.max(0, ...tasks);
    t.diagnostic(`${COUNT} rows in ${seconds.toFixed(1)} s; processor ${cpuMs.toFixed(1)} ms a frame; frames ${median.toFixed(1)} ms, 95 % ${late.toFixed(1)}, longest ${last.toFixed(1)}`);
    t.diagnostic(`longest task loading ${longest(loading)} ms, scrolling ${longest(scrolling)} ms; ${inDocument} rows in the document; heap ${(heap / 1e6).toFixed(0)} MB`);
    assert.ok(inDocument < 100, `${inDocument} rows are in the document`);
    assert.ok(heap < HEAP_BYTES_MAX, `the heap has ${heap} bytes`);
    // From the last row to the first by keyboard, one by one at the end.
    await rows(page).last().focus();
    await page.keyboard.press('Home');
    await page.locator(`[data-key="${idOf(COUNT - 1)}"]:focus`).waitFor();
    await page.keyboard.press('End');
    await page.locator(`[data-key="${idOf(0)}"]:focus`).waitFor();
    await page.keyboard.press('ArrowUp');
    await page.locator(`[data-key="${idOf(1)}"]:focus`).waitFor();
  }, { count: COUNT }));

test('what comes new appears at the top by itself, and where one reads it waits to be asked for', () =>
  opened(async ({ page, server }) => {
    await rows(page).first().waitFor();
    const first = () => rows(page).first().getAttribute('data-key');
    assert.equal(await first(), idOf(4_999));
    server.add(2);
    await page.locator(`[data-key="${idOf(5_001)}"]`).waitFor();
    assert.equal(await first(), idOf(5_001));
    // Somebody reads further down.
    await page.locator('.list').evaluate((box) => void (box.scrollTop = 3_000));
    const seen = page.locator(`[data-key="${idOf(5_001 - 70)}"]`);
    await seen.waitFor();
    const place = await seen.boundingBox();
    // More than one page of the newest: what lies between is followed.
    server.add(130);
    await page.getByRole('button', { name: '130 new' }).waitFor();
    assert.deepEqual(await seen.boundingBox(), place);
    await picture(page, 'console-new');
    assert.deepEqual(await serious(page), []);
    await page.getByRole('button', { name: '130 new' }).click();
    await page.locator(`[data-key="${idOf(5_131)}"]`).waitFor();
    assert.equal(await first(), idOf(5_131));
    const keys = await rows(page).evaluateAll((all) => all.map((row) => row.dataset.key));
    assert.deepEqual(keys, Array.from(keys, (_, n) => idOf(5_131 - n)));
    // A row that is read is shown as it stands now, though it is not among the newest.
    await page.locator('.list').evaluate((box) => void (box.scrollTop = 46 * 52));
    const released = page.locator(`[data-key="${idOf(5_131 - 57)}"]`);
    await released.getByText('waits for the release').waitFor();
    server.add(10);
    await released.getByText('ended').waitFor();
    // So many that nobody follows them: the list is loaded anew.
    await page.locator('.list').evaluate((box) => void (box.scrollTop = 3_000));
    server.add(3_000);
    await page.getByRole('button', { name: /^More than 1 060 new/ }).click();
    await page.locator(`[data-key="${idOf(8_131)}"]`).waitFor();
  }));

test('a long name of a settler stays in its place, and shows whose domain it is', () =>
  opened(async ({ page }) => {
    const name = page.locator('.c-settler .id', { hasText: 'co.uk' }).first();
    await name.waitFor();
    const [shown, cell] = await name.evaluate((code) => {
      const text = code.querySelector('bdi').firstChild;
      const end = document.createRange();
      end.setStart(text, text.length - 'name-that-is-longer-than-its-room.co.uk'.length);
      end.setEnd(text, text.length);
      return [end, code.closest('.copyable')].map((one) => one.getBoundingClientRect().toJSON());
    });
    const isWithin = cell.left <= shown.left && shown.right <= cell.right + 1 && cell.top <= shown.top + 1 && shown.bottom <= cell.bottom + 1;
    assert.ok(isWithin, JSON.stringify([shown, cell]));
  }));

test('filters stand in the address, and are taken from it', () =>
  opened(async ({ page, server }) => {
    const url = (fragment) => `${server.url}/${fragment}`;
    await page.getByLabel('Status', { exact: true }).selectOption('failed');
    await page.waitForURL(url('#/payments?status=failed'));
    await until(async () => (await rows(page).count()) > 5 && (await rows(page).locator('.status.bad').count()) === (await rows(page).count()), 'failed ones alone');
    await page.getByLabel('Chain', { exact: true }).selectOption('eip155:1');
    await page.waitForURL(url('#/payments?status=failed&chain_id=eip155%3A1'));
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByRole('button', { name: 'Overdue' }).click();
    await page.waitForURL(url('#/payments?overdue=true'));
    await until(async () => (await rows(page).count()) > 5 && (await page.locator('.c-flags .chip.bad').count()) >= (await rows(page).count()), 'overdue ones alone');
    assert.equal(await page.getByRole('button', { name: 'Overdue' }).getAttribute('aria-pressed'), 'true');
    await picture(page, 'console-filtered');
    // An amount in the unit of an asset.
    await page.goto(url('#/payments'));
    await page.getByText('More filters').click();
    await page.getByRole('combobox', { name: 'in', exact: true }).selectOption({ label: 'USDC · Ethereum' });
    await page.getByLabel('Amount from').fill('40 000.5');
    await page.getByLabel('Amount from').blur();
    await page.waitForURL(url('#/payments?amount_from=40000500000'));
    await page.getByLabel('to', { exact: true }).fill('4x');
    await page.getByLabel('to', { exact: true }).blur();
    await page.getByRole('alert').getByText('An amount is digits').waitFor();
    await page.getByLabel('Submitted from').fill('2026-01-02T03:04');
    await page.getByLabel('Submitted from').blur();
    await until(() => /submitted_from=2026-01-0\dT\d\d%3A04%3A00.000Z/.test(page.url()), 'a time of the API');
    assert.deepEqual(await serious(page), []);
    // An address is opened by somebody else.
    await page.goto('about:blank');
    await page.goto(url('#/payments?settler=did%3Aweb%3Asettler-3.example&in_flight=true'));
    await until(async () => (await rows(page).count()) > 0, 'in flight with that settler');
    const asked = server.requests.filter(({ path }) => path === '/api/payments').at(-1).search;
    assert.deepEqual([asked.get('settler'), asked.get('in_flight')], ['did:web:settler-3.example', 'true']);
    assert.equal(await page.getByRole('textbox', { name: 'Settler' }).inputValue(), 'did:web:settler-3.example');
  }));

test('where a page is empty it looks further back by itself, says how far, and stops when told', () =>
  opened(async ({ page, server }) => {
    // Nobody has paid so much.
    const held = server.hold('/api/payments', ({ search }) => search.get('cursor') === String(60_000 - 1 - 3 * 2_000));
    await page.goto(`${server.url}/#/payments?amount_from=99999999999999`);
    await page.getByText('Looked back through 6 000 payments, found 0 so far').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    held.release();
    await page.getByText(/^Stopped after [68] 000 payments/).waitFor();
    await page.getByRole('button', { name: 'Look further back' }).click();
    await page.getByText('There is no such payment').waitFor();
    await page.getByText('60 000 looked at').waitFor();
  }, { count: 60_000 }));

test('a search finds by id, hash and account', () =>
  opened(async ({ page, server }) => {
    const find = async (text) => {
      await page.getByLabel('Search by an id').fill(text);
      await page.keyboard.press('Enter');
    };
    await find(idOf(4_900).slice(0, 18));
    await page.getByText('1 payment found').waitFor();
    assert.equal(await rows(page).first().getAttribute('data-key'), idOf(4_900));
    await page.waitForURL(`${server.url}/#/payments?q=${idOf(4_900).slice(0, 18)}`);
    await find(hashOf(4_800, 'release'));
    await page.locator(`[data-key="${idOf(4_800)}"]`).waitFor();
    await find('abc');
    await page.getByText('at least 6 characters').waitFor();
    await find('qrq_abcdef');
    await page.getByText('0 payments found').waitFor();
    await page.getByText('collecting').waitFor();
    assert.deepEqual(await serious(page), []);
    await find(`eip155:1:${'0x'}`);
    await page.getByText('There are more; type more of it.').waitFor();
  }));

test('a payment is opened by keyboard, shows its course and its journal, and the way back is where one was', () =>
  opened(async ({ page, server }) => {
    await rows(page).first().waitFor();
    await page.locator('.list').evaluate((box) => void (box.scrollTop = 4_000));
    const id = idOf(4_999 - 96);
    const row = page.locator(`[data-key="${id}"]`);
    await row.waitFor();
    await row.focus();
    const place = await page.locator('.list').evaluate((box) => box.scrollTop);
    await page.keyboard.press('Enter');
    await page.waitForURL(`${server.url}/#/payments/${id}`);
    const lanes = page.getByRole('region', { name: 'Course' });
    await lanes.getByText('Escrow secured').waitFor();
    // One event in the lane of each, from left to right.
    const centre = async (text) => {
      const { x, width } = await lanes.locator('.mark', { hasText: text }).first().boundingBox();
      return Math.round(x + width / 2);
    };
    const order = [];
    for (const text of ['Submitted', 'Deposit prepared', 'Quote awarded', 'Escrow secured', 'Delivery final', 'Delivery attested']) order.push(await centre(text));
    assert.deepEqual(order, [...order].sort((a, b) => a - b));
    assert.equal(new Set(order).size, 6);
    // An event that this page does not know is the gateway's.
    assert.ok(Math.abs((await centre('SomethingOfTomorrow')) - order[1]) <= 1);
    await lanes.getByText('+16 s').waitFor();
    await picture(page, 'console-lanes');
    assert.deepEqual(await serious(page), []);
    // Transactions lead to the explorers of the table, and to none that the API names.
    const hrefs = await page.locator('#view a[target=_blank]').evaluateAll((all) => all.map(({ href }) => href));
    assert.deepEqual([...new Set(hrefs.map((href) => new URL(href).origin))].sort(), ['https://basescan.org', 'https://etherscan.io']);
    // What is stored is shown as it is, and does nothing.
    assert.equal(await page.locator('pre').count(), 0);
    await page.locator('.commit').first().getByText('Submitted').last().click();
    const raw = await page.locator('pre').first().innerText();
    assert.ok(raw.includes('<img src=x onerror=') && raw.includes('\\u{202e}') && !raw.includes('\u202e'), raw);
    assert.equal(await page.evaluate(() => document.body.dataset.broken), undefined);
    await page.goBack();
    await page.locator(`[data-key="${id}"]`).waitFor();
    assert.equal(await page.locator('.list').evaluate((box) => box.scrollTop), place);
    await page.goto(`${server.url}/#/payments/pay_${'a'.repeat(52)}`);
    await page.getByRole('alert').getByText('there is no such payment').waitFor();
  }));

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
  }));

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
  }));

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
    await page.getByText('Which payments are parked cannot be told').waitFor();
    await page.locator('.counts').getByText('–').waitFor();
    server.knowParking(true);
    await page.getByText('Which payments are parked cannot be told').waitFor({ state: 'detached' });
  }, { fragment: '#/parked', parkedMax: 10, replayMax: 25 }));

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
    let server = closed(await serve({ count: 100 }));
    const { url } = server;
    const { page, context, faults, foreign } = await openConsole(browser, url);
    closed(context);
    await signIn(page, url, TOKEN);
    await rows(page).first().waitFor();
    for (const answers of [[200, '<h1>Another program</h1>'], [404, 'not here'], [502, 'bad gateway']]) {
      const bar = page.locator('.troubles');
      await server.close();
      await bar.getByText('cannot be reached').waitFor();
      const other = closed(await intruder(url, answers));
      await wake(page);
      await until(() => other.asked.length > 3, 'it looks at who is there');
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
      server = closed(await serve({ count: 100, port: Number(new URL(url).port) }));
      await wake(page);
      await until(async () => (await bar.innerText()) === '', 'it goes on');
      assert.equal(await tokenOf(page), TOKEN);
      await until(() => server.requests.length > 0, 'the API is asked');
    }
    assert.ok(server.pages.length > 0 && server.pages.every(({ authorization }) => authorization === undefined));
    assert.equal(server.requests.filter(({ method }) => method === 'POST').length, 0);
    assert.deepEqual([faults.filter((fault) => !/Failed to load resource/.test(fault)), foreign], [[], []]);
  }));

test('a tab that was hidden looks at who is there before it shows its token', () =>
  closing(async (closed) => {
    const server = closed(await serve({ count: 100 }));
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
      await bar.getByText(text).waitFor();
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
      await until(async () => (await bar.innerText()) === '', `the bar goes after ${status}`);
    }
    // The gateway's own wait is kept to.
    const failure = server.fail('/api/alarms', 429, 'TOO_BUSY', 'later', { times: 1, headers: { 'retry-after': '3600' } });
    await until(() => failure.left === 0, 'the alarms are asked for');
    await shown('asked too much');
    const seconds = Number(/again in (\d+) s/.exec(await bar.innerText())[1]);
    assert.ok(seconds > 3_500, `${seconds} s`);
    // What is refused for good is told where it would be.
    server.fail('/api/streams', 403, 'FORBIDDEN', 'not for you', { times: 1 });
    await page.getByRole('link', { name: 'Streams' }).click();
    await page.getByRole('alert').getByText('not for you').waitFor();
  }));

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
  }));

for (const colorScheme of ['light', 'dark']) {
  test(`every view fits a narrow screen, ${colorScheme}, and axe finds nothing`, () =>
    opened(async ({ page, server }) => {
      server.alarms.push(`shard 3 lost commits ${HOSTILE}`);
      for (const view of [...VIEWS, `payments/${idOf(4_970)}`]) {
        await page.goto(`${server.url}/#/${view}`);
        await page.locator('#view h1').waitFor();
        await page.locator('.busy').waitFor({ state: 'detached' });
        const [wide, high] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.equal(wide, high, `${view} is wider than the screen`);
        assert.deepEqual(await serious(page), [], view);
        await picture(page, `console-320-${colorScheme}-${view.split('/').length > 1 ? 'payment' : view}`);
      }
    }, { options: { viewport: { width: 320, height: 640 }, colorScheme, reducedMotion: 'reduce' } }));
}

test('the console is looked through as a real one is', async () => {
  const server = await serve({ count: 5_000 });
  try {
    assert.equal(await lookThrough(server.url, TOKEN, { name: 'console-mock' }), idOf(4_999));
  } finally {
    await server.close();
  }
});

test('a graph says its values to whoever points at it or uses the keys', () =>
  opened(async ({ page }) => {
    const graph = page.getByRole('slider', { name: /Nodes behind/ });
    await graph.focus();
    await page.keyboard.press('Home');
    const text = await graph.getAttribute('aria-valuetext');
    assert.match(text, /^\d\d:\d\d:\d\d: Ethereum · https:\/\/node-0.example [\d.]+, Base · https:\/\/node-1.example [\d.]+$/);
    const figure = page.locator('.graph', { hasText: /Nodes behind/ });
    const { x, y, width, height } = await graph.boundingBox();
    await page.mouse.move(x + width / 2, y + height / 2);
    await figure.locator('.cursor').waitFor({ state: 'attached' });
    await until(async () => /\d\d:\d\d:\d\d/.test(await figure.locator('figcaption').innerText()), 'the time under the pointer');
    // Where nothing was recorded it says so.
    await page.mouse.move(x + (width * 207) / 359, y + height / 2);
    await until(async () => (await figure.locator('.values').innerText()).includes('–'), 'a gap');
  }, { fragment: '#/graphs' }));
