// Tests of batches: a list that is signed for once.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { hashTypedData, recoverTypedDataAddress } from 'viem';

import { acceptedBatch, payerWallet, refusal, to } from './entrances-server.mjs';
import { open, picture, serious } from './browser.mjs';
import { idOf, membersOf, preparedBatch } from './honest_batch.mjs';
import { twenty } from './honest_gateway.mjs';

export const [A, B] = [twenty('1'), twenty('2')];
export const LIST = `recipient,amount,reference\n${A},25,wages-7-a\n${B},10.5,wages-7-b\n${to.account},1,`;

/** What a payer does on the page of lists. */
export function payerOf(shared) {
  const read = async (page, text) => {
    await page.goto(`${process.env.GATEWAY_URL}/pay#batch`);
    await page.getByLabel('Or paste the list').fill(text);
    await page.getByRole('button', { name: 'Read the list' }).click();
  };
  return {
    read,
    /** The page of a list, with a wallet. */
    async entered(text) {
      const wallet = payerWallet(() => shared.world);
      const opened = await open(shared.browser, [wallet]);
      await opened.page.clock.install();
      await read(opened.page, text);
      return { ...opened, wallet };
    },
    connect: (page) => page.getByRole('button', { name: 'Connect Test Wallet' }).click(),
    states: (page) => page.locator('tbody tr td:last-child').allInnerTexts(),
    /** All that the browser keeps for the page. */
    kept: (page) => page.evaluate(() => JSON.stringify({ ...localStorage })),
    /** Lets the page's next round begin. */
    goOn: (page) => page.clock.fastForward(20_000),
  };
}

