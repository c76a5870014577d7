// The operators' console against a server that speaks its API, with a hundred thousand payments.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { picture, serious } from './browser.mjs';
import { HOSTILE, READER, TOKEN, hashOf, idOf, serve } from './console-server.mjs';
import { lookThrough, openConsole, rows } from './console.mjs';
import { browser, FEW, opened, seen, until } from './console.opened.mjs';
import './console.lost.mjs';
import './console.orders.mjs';

const COUNT = 100_000;
const HEAP_BYTES_MAX = 200_000_000;
const VIEWS = ['payments', 'parked', 'settlers', 'verifiers', 'chains', 'gateways', 'streams', 'graphs', 'acts'];

const loaded = (page) => page.locator('.list [role=grid]').getAttribute('aria-rowcount').then((text) => Number(text) - 1);

test('an operator signs in, is told what may be done, and leaves no token behind', async () => {
  const server = await serve(FEW);
  const { page, context, faults, foreign } = await openConsole(browser, server.url);
  await page.clock.install();
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
  await seen(page, page.getByRole('alert').getByText('You have been signed out'));
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
    // To the end, each time that what was asked for is there. What flies by is made, and not drawn: that is measured below.
    await page.evaluate((count) => new Promise((resolve) => {
      const box = document.querySelector('.list');
      const [grid, lines, foot] = ['[role=grid]', '.rows', '.foot'].map((name) => box.querySelector(name));
      lines.style.contentVisibility = 'hidden';
      const step = () => {
        const isAll = Number(grid.getAttribute('aria-rowcount')) > count;
        if (!isAll && !foot.querySelector('.busy')) box.scrollTop = box.scrollHeight;
        if (!isAll) return;
        changes.disconnect();
        lines.style.contentVisibility = '';
        resolve();
      };
      const changes = new MutationObserver(step);
      changes.observe(grid, { attributeFilter: ['aria-rowcount'] });
      changes.observe(foot, { childList: true, subtree: true });
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
      let [last, left] = [performance.now(), 120];
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
    await seen(page, page.locator(`[data-key="${idOf(5_001)}"]`));
    assert.equal(await first(), idOf(5_001));
    // Somebody reads further down.
    await page.locator('.list').evaluate((box) => void (box.scrollTop = 3_000));
    const read = page.locator(`[data-key="${idOf(5_001 - 70)}"]`);
    await read.waitFor();
    const place = await read.boundingBox();
    // More than one page of the newest: what lies between is followed.
    server.add(130);
    await seen(page, page.getByRole('button', { name: '130 new' }));
    assert.deepEqual(await read.boundingBox(), place);
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
    await seen(page, released.getByText('ended'));
    // So many that nobody follows them: the list is loaded anew.
    await page.locator('.list').evaluate((box) => void (box.scrollTop = 3_000));
    server.add(3_000);
    const more = page.getByRole('button', { name: /^More than 1 060 new/ });
    await seen(page, more);
    await more.click();
    await page.locator(`[data-key="${idOf(8_131)}"]`).waitFor();
  }, { hasClock: true }));

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
    const held = server.hold('/api/payments', ({ search }) => search.get('cursor') === String(12_000 - 1 - 3 * 2_000));
    await page.goto(`${server.url}/#/payments?amount_from=99999999999999`);
    await page.getByText('Looked back through 6 000 payments, found 0 so far').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    held.release();
    await page.getByText(/^Stopped after [68] 000 payments/).waitFor();
    await page.getByRole('button', { name: 'Look further back' }).click();
    await page.getByText('There is no such payment').waitFor();
    await page.getByText('12 000 looked at').waitFor();
  }, { count: 12_000 }));

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
    assert.equal(await lookThrough(browser, server.url, TOKEN, { name: 'console-mock' }), idOf(4_999));
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
