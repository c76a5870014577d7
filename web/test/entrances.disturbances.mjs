// Tests of batches whose course is disturbed: by other tabs and accounts, by what is in front of the gateway, and by references that are used up.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { A, B, LIST, payerOf } from './entrances.batches.mjs';
import { acceptedBatch, to } from './entrances-server.mjs';
import { serious } from './browser.mjs';
import { idOf, membersOf } from './honest_batch.mjs';
import { twenty } from './honest_gateway.mjs';

/** What a proxy says while no gateway is behind it. */
const NOT_THE_GATEWAY = { status: 404, body: { error: 'no such host' } };

export function disturbances(shared) {
  const { read, entered, connect, states, kept, goOn } = payerOf(shared);
  const sign = (page) => page.getByRole('button', { name: /^Sign for/ });

  test('a 404 that is not the gateway’s refuses nothing: what was signed stays, and goes in later', async () => {
    const { world } = shared;
    world.submit = (body, count) => {
      for (const request of membersOf(body)) world.statuses.set(idOf(request), count > 2 ? undefined : NOT_THE_GATEWAY);
      return count === 1 ? 'lost' : count === 2 ? NOT_THE_GATEWAY : acceptedBatch(body, () => ({ status: 'completed' }));
    };
    const { page, wallet, faults, context } = await entered(LIST);
    await connect(page);
    await sign(page).click();
    await page.getByText('to be handed in').first().waitFor();
    await goOn(page);
    await page.getByText('not by the gateway').waitFor();
    assert.deepEqual(await states(page), Array(3).fill('to be handed in'));
    assert.ok((await kept(page)).includes('signed_messages'));
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { name: 'The list is done' }).waitFor();
    assert.deepEqual([world.bodies.length, wallet.signed.length, faults], [3, 1, []]);
    await context.close();
  });

  test('two tabs sign for one list once, and what is left of a list is known again', async () => {
    const { world } = shared;
    world.submit = (body) => acceptedBatch(body, () => ({ status: 'completed' }));
    world.resolved.set('wages-7-a', { payment_id: 'pay_1', status: 'completed', updated_at: '' });
    const { page, wallet, context } = await entered(LIST);
    const { handle } = wallet;
    let answer;
    const asked = new Promise((resolve) => {
      wallet.handle = async (method, params) => {
        if (method === 'eth_signTypedData_v4') await new Promise((goes) => resolve((answer = goes)));
        return handle(method, params);
      };
    });
    const other = await context.newPage();
    for (const tab of [page, other]) {
      if (tab === other) await read(tab, LIST);
      await connect(tab);
      await sign(tab).waitFor();
    }
    await sign(page).click();
    await asked;
    // What the wallet is to show stands beside it, in its own numbers.
    const shown = await page.locator('section', { has: page.getByRole('heading', { name: 'What your wallet shows' }) }).innerText();
    for (const said of ['11.73 DEV', '11730000', 'Escrow']) assert.ok(shown.includes(said), shown);
    await sign(other).click();
    await other.getByText('This is being paid in another tab').waitFor();
    answer();
    await page.getByRole('heading', { name: 'The list is done' }).waitFor();
    await other.getByRole('button', { name: 'Try again' }).click();
    await other.getByText('Who signs once more pays once more.').waitFor();
    // One that was paid by itself was left out: what was signed is the rest, and the whole list is told to be the same all the same.
    await other.reload();
    await read(other, LIST);
    await connect(other);
    await other.getByText('The same list was signed before').waitFor();
    assert.deepEqual([wallet.signed.length, world.bodies.length], [1, 1]);
    await context.close();
  });

  test('a reference that is used up by what failed, or by something else, is not told to be paid', async () => {
    const { world } = shared;
    const owned = (account) => ({ ...to, account });
    const order = (account, amount) => ({ entries: [{ id: '1', event: 'Submitted', at: '', status: 'pending', summary: '', data: { destination: [owned(account)], fulfillment_amount: amount } }] });
    const known = { a: ['failed', order(A, '25000000')], b: ['completed', order(twenty('8'), '10500000')], c: ['completed', order(A, '7000000')] };
    for (const [name, [status, timeline]] of Object.entries(known)) {
      world.resolved.set(`wages-7-${name}`, { payment_id: `pay_${name}`, status, updated_at: '' });
      world.timelines.set(`pay_${name}`, timeline);
    }
    const asset = to.asset_identifier;
    const [chain] = asset.split('/');
    const line = (account, amount, name) => `${account},${amount},wages-7-${name},${chain},${asset}`;
    const { page, faults, context } = await entered([line(A, 25, 'a'), line(B, 10.5, 'b'), line(A, 7, 'c'), line(B, 1, 'd')].join('\n'));
    await connect(page);
    await page.getByText('Left out: 3.').waitFor();
    const [one, two, three, four] = await states(page);
    assert.match(one, /^failed before/);
    assert.match(two, /^something else was paid/);
    assert.deepEqual([three, four], ['paid for before', '']);
    assert.deepEqual([await serious(page), faults], [[], []]);
    await context.close();
  });

  test('what was looked up for one account lets no other one sign', async () => {
    const { world } = shared;
    let answer;
    world.resolved.set('wages-7-a', new Promise((resolve) => (answer = resolve)));
    const { page, wallet, context } = await entered(LIST);
    const { handle } = wallet;
    await connect(page);
    await page.getByText('Looking for what was paid before').waitFor();
    // The wallet changes its account while the gateway is asked, and then its chain.
    await page.evaluate((account) => window.__emit_evm('accountsChanged', [account]), B);
    answer(undefined);
    wallet.handle = async (method, params) => {
      if (method === 'eth_chainId') return '0x1';
      if (method === 'eth_requestAccounts') return [B];
      return method.startsWith('wallet_') ? Promise.reject(Object.assign(new Error('unknown'), { code: 4902 })) : handle(method, params);
    };
    await connect(page);
    await page.getByRole('alert').waitFor();
    assert.equal(await sign(page).count(), 0);
    await context.close();
  });

  test('a browser without room for what is signed is told so before anything is signed', async () => {
    const { page, context } = await entered(LIST);
    const said = page.getByText('This browser keeps nothing for this page');
    await page.getByRole('heading', { name: 'Check the list' }).waitFor();
    assert.equal(await said.count(), 0);
    await page.evaluate(() => {
      for (let size = 2 ** 22; size >= 1; size /= 2) {
        for (let at = 0; ; at += 1) {
          try {
            localStorage.setItem(`fill-${size}-${at}`, 'x'.repeat(size));
          } catch {
            break;
          }
        }
      }
      // Room for a little, and not for a list.
      localStorage.removeItem('fill-1024-0');
    });
    await page.getByRole('button', { name: 'Change the list' }).click();
    await page.getByRole('button', { name: 'Read the list' }).click();
    await said.waitFor();
    await context.close();
  });
}