export function batches(shared) {
  const worldNow = () => shared.world;
  const { read, entered, connect, states, kept, goOn } = payerOf(shared);

  test('a list is mended, allowed, signed for once and followed to its end, through lost answers, refusals for now and a reload', async () => {
    const world = worldNow();
    world.allowance = 0n;
    const seen = {};
    world.submit = async (body, count) => {
      if (count > 1) return acceptedBatch(body, (at) => (at === 1 && !seen.enough ? refusal('RATE_LIMITED') : {}));
      seen.kept = await kept(page);
      return 'lost';
    };
    const { page, wallet, faults, foreign, context } = await entered(`${LIST}\n${A},1;5\n0x12,1`);
    await page.getByText('Line 5: 1;5 is not an amount of DEV').waitFor();
    await page.getByText('Line 6: 0x12 is not an account on').waitFor();
    assert.deepEqual(await serious(page), []);
    // A file takes the place of what was pasted.
    await page.getByLabel('Load a file').setInputFiles({ name: 'wages.csv', mimeType: 'text/csv', buffer: Buffer.from(LIST) });
    await page.getByRole('button', { name: 'Read the list' }).click();
    await page.getByRole('heading', { name: 'Check the list' }).waitFor();
    await page.getByText('36.5 DEV').waitFor();
    await page.getByText('at most 37.23 DEV').waitFor();
    await connect(page);
    await page.getByRole('button', { name: 'Allow 37.23 DEV' }).click();
    await page.getByRole('button', { name: 'Sign for 3 payments, at most 37.23 DEV' }).waitFor();
    assert.equal(world.allowance, 37_230_000n);
    await picture(page, 'batch-sign');
    assert.equal(wallet.signed.length, 0);
    await page.getByRole('button', { name: /^Sign for 3/ }).click();
    await page.getByText('to be handed in').first().waitFor();
    await goOn(page);
    await page.getByText('refused for now').waitFor();

    // What was signed was kept before it was handed in. It is what this list makes, and nothing else went in with it.
    const [first] = world.bodies;
    const [{ message, signature }] = first.sender_auth.signed_messages;
    assert.equal(wallet.signed.length, 1);
    assert.ok(seen.kept.includes(signature));
    const [data] = wallet.signed;
    const { EIP712Domain: _, ...types } = data.types;
    const honest = preparedBatch(first).signed_messages[0];
    assert.deepEqual([hashTypedData(data), message], [honest.message, honest.message]);
    assert.equal(await recoverTypedDataAddress({ ...data, types, signature }), wallet.account);
    const members = membersOf(first);
    assert.deepEqual(members.map(({ destination: [{ account }], fulfillment_amount, max_source_amount }) => [account, fulfillment_amount, max_source_amount]), [
      [A, '25000000', '25500000'],
      [B, '10500000', '10710000'],
      [to.account, '1000000', '1020000'],
    ]);
    assert.deepEqual(members.slice(0, 2).map(({ request_id: id }) => id), ['wages-7-a', 'wages-7-b']);

    // Loaded again the page goes on with the same signature, and reads of the others what became of them.
    const [one, two, three] = members.map(idOf);
    world.statuses.set(one, { payment_id: one, status: 'completed', updated_at: '' });
    world.statuses.set(three, { payment_id: three, status: 'finalizing', updated_at: '' });
    assert.match(page.url(), /#batch=0x[0-9a-f]{64}$/);
    await page.reload();
    await page.getByText('1 completed, 1 under way, 0 failed, 1 to be handed in').waitFor();
    const sent = world.bodies.length;
    seen.enough = true;
    await goOn(page);
    await page.getByText('1 completed, 2 under way, 0 failed, 0 to be handed in').waitFor();
    assert.ok(world.bodies.length > sent);
    for (const body of world.bodies) assert.deepEqual({ ...body, quote_deadline: '' }, { ...first, quote_deadline: '' });
    assert.equal(wallet.signed.length, 1);
    // Once the gateway has all of it, the signature is kept no longer.
    assert.ok(!(await kept(page)).includes(signature));
    world.statuses.set(two, { payment_id: two, status: 'failed', updated_at: '', error: { code: 'NO_QUOTES_RECEIVED', message: 'nobody' } });
    world.statuses.set(three, { payment_id: three, status: 'completed', updated_at: '' });
    await goOn(page);
    await page.getByRole('heading', { name: 'The list is done' }).waitFor();
    assert.deepEqual(await states(page), ['completed', 'failed NO_QUOTES_RECEIVED', 'completed']);
    assert.deepEqual(await serious(page), []);
    await picture(page, 'batch-done');

    // The same list once more is told, and found, and only what has no reference could be paid again.
    for (const [at, id] of [one, two].entries()) world.resolved.set(members[at].request_id, { payment_id: id, status: 'completed', updated_at: '' });
    await page.goto(`${process.env.GATEWAY_URL}/pay#batch`);
    await page.getByRole('link', { name: 'A list of 3' }).waitFor();
    await read(page, LIST);
    await page.getByText('The same list was signed before').waitFor();
    await connect(page);
    await page.getByText('Left out: 2.').waitFor();
    await page.getByRole('button', { name: 'Sign for 1 payment, at most 1.02 DEV' }).waitFor();
    assert.deepEqual(await states(page), ['paid for before', 'paid for before', '']);
    assert.deepEqual([faults, foreign], [[], []]);
    await context.close();
  });

  test('a gateway that puts another payment under the root, or draws more, gets no signature', async () => {
    const world = worldNow();
    world.submit = () => assert.fail('nothing may be handed in');
    const { page, wallet, faults, context } = await entered(LIST);
    const thief = twenty('6');
    // An honest answer at first, so that the page is ready to sign.
    await connect(page);
    const sign = page.getByRole('button', { name: /^Sign for 3/ });
    await sign.waitFor();
    const lies = [
      { change: ([first, ...others]) => [{ ...first, destination: [{ ...first.destination[0], account: thief }] }, ...others] },
      { change: (all) => [...all, { ...all[0], request_id: 'one-more' }] },
    ];
    for (const lie of lies) {
      world.lie = lie;
      await sign.click();
      await page.getByText('The gateway asked for a signature over other payments than those of this list. Nothing was signed.').waitFor();
      world.lie = {};
      // What went wrong is gone when the next thing is begun.
      await page.getByRole('button', { name: 'Use another wallet' }).click();
      await connect(page);
      await page.getByRole('alert').filter({ hasText: 'Nothing was signed' }).waitFor({ state: 'detached' });
      await sign.waitFor();
    }
    assert.deepEqual([wallet.signed, wallet.sent, world.bodies], [[], [], []]);
    // The control: the honest message is signed.
    world.submit = (body) => acceptedBatch(body, () => ({ status: 'completed' }));
    await sign.click();
    await page.getByRole('heading', { name: 'The list is done' }).waitFor();
    assert.deepEqual([wallet.signed.length, world.bodies.length, faults], [1, 1, []]);
    await context.close();
  });

  test('what lacks money waits for the payer, and what is refused for good is told with its reason', async () => {
    const world = worldNow();
    world.submit = (body, count) =>
      acceptedBatch(body, (at) => {
        if (at === 2) return refusal('INVALID_DESTINATION_ACCOUNT');
        if (count === 1) return at === 1 ? refusal('INSUFFICIENT_FUNDS') : {};
        return { status: 'completed' };
      });
    const { page, wallet, context } = await entered(LIST);
    await connect(page);
    const sign = (tab) => tab.getByRole('button', { name: /^Sign for 3/ });
    await sign(page).waitFor();
    // Another tab has the same list before it.
    const other = await context.newPage();
    await read(other, LIST);
    await connect(other);
    await sign(other).waitFor();
    await sign(page).click();
    await page.getByText('Lacking money: 1.').waitFor();
    await sign(other).click();
    await other.getByText('Who signs once more pays once more.').waitFor();
    assert.equal(wallet.signed.length, 1);
    await other.close();
    assert.deepEqual(await states(page), ['accepted', 'too little money INSUFFICIENT_FUNDS', 'refused; what it would have cost stays with you, or comes back after the deadline. INVALID_DESTINATION_ACCOUNT of a test INVALID_DESTINATION_ACCOUNT']);
    // What lacks money is not sent again by itself, though rounds go on for the others.
    const [first] = membersOf(world.bodies[0]).map(idOf);
    world.statuses.set(first, { payment_id: first, status: 'finalizing', updated_at: '' });
    await goOn(page);
    await page.getByRole('link', { name: 'delivered, gathering confirmations' }).waitFor();
    assert.equal(world.bodies.length, 1);
    await page.getByRole('button', { name: 'Hand them in again now' }).click();
    await page.getByRole('heading', { name: 'The list is done' }).waitFor();
    await page.getByText('2 completed, 0 under way, 1 failed, 0 to be handed in').waitFor();
    assert.deepEqual([world.bodies.length, wallet.signed.length], [2, 1]);
    await context.close();
  });
}
