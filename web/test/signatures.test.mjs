// Payers whose token takes signatures, in Chromium, before a gateway that says what a test wants: a quote of a recorded batch is paid
// for without a transaction.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import { build } from 'esbuild';
import { encodeAbiParameters, hashTypedData, keccak256, maxUint256, recoverTypedDataAddress, stringToHex } from 'viem';

import { optionsOf } from '../bundle.mjs';
import { launch, open, picture, serious } from './browser.mjs';
import { evmWallet } from './evm.mjs';

const { award } = JSON.parse(readFileSync(new URL('../../sdk/typescript/test/fixtures/prepared.json', import.meta.url), 'utf8'));
const { batch, defaults } = award;
const [message] = award.prepared.signed_messages;
const transfer = JSON.parse(message.message_prehash);
const { source } = defaults;
const [chain, token] = batch.source.asset_identifier.split('/erc20:');
const chainId = Number(chain.split(':')[1]);
const [{ quote_id: quoteId, fulfillment_quote: quote }] = batch.quotes;
/** The payer of gw-dev's examples, for whom the batch was recorded. Everyone knows its key. */
const KEY = keccak256(stringToHex('gw dev example payer'));
/** A moment in which the quotes are valid. */
const NOW = Date.parse(batch.quote_deadline);

/** The id of the payment that the page makes of the batch, by the rule of docs/clients.md. */
function paymentId(account, requestId) {
  const parts = ['gw:payment:v1', `eip155:${account}`, requestId].map((text) => Buffer.from(text));
  const length = (bytes) => Buffer.from(bytes.length.toString(16).padStart(16, '0'), 'hex');
  const bits = [...createHash('sha256').update(Buffer.concat(parts.flatMap((part) => [length(part), part]))).digest()];
  const text = bits.map((byte) => byte.toString(2).padStart(8, '0')).join('').padEnd(260, '0');
  return `pay_${text.match(/.{5}/g).map((five) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(five, 2)]).join('')}`;
}

const ID = paymentId(batch.source.account, `award-${batch.quote_request_id}`);
const deposit = { ...transfer.message.witness, paymentId: keccak256(stringToHex(ID)) };
const typed = (fields) => fields.split(',').map((field) => ({ type: field.split(' ')[0], name: field.split(' ')[1] }));
const DEPOSIT = transfer.types.GatewayDeposit;
const TOKEN_DOMAIN = typed('string name,string version,uint256 chainId,address verifyingContract');
const domain = { name: 'Dollar', version: '2', chainId, verifyingContract: token };

function depositHash() {
  const type = `GatewayDeposit(${DEPOSIT.map(({ name, type: kind }) => `${kind} ${name}`).join(',')})`;
  const words = [{ type: 'bytes32' }, ...DEPOSIT.map(({ type: kind }) => ({ type: kind }))];
  return keccak256(encodeAbiParameters(words, [keccak256(stringToHex(type)), ...DEPOSIT.map(({ name }) => deposit[name])]));
}

const unsigned = (data, payload) => ({ message: hashTypedData(data), message_prehash: JSON.stringify(data), payload });

/** The token's own transfer of the price into the escrow. */
function authorization(more = {}) {
  const { reserveDeadline, refundAfter } = deposit;
  const validBefore = String(Number(reserveDeadline) + 1);
  const data = {
    types: {
      EIP712Domain: TOKEN_DOMAIN,
      ReceiveWithAuthorization: typed('address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce'),
    },
    primaryType: 'ReceiveWithAuthorization',
    domain,
    message: { from: batch.source.account, to: source.escrow_contract_address, value: quote.sourceAmount, validAfter: '0', validBefore, nonce: depositHash(), ...more },
  };
  const times = { reserve_deadline: Number(reserveDeadline), refund_after: Number(refundAfter), valid_before: Number(validBefore) };
  return { message_scheme: 'EVM_EIP3009', signed_messages: [unsigned(data, { ...times, permitted_amount: quote.sourceAmount, deposit })] };
}

