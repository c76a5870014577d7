// Payers on Tron whose wallet signs typed data, in Chromium, before a gateway that says what a test wants: a quote is paid for by one
// confirmation, where Permit2 has its allowance.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';

import { build } from 'esbuild';
import { concat, encodeFunctionData, hashTypedData, keccak256, recoverAddress, stringToHex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';

import { inHex, PERMIT2, SCHEME, termsHash, transferOf, TYPES, unsigned } from '../../sdk/typescript/test/permits.mjs';
import { optionsOf } from '../bundle.mjs';
import { launch, open, picture, serious } from './browser.mjs';
import { artifact, derived, recorded, toTron, TRON, twenty } from './honest_gateway.mjs';
import { tronWallet } from './tron.mjs';

const { TronWeb, utils } = createRequire(new URL('../../.tools/tronweb/node_modules/', import.meta.url))('tronweb');
const ELSEWHERE = 'tron:31339';
const KEY = '7'.repeat(64);
const PAYER = TronWeb.address.fromPrivateKey(KEY);
const OTHER = toTron(twenty('5'));
const RESERVER = privateKeyToAccount(`0x${'8'.repeat(64)}`);
const BATCH = `qrq_${'a'.repeat(52)}`;
const ID = derived('pay_', 'gw:payment:v1', `tron:${PAYER}`, `award-${BATCH}`);
const { request, served } = TRON;
const fulfilled = Date.parse(request.fulfillment_deadline) / 1000;
/** A moment in which the quotes are valid. */
const NOW = Date.parse(request.quote_deadline);
const at = (seconds) => new Date(NOW + seconds * 1000).toISOString();

/** What turns a quote document into its hash and its id: no part of what is tested. */
async function hashing() {
  const entryPoints = ['../sdk/typescript/src/quotes.ts'];
  const { outputFiles } = await build({ ...optionsOf('page'), entryPoints, format: 'esm', write: false, outdir: undefined, outfile: 'quotes.js' });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);
}
const { quoteHash, quoteId } = await hashing();

/** A batch with one quote, for a payer on this network, and what the gateway serves there. */
function worldOn(chain, permit2) {
  const on = (value) => JSON.parse(JSON.stringify(value).replaceAll(TRON.chain, chain));
  const { source: { asset_identifier }, destination, fulfillment_amount, max_source_amount, fulfillment_deadline } = on(request);
  const terms = { source: { asset_identifier, account: PAYER }, destination, fulfillment_amount, max_source_amount };
  const document = {
    ...recorded.award.batch.quotes[0].fulfillment_quote,
    auctionId: BATCH,
    termsHash: termsHash(terms),
    sourceChain: chain,
    payoutAccount: OTHER,
    escrowContract: served.escrow_contract_address,
    destination: destination[0],
    fulfillBy: fulfillment_deadline,
    validUntil: at(30),
  };
  const quote = { quote_id: quoteId(quoteHash(document)), fulfillment_quote: document };
  const times = { quote_deadline: at(0), fulfillment_deadline };
  const batch = { quote_request_id: BATCH, status: 'ready', ...terms, ...times, quotes: [quote], decline_summary: [] };
  const reserver = toTron(RESERVER.address);
  return { chain, quote, batch, served: { ...on(served), reserver, permit2, message_schemes: [SCHEME, 'TRON'] } };
}

const refundDelay = served.refund_delay_seconds;
const hashesOf = ({ batch, quote }) => ({
  paymentId: keccak256(stringToHex(ID)),
  termsHash: termsHash(batch),
  quoteHash: quoteHash(quote.fulfillment_quote),
});

/** Permit2's transfer of the cap into the escrow, as the gateway asks for it. `edit` changes it; the digest follows. */
function permit(world, edit) {
  const { batch } = world;
  const hashes = hashesOf(world);
  const order = { asset: batch.source.asset_identifier, amount: batch.max_source_amount, payer: PAYER, served: world.served };
  const nonce = keccak256(concat([hashes.paymentId, hashes.termsHash]));
  const data = transferOf({ ...order, hashes, nonce, fulfilled, refundDelay }, edit);
  const { message_scheme, signed_messages: [signed] } = unsigned(data, digest);
  // What is said beside the signature the page knows by itself.
  return { message_scheme, signed_messages: [{ ...signed, payload: {} }] };
}

