// From the link to the receipt with wallets on Solana and on Tron.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';

import { launch, linkOf, need, open, picture, serious } from './browser.mjs';
import { setAllowance, solanaWallet } from './solana.mjs';
import { setTronAllowance, sunOf, tronWallet } from './tron.mjs';

const gateway = need('GATEWAY_URL');
const solana = { rpc: need('SOLANA_RPC_URL'), key: need('SOLANA_KEY'), order: JSON.parse(need('SOLANA_ORDER')), escrow: need('SOLANA_ESCROW') };
const tron = { node: need('TRON_API_URL'), key: need('TRON_KEY').trim(), order: JSON.parse(need('TRON_ORDER')) };
const mint = solana.order.source.asset_identifier.split('/token:')[1];

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const linkFor = ({ source, destination, fulfillment_amount, max_source_amount }) =>
  linkOf({ request_id: `link-${randomUUID()}`, destination, fulfillment_amount, pay_with: [{ asset_identifier: source.asset_identifier, max_source_amount }] });

const signatures = ({ asked }) => asked.filter((method) => !method.startsWith('eth_'));
const completed = (page) => page.getByRole('heading', { name: 'Payment completed' }).waitFor();

test('a wallet on Solana that gave its allowance before pays by one signature', async () => {
  await setAllowance(solana.rpc, solana.key, mint, solana.escrow, BigInt(solana.order.max_source_amount));
  const rejects = new Set(['signMessage']);
  const wallet = solanaWallet(solana.rpc, solana.key, { rejects });
  const { page, faults, foreign } = await open(browser, [wallet]);
  await page.goto(gateway + linkFor(solana.order));
  await page.getByRole('button', { name: 'Connect Test Sun' }).click();
  await page.getByRole('button', { name: /^Pay/ }).click();
  await page.getByText('You did not confirm in your wallet').waitFor();
  rejects.clear();
  await page.getByRole('button', { name: 'Try again' }).click();
  await completed(page);
  await picture(page, 'solana-receipt');
  assert.deepEqual(await serious(page), []);
  assert.deepEqual(wallet.asked, ['connect', 'signMessage', 'signMessage']);
  assert.deepEqual([faults, foreign], [[], []]);
});

test('a wallet on Solana gives its allowance, and pays', async () => {
  await setAllowance(solana.rpc, solana.key, mint, solana.escrow, undefined);
  const wallet = solanaWallet(solana.rpc, solana.key);
  const { page, faults, foreign } = await open(browser, [wallet]);
  await page.goto(gateway + linkFor(solana.order));
  await page.getByRole('button', { name: 'Connect Test Sun' }).click();
  await page.getByRole('button', { name: /^Allow/ }).click();
  await page.getByRole('button', { name: /^Pay/ }).click();
  await completed(page);
  assert.deepEqual(wallet.asked, ['connect', 'signAndSendTransaction', 'signMessage']);
  assert.deepEqual([faults, foreign], [[], []]);
});

test('a wallet on Tron pays by transactions that the gateway sends', async () => {
  const rejects = new Set(['sign']);
  const state = { chainId: 728_126_428, rejects };
  const wallet = tronWallet(tron.node, tron.key, state);
  const { page, faults, foreign } = await open(browser, [wallet]);
  await page.goto(gateway + linkFor(tron.order));
  await page.getByRole('button', { name: 'Connect TronLink' }).click();
  await page.getByRole('button', { name: /^Pay/ }).click();
  await page.getByText('You did not confirm in your wallet').waitFor();
  await picture(page, 'tron-declined');
  rejects.clear();
  await page.getByRole('button', { name: 'Try again' }).click();
  await completed(page);
  await picture(page, 'tron-receipt');
  assert.deepEqual(await serious(page), []);
  assert.equal(state.chainId, 31_339, 'the wallet was asked to change to the network');
  assert.deepEqual([faults, foreign], [[], []]);
});

test('a wallet on Tron that let Permit2 draw before pays by one signature, without a transaction and TRX, where it can', async () => {
  const [chain, token] = tron.order.source.asset_identifier.split('/trc20:');
  const { permit2 } = await (await fetch(`${gateway}/v1/defaults?chain_id=${chain}`)).json();
  await setTronAllowance(tron.node, tron.key, token, permit2, tron.order.max_source_amount);
  // With a hardware key it cannot, which nobody knows before it is asked; transactions are the way on.
  const hardware = tronWallet(tron.node, tron.key, { chainId: 31_339, typed: ['signTypedData'], fails: 'Ledger: invalid data' });
  const without = await open(browser, [hardware]);
  await without.page.goto(gateway + linkFor(tron.order));
  await without.page.getByRole('button', { name: 'Connect TronLink' }).click();
  await without.page.getByRole('button', { name: /^Pay/ }).click();
  await completed(without.page);
  assert.deepEqual(signatures(hardware), ['signTypedData', 'sign', 'sign']);
  assert.deepEqual([without.faults, without.foreign], [[], []]);

  const rejects = new Set(['signTypedData']);
  const wallet = tronWallet(tron.node, tron.key, { chainId: 31_339, rejects, typed: ['signTypedData'] });
  const before = await sunOf(tron.node, wallet.account);
  const { page, faults, foreign } = await open(browser, [wallet]);
  await page.goto(gateway + linkFor(tron.order));
  await page.getByRole('button', { name: 'Connect TronLink' }).click();
  await page.getByRole('button', { name: /^Pay/ }).click();
  await page.getByText('You did not confirm in your wallet').waitFor();
  rejects.clear();
  await page.getByRole('button', { name: 'Try again' }).click();
  await completed(page);
  await picture(page, 'tron-permit2-receipt');
  assert.deepEqual(await serious(page), []);
  assert.deepEqual(signatures(wallet), ['signTypedData', 'signTypedData']);
  assert.equal(wallet.signed[0].domain.verifyingContract, permit2);
  assert.equal(await sunOf(tron.node, wallet.account), before);
  assert.deepEqual([faults, foreign], [[], []]);
});

test('a link that three families may pay asks which wallet, and remembers none', async () => {
  const wallets = [solanaWallet(solana.rpc, solana.key), tronWallet(tron.node, tron.key, { chainId: 31_339 })];
  const { page } = await open(browser, wallets);
  const { destination, fulfillment_amount } = solana.order;
  await page.goto(gateway + linkOf({ request_id: `link-${randomUUID()}`, destination, fulfillment_amount }));
  await page.getByRole('button', { name: 'Connect TronLink' }).waitFor();
  await page.getByRole('button', { name: 'Connect Test Sun' }).click();
  await page.getByRole('heading', { name: 'Choose what to pay with' }).waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'three-families');
});