/** The token's allowance for Permit2, and Permit2's transfer. */
function allowance() {
  const data = {
    types: { EIP712Domain: TOKEN_DOMAIN, Permit: typed('address owner,address spender,uint256 value,uint256 nonce,uint256 deadline') },
    primaryType: 'Permit',
    domain,
    message: { owner: batch.source.account, spender: source.permit2, value: String(maxUint256), nonce: '0', deadline: deposit.fulfillmentDeadline },
  };
  const nonce = String(BigInt(keccak256(deposit.paymentId + deposit.termsHash.slice(2))));
  const permitted = { ...transfer.message.permitted, amount: quote.sourceAmount };
  const own = { ...transfer, message: { ...transfer.message, permitted, nonce, witness: deposit } };
  return { message_scheme: 'EVM_PERMIT2_ESCROW', signed_messages: [unsigned(data, {}), unsigned(own, message.payload)] };
}

let browser;
let server;
/** What the gateway asks to be signed, the awards that it was sent, and whether something in front of it answers for payments. */
const said = { prepared: undefined, awards: [], isAway: false };
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
<script src="/page.js" defer></script></head><body data-page="quote-request" data-id="${batch.quote_request_id}"><main id="main"></main></body></html>`;
  const [to] = batch.destination;
  const served = { ...source, message_schemes: ['EVM_EIP3009', 'EVM_PERMIT2_ESCROW'] };
  const there = { ...served, assets: [{ asset_identifier: to.asset_identifier, symbol: 'DEV', decimals: 6 }] };
  const chains = { [chain]: served, [to.asset_identifier.split('/')[0]]: there };
  const answers = {
    'GET /page.js': () => part('.js'),
    [`GET /pay/${batch.quote_request_id}`]: () => html,
    'GET /v1/defaults': ({ searchParams }) => (searchParams.has('chain_id') ? chains[searchParams.get('chain_id')] : { chains }),
    [`GET /v1/payments/quote-requests/${batch.quote_request_id}`]: () => batch,
    'POST /v1/payments/prepare': () => ({ ...award.prepared, payment_id: ID, ...said.prepared }),
    [`POST /v1/payments/quote-requests/${batch.quote_request_id}/award`]: (_, body) => {
      said.awards.push(JSON.parse(body));
      return { payment_id: ID, status: 'pending', idempotent_replay: false, updated_at: batch.quote_deadline };
    },
  };
  const listening = createServer(async (asked, answer) => {
    let body = '';
    for await (const chunk of asked) body += chunk;
    const url = new URL(asked.url, 'http://gateway');
    if (said.isAway && /\/(award|status|timeline)$/.test(url.pathname)) return void answer.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"no such host"}');
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
async function connected(prepared, state = {}) {
  Object.assign(said, { prepared, awards: [] });
  // The wallet has no node: whoever signs alone needs none.
  const wallet = evmWallet('http://127.0.0.1:1', KEY, { chainId, known: new Set([chainId]), ...state });
  const signed = [];
  const { handle } = wallet;
  wallet.handle = (method, params) => {
    if (method === 'eth_signTypedData_v4') signed.push(JSON.parse(params[1]).primaryType);
    return handle(method, params);
  };
  const opened = await open(browser, [wallet]);
  await opened.page.clock.setFixedTime(NOW);
  await opened.page.goto(`${process.env.GATEWAY_URL}/pay/${batch.quote_request_id}`);
  await opened.page.getByRole('button', { name: 'Connect Test Wallet' }).click();
  await opened.page.getByRole('button', { name: /^Pay/ }).waitFor();
  return { ...opened, wallet, signed };
}

const pay = (page) => page.getByRole('button', { name: /^Pay/ }).click();
const handedIn = (page) => page.waitForURL(`**/pay/${ID}`);

/** Whether what was handed in is signed by the payer, message by message. */
async function checkAward({ account }) {
  assert.equal(said.awards.length, 1);
  const [{ quote_id: taken, sender_auth: auth }] = said.awards;
  assert.deepEqual([taken, auth.message_scheme], [quoteId, said.prepared.message_scheme]);
  assert.deepEqual(auth.signed_messages.map(({ message: digest }) => digest), said.prepared.signed_messages.map(({ message: digest }) => digest));
  for (const { message_prehash, signature } of auth.signed_messages) {
    assert.equal(await recoverTypedDataAddress({ ...JSON.parse(message_prehash), signature }), account);
  }
  return auth.signed_messages;
}

test('a token that moves by a signature is paid with by one, and no allowance is asked for', async () => {
  const { page, wallet, signed, faults, foreign, context } = await connected(authorization());
  await page.getByText('Your wallet asks for one signature, by which DEV itself moves the money into escrow.').waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'signature-transfer');
  await pay(page);
  await handedIn(page);
  assert.deepEqual(signed, ['ReceiveWithAuthorization']);
  assert.ok(!wallet.asked.includes('eth_sendTransaction') && !wallet.asked.includes('eth_call'), String(wallet.asked));
  const [{ payload }] = await checkAward(wallet);
  assert.equal(payload.permitted_amount, quote.sourceAmount);
  assert.equal(payload.valid_before, Number(deposit.reserveDeadline) + 1);
  assert.deepEqual(Object.keys(payload.deposit), Object.keys(deposit));
  assert.deepEqual([faults, foreign], [[], []]);
  await context.close();
});

test('a token that gives allowances by a signature is paid with by two, in their order', async () => {
  const { page, wallet, signed, faults, foreign, context } = await connected(allowance());
  await page.getByText('Your wallet asks for two signatures. By the first, DEV lets the contract Permit2 draw on it').waitFor();
  assert.deepEqual(await serious(page), []);
  await picture(page, 'signature-allowance');
  await pay(page);
  await handedIn(page);
  assert.deepEqual(signed, ['Permit', 'PermitWitnessTransferFrom']);
  assert.ok(!wallet.asked.includes('eth_sendTransaction') && !wallet.asked.includes('eth_call'), String(wallet.asked));
  await checkAward(wallet);
  assert.deepEqual([faults, foreign], [[], []]);
  await context.close();
});

test('a 404 that is not the gateway’s drops nothing of what was signed, which goes in later', async () => {
  const { page, wallet, signed, context } = await connected(authorization());
  said.isAway = true;
  await pay(page);
  const again = page.getByRole('button', { name: 'Try again' });
  await again.waitFor();
  assert.deepEqual([said.awards, signed.length], [[], 1]);
  said.isAway = false;
  await again.click();
  await handedIn(page);
  await checkAward(wallet);
  assert.equal(signed.length, 1);
  await context.close();
});

test('where the second signature is declined nothing is handed in, and both are asked for again', async () => {
  const { page, wallet, signed, context } = await connected(allowance());
  const { handle } = wallet;
  let questions = 0;
  wallet.handle = async (method, params) => {
    if (method === 'eth_signTypedData_v4') {
      questions += 1;
      await page.getByText('it asks for two signatures, one after the other').waitFor();
      if (questions === 2) throw Object.assign(new Error('User rejected the request.'), { code: 4001 });
    }
    return handle(method, params);
  };
  await pay(page);
  await page.getByText('You did not confirm in your wallet. Nothing was handed in').waitFor();
  await picture(page, 'signature-declined');
  assert.deepEqual([said.awards, signed], [[], ['Permit']]);
  await page.getByRole('button', { name: 'Try again' }).click();
  await handedIn(page);
  assert.deepEqual(signed, ['Permit', 'Permit', 'PermitWitnessTransferFrom']);
  await checkAward(wallet);
  await context.close();
});

test('what a gateway would have signed for somebody else is not shown to the wallet', async () => {
  const { page, wallet, signed, context } = await connected(authorization({ to: `0x${'5'.repeat(40)}` }));
  await pay(page);
  await page.getByText('The gateway asked for a signature over something else than this page shows').waitFor();
  assert.deepEqual([said.awards, signed, wallet.asked.includes('eth_sendTransaction')], [[], [], false]);
  await context.close();
});
