// The page as the gateway serves it, before an API that says what a test wants, and a payer's wallet on a chain with one token: both for
// what is signed once, batches and mandates.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

import { build } from 'esbuild';
import { decodeFunctionData, erc20Abi, keccak256, stringToHex } from 'viem';

import { optionsOf } from '../bundle.mjs';
import { evmWallet } from './evm.mjs';
import { idOf, membersOf, preparedBatch } from './honest_batch.mjs';
import { EVM, twenty } from './honest_gateway.mjs';
import { preparedMandate } from './honest_mandate.mjs';

export const { chain, token } = EVM;
export const [to] = EVM.request.destination;
export const SOURCE = EVM.request.source.asset_identifier;
export const chainId = Number(chain.split(':')[1]);
const SCHEMES = ['EVM_PERMIT2_ESCROW', 'EVM_PERMIT2_BATCH', 'EVM_PERMIT2_MANDATE'];

/** What the gateway was asked and says: `lie` changes what it has signed, `submit` answers a batch, `statuses` and `timelines` are of payments, `served` is what the chain has otherwise. */
export const newWorld = () => ({ lie: {}, submit: undefined, bodies: [], requests: [], statuses: new Map(), resolved: new Map(), timelines: new Map(), served: {}, allowance: 10n ** 30n });

/** What an answer says of each payment of a body; `more` takes the place of what is usual. */
export const acceptedBatch = (body, more = () => ({})) => ({
  payments: membersOf(body).map((request, at) => {
    const payment_id = idOf(request);
    const changed = more(at);
    return changed.error ? { payment_id, ...changed } : { payment_id, payment: { payment_id, status: 'pending', idempotent_replay: false, updated_at: '', ...changed } };
  }),
});
export const refusal = (code) => ({ error: { code, message: `${code} of a test` } });

/** Starts it. `worldNow` gives the world of the test that runs. */
export async function serveEntrances(worldNow) {
  const { outputFiles } = await build({ ...optionsOf('page'), write: false });
  const part = (ending) => outputFiles.find(({ path }) => path.endsWith(ending)).text;
  const style = part('.css');
  const page = (kind, id) => `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Payment gateway</title><style>${style}</style>
<script src="/page.js" defer></script></head><body data-page="${kind}" data-id="${id}"><main id="main"></main></body></html>`;
  // As the gateway has it (api/src/pages/assets.rs).
  const policy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
  const there = { ...EVM.served, assets: [{ asset_identifier: to.asset_identifier, symbol: 'DEV', decimals: 6 }] };
  const chains = { [chain]: { ...EVM.served, message_schemes: SCHEMES }, [to.asset_identifier.split('/')[0]]: there };
  const approvals = (world, amount) => {
    const { served } = EVM;
    return world.allowance >= amount ? {} : { approvals: [{ asset_identifier: SOURCE.toLowerCase(), spender: served.permit2, amount: String(amount), call: {} }] };
  };
  const sum = (body) => membersOf(body).reduce((all, { max_source_amount: most }) => all + BigInt(most), 0n);
  const answers = [
    [/^GET \/page\.js$/, () => part('.js')],
    [/^GET \/pay$/, () => page('link', '')],
    [/^GET \/v1\/defaults$/, (world, { searchParams }) => {
      const now = { ...chains, [chain]: { ...chains[chain], ...world.served } };
      return searchParams.has('chain_id') ? now[searchParams.get('chain_id')] : { chains: now };
    }],
    [/^POST \/v1\/payments\/batches\/prepare$/, (world, _, body) => preparedBatch(body, { more: approvals(world, sum(body)), ...world.lie })],
    [/^POST \/v1\/payments\/batches$/, (world, _, body) => {
      world.bodies.push(body);
      return world.submit(body, world.bodies.length);
    }],
    [/^POST \/v1\/payments\/mandates\/prepare$/, (world, _, body) => {
      world.requests.push(body);
      const all = BigInt(body.mandate.amount) * BigInt(body.mandate.periods);
      return preparedMandate(body, { approves: world.allowance < all, ...world.lie });
    }],
    [/^GET \/v1\/payments\/resolve$/, (world, { searchParams }) => world.resolved.get(searchParams.get('request_id'))],
    [/^GET \/v1\/payments\/(pay_\w+)\/timeline$/, (world, { pathname }) => world.timelines.get(pathname.split('/')[3])],
    [/^GET \/v1\/payments\/(pay_\w+)\/status$/, (world, { pathname }) => world.statuses.get(pathname.split('/')[3])],
  ];
  const listening = createServer(async (asked, answer) => {
    let body = '';
    for await (const chunk of asked) body += chunk;
    const url = new URL(asked.url, 'http://gateway');
    const found = answers.find(([form]) => form.test(`${asked.method} ${url.pathname}`));
    const given = await found?.[1](worldNow(), url, body ? JSON.parse(body) : undefined);
    // The answer is lost.
    if (given === 'lost') return void answer.destroy();
    const isText = typeof given === 'string';
    answer.setHeader('content-type', !isText ? 'application/json' : url.pathname.endsWith('.js') ? 'text/javascript' : 'text/html');
    if (isText) answer.setHeader('content-security-policy', policy);
    answer.statusCode = given?.status && given.body ? given.status : given ? 200 : 404;
    answer.end(isText ? given : JSON.stringify(given?.body ?? given ?? { code: 'PAYMENT_NOT_FOUND', message: 'there is none' }));
  });
  await new Promise((resolve) => listening.listen(0, '127.0.0.1', resolve));
  return listening;
}

/** The payer of gw-dev's examples. Everyone knows its key. */
export const KEY = keccak256(stringToHex('gw dev example payer'));

/** A wallet whose chain has the token alone: what it signed and sent is kept, and what it sent has its effect in the world. */
export function payerWallet(worldNow, key = KEY) {
  const wallet = evmWallet('http://127.0.0.1:1', key, { chainId, known: new Set([chainId]) });
  const { handle } = wallet;
  const [signed, sent] = [[], []];
  const word = (value) => `0x${value.toString(16).padStart(64, '0')}`;
  wallet.handle = async (method, params) => {
    const world = worldNow();
    if (method === 'eth_call') {
      const { functionName } = decodeFunctionData({ abi: erc20Abi, data: params[0].data });
      return word(functionName === 'balanceOf' ? 10n ** 30n : world.allowance);
    }
    if (method === 'eth_sendTransaction') {
      const [{ to: called, data }] = params;
      sent.push(params[0]);
      if (called === token.toLowerCase()) world.allowance = decodeFunctionData({ abi: erc20Abi, data }).args[1];
      return keccak256(data);
    }
    if (method === 'eth_getTransactionReceipt') return { status: '0x1' };
    if (method === 'eth_signTypedData_v4') signed.push(JSON.parse(params[1]));
    return handle(method, params);
  };
  return Object.assign(wallet, { signed, sent });
}

/** The fragment of a merchant's link. */
export const mandateLink = (members) => `/pay#mandate=${Buffer.from(JSON.stringify({ v: 1, source: { asset_identifier: SOURCE }, destination: [to], ...members })).toString('base64url')}`;
export const MERCHANT = twenty('9');