/** Domain and message with their addresses as EIP-712 has them. */
const hexadecimal = ({ domain, message, ...data }) => ({ ...data, domain: inHex(domain, TRON.account), message: inHex(message, TRON.account) });
/** EIP-712's digest: an address counts by its twenty bytes. */
const digest = (data) => hashTypedData(hexadecimal(data));

/** The payer's own transaction that deposits the cap, where the escrow has its allowance. */
async function transaction(world) {
  const { chain, batch, served: { escrow_contract_address: escrow, reserver, releaser } } = world;
  const windows = { reserveDeadline: fulfilled, fulfillmentDeadline: fulfilled, refundAfter: fulfilled + refundDelay };
  const deposit = { ...hashesOf(world), payer: PAYER, reserver, releaser, ...windows };
  const { GatewayDeposit } = TYPES;
  const order = { token: TRON.token, amount: batch.max_source_amount };
  const Opening = [{ name: 'deposit', type: 'GatewayDeposit' }, { name: 'token', type: 'address' }, { name: 'amount', type: 'uint256' }];
  const domain = { name: 'GatewayEscrow', version: '1', chainId: Number(chain.split(':')[1]), verifyingContract: escrow };
  const opening = { types: { Opening, GatewayDeposit }, primaryType: 'Opening', domain, message: { deposit, ...order } };
  const signature = await RESERVER.signTypedData(hexadecimal(opening));
  const { abi } = artifact('GatewayEscrow');
  const { deposit: d, token, amount } = inHex(opening.message, TRON.account);
  const data = encodeFunctionData({ abi, functionName: 'depositOwn', args: [d, token, BigInt(amount), signature] }).slice(2);
  const [owner_address, contract_address] = [PAYER, escrow].map((account) => TronWeb.address.toHex(account));
  const value = { data, owner_address, contract_address };
  const parameter = { value, type_url: 'type.googleapis.com/protocol.TriggerSmartContract' };
  const block = { ref_block_bytes: '1234', ref_block_hash: '0'.repeat(16) };
  const times = { expiration: NOW + 60_000, timestamp: NOW };
  const raw_data = { contract: [{ parameter, type: 'TriggerSmartContract' }], ...block, ...times, fee_limit: 100_000_000 };
  const bytes = utils.transaction.txJsonToPb({ raw_data });
  const message = utils.transaction.txPbToTxID(bytes);
  const message_prehash = `0x${utils.transaction.txPbToRawDataHex(bytes).toLowerCase()}`;
  return { message_scheme: 'TRON', signed_messages: [{ message, message_prehash }] };
}

let browser;
let server;
/** What the gateway serves and asks to be signed, by its choice or by transactions, what it was asked to prepare, and what it was sent. */
const said = { world: undefined, prepared: undefined, transaction: undefined, asked: [], awards: [] };
before(async () => {
  browser = await launch();
  server = await gateway();
  process.env.GATEWAY_URL = `http://127.0.0.1:${server.address().port}`;
});
after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
});

/** The page, built from its sources, and as much of the API as it takes to award a quote. */
async function gateway() {
  const { outputFiles } = await build({ ...optionsOf('page'), write: false });
  const part = (ending) => outputFiles.find(({ path }) => path.endsWith(ending)).text;
  const html = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Payment gateway</title><style>${part('.css')}</style>
<script src="/page.js" defer></script></head><body data-page="quote-request" data-id="${BATCH}"><main id="main"></main></body></html>`;
  const [to] = request.destination;
  const there = { ...recorded.evm.defaults.source, assets: [{ asset_identifier: to.asset_identifier, symbol: 'DEV', decimals: 6 }] };
  const chains = () => ({ [said.world.chain]: said.world.served, [to.asset_identifier.split('/')[0]]: there });
  const answers = {
    'GET /page.js': () => part('.js'),
    [`GET /pay/${BATCH}`]: () => html,
    'GET /v1/defaults': ({ searchParams }) => (searchParams.has('chain_id') ? chains()[searchParams.get('chain_id')] : { chains: chains() }),
    [`GET /v1/payments/quote-requests/${BATCH}`]: () => said.world.batch,
    'POST /v1/payments/prepare': (_, body) => {
      said.asked.push(JSON.parse(body));
      const prepared = said.asked.at(-1).message_scheme === 'TRON' ? said.transaction : said.prepared;
      return { payment_id: ID, fulfillment_verifier: said.world.served.fulfillment_verifier, ...prepared };
    },
    [`POST /v1/payments/quote-requests/${BATCH}/award`]: (_, body) => {
      said.awards.push(JSON.parse(body));
      return { payment_id: ID, status: 'pending', idempotent_replay: false, updated_at: at(0) };
    },
  };
  const listening = createServer(async (asked, answer) => {
    let body = '';
    for await (const chunk of asked) body += chunk;
    const url = new URL(asked.url, 'http://gateway');
    const given = answers[`${asked.method} ${url.pathname}`]?.(url, body);
    const isText = typeof given === 'string';
    answer.setHeader('content-type', !isText ? 'application/json' : url.pathname.endsWith('.js') ? 'text/javascript' : 'text/html');
    answer.statusCode = given ? 200 : 404;
    answer.end(isText ? given : JSON.stringify(given ?? { code: 'PAYMENT_NOT_FOUND', message: 'there is none' }));
  });
  await new Promise((resolve) => listening.listen(0, '127.0.0.1', resolve));
  return listening;
}

/** The page of the batch, with a wallet that is connected. */
async function connected(state, { world = worldOn(TRON.chain, PERMIT2), prepared = world.served.permit2 && permit(world) } = {}) {
  Object.assign(said, { world, prepared, transaction: await transaction(world), asked: [], awards: [] });
  // The wallet has no node: whoever signs alone needs none.
  const wallet = tronWallet('http://127.0.0.1:1', KEY, { chainId: Number(world.chain.split(':')[1]), ...state });
  const opened = await open(browser, [wallet]);
  await opened.page.clock.setFixedTime(NOW);
  await opened.page.goto(`${process.env.GATEWAY_URL}/pay/${BATCH}`);
  await opened.page.getByRole('button', { name: 'Connect TronLink' }).click();
  await opened.page.getByRole('button', { name: /^Pay/ }).waitFor();
  return { ...opened, wallet };
}

const pay = (page) => page.getByRole('button', { name: /^Pay/ }).click();
const handedIn = (page) => page.waitForURL(`**/pay/${ID}`);
const TRANSACTIONS = 'Your wallet asks for one signature, or for two where the escrow has no allowance yet';
const questions = ({ asked }) => asked.filter((method) => !method.startsWith('eth_'));

/** Whether what was handed in is what the gateway asked for, signed by the payer. */
async function checkAward({ account, signed }) {
  const { quote, batch } = said.world;
  assert.equal(said.awards.length, 1);
  const [{ quote_id: taken, sender_auth: auth }] = said.awards;
  assert.deepEqual([taken, auth.message_scheme, auth.signed_messages.length], [quote.quote_id, SCHEME, 1]);
  const [{ message, message_prehash: text, signature, payload }] = auth.signed_messages;
  assert.deepEqual([message, digest(JSON.parse(text))], [said.prepared.signed_messages[0].message, message]);
  assert.equal((await recoverAddress({ hash: message, signature })).toLowerCase(), TRON.account(account));
  assert.deepEqual(payload, { reserve_deadline: fulfilled, refund_after: fulfilled + served.refund_delay_seconds, permit_deadline: fulfilled });
  assert.deepEqual(signed.at(-1).message.permitted, { token: TRON.token, amount: batch.max_source_amount });
}

test('a wallet on Tron pays by one confirmation where Permit2 has its allowance', async () => {
  const { page, wallet, faults, foreign, context } = await connected({ typed: ['signTypedData', '_signTypedData'] });
  await page.getByText('at most 25.5 DEV').waitFor();
  assert.equal(await page.getByText(TRANSACTIONS).count(), 0);
  assert.deepEqual(await serious(page), []);
  await picture(page, 'tron-permit2');
  await pay(page);
  await handedIn(page);
  assert.deepEqual(questions(wallet), ['signTypedData']);
  // Which scheme it is, is the gateway's choice.
  assert.deepEqual(said.asked.map(({ message_scheme: scheme }) => scheme), [undefined, undefined]);
  await checkAward(wallet);
  assert.deepEqual([faults, foreign], [[], []]);
  await context.close();
});

test('an older wallet on Tron signs typed data by the older function, and may decline once', async () => {
  const rejects = new Set(['_signTypedData']);
  const { page, wallet, context } = await connected({ typed: ['_signTypedData'], rejects });
  await pay(page);
  await page.getByText('You did not confirm in your wallet. Nothing was handed in').waitFor();
  assert.deepEqual(said.awards, []);
  rejects.clear();
  await page.getByRole('button', { name: 'Try again' }).click();
  await handedIn(page);
  assert.deepEqual(questions(wallet), ['_signTypedData', '_signTypedData']);
  await checkAward(wallet);
  await context.close();
});

test('on a network of which nobody else says where Permit2 is, it is where the gateway of the page says', async () => {
  const world = worldOn(ELSEWHERE, OTHER);
  const { page, wallet, context } = await connected({ typed: ['signTypedData'] }, { world });
  await pay(page);
  await handedIn(page);
  assert.equal(wallet.signed[0].domain.verifyingContract, OTHER);
  await checkAward(wallet);
  await context.close();
});

test('a wallet on Tron that signs no typed data is asked for transactions, and so is one where the Permit2 is not known', async () => {
  const able = { typed: ['signTypedData', '_signTypedData'] };
  const [own, foreign, none] = [PERMIT2, OTHER, undefined].map((permit2) => worldOn(TRON.chain, permit2));
  const asSaid = [['TRON', 'TRON'], ['sign']];
  for (const [state, world, [schemes, wanted]] of [
    [{}, own, asSaid],
    [able, foreign, asSaid],
    [able, none, asSaid],
    // A hardware key, of which nobody knows before it is asked.
    [{ ...able, fails: 'Ledger: invalid data' }, own, [[undefined, undefined, 'TRON'], ['signTypedData', '_signTypedData', 'sign']]],
  ]) {
    const { page, wallet, faults, foreign: hosts, context } = await connected(state, { world });
    assert.equal(await page.getByText(TRANSACTIONS).count(), schemes[0] ? 1 : 0);
    await pay(page);
    await handedIn(page);
    assert.deepEqual(said.asked.map(({ message_scheme: scheme }) => scheme), schemes);
    assert.deepEqual(questions(wallet), wanted);
    const [{ sender_auth: auth }, ...others] = said.awards;
    const [{ message, signature, ...rest }] = auth.signed_messages;
    assert.deepEqual([auth.message_scheme, others], ['TRON', []]);
    assert.deepEqual({ message, ...rest }, said.transaction.signed_messages[0]);
    assert.equal((await recoverAddress({ hash: message, signature })).toLowerCase(), TRON.account(wallet.account));
    assert.deepEqual([faults, hosts], [[], []]);
    await context.close();
  }
});

test('what a gateway would have signed for somebody else is not shown to the wallet', async () => {
  const world = worldOn(TRON.chain, PERMIT2);
  const { page, wallet, context } = await connected({ typed: ['signTypedData'] }, { world });
  for (const edit of [
    ({ message }) => (message.spender = OTHER),
    ({ message }) => (message.witness.releaser = OTHER),
    ({ message }) => (message.permitted.amount = '25500001'),
    ({ domain }) => (domain.verifyingContract = OTHER),
    ({ message: { witness } }) => (witness.refundAfter = witness.fulfillmentDeadline),
  ]) {
    Object.assign(said, { prepared: permit(world, edit), asked: [] });
    // Asked for anew, what was told before is gone.
    await pay(page);
    await page.getByText('The gateway asked for a signature over something else than this page shows').waitFor();
    assert.equal(said.asked.length, 1);
    assert.deepEqual([questions(wallet), said.awards], [[], []]);
  }
  await context.close();
});
