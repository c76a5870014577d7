// A payer on an EVM chain with viem and nothing of the gateway's but its HTTP API: it gives Permit2 the allowance, asks what
// to sign, rebuilds that itself, signs, submits, and waits for the outcome. See README.md.
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
  concat, createPublicClient, encodeFunctionData, erc20Abi, hashTypedData, http, keccak256, parseAbi, stringToHex,
} from 'viem';
import { privateKeyToAccount } from 'viem/accounts';

// Where Uniswap's Permit2 is on every chain but few. An allowance is given to nothing that a gateway alone names.
const PERMIT2 = (process.env.PERMIT2 ?? '0x000000000022d473030f116ddee9f6b43ac78ba3').toLowerCase();
// The most that one of the payer's own transactions may cost, in wei: its gas times its fee per gas.
const FEE_WEI_MAX = BigInt(process.env.FEE_WEI_MAX ?? 10n ** 16n);
// The longest that money may be locked, in seconds from now.
const LOCK_SECONDS_MAX = Number(process.env.LOCK_SECONDS_MAX ?? 7200);
const QUOTE_SECONDS = 10;
const FULFILLMENT_SECONDS = 180;
const PAUSE_MS = 500;
const TIMEOUT_MS = 60_000;
const ZERO_HASH = `0x${'0'.repeat(64)}`;

const fields = (text) => text.split(', ').map((field) => ({ type: field.split(' ')[0], name: field.split(' ')[1] }));
const TYPES = {
  PermitWitnessTransferFrom: fields(
    'TokenPermissions permitted, address spender, uint256 nonce, uint256 deadline, GatewayDeposit witness',
  ),
  TokenPermissions: fields('address token, uint256 amount'),
  GatewayDeposit: fields(
    'bytes32 paymentId, bytes32 termsHash, bytes32 quoteHash, address payer, address reserver, address releaser, ' +
      'uint48 reserveDeadline, uint48 fulfillmentDeadline, uint48 refundAfter',
  ),
};

const sha256 = (data) => createHash('sha256').update(data).digest();
const sleep = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
const rfc3339 = (ms) => new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
const unixSeconds = (text) => Math.floor(Date.parse(text) / 1000);

function insist(holds, rule) {
  if (!holds) throw new Error(rule);
}

// RFC 8785 for objects, arrays and texts.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${members.join(',')}}`;
}

// `pay_` and base32 of what the payment is known by; each part is preceded by its length.
function paymentId(account, requestId) {
  const parts = ['gw:payment:v1', `eip155:${account}`, requestId].flatMap((text) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(Buffer.byteLength(text)));
    return [length, Buffer.from(text)];
  });
  const bits = [...sha256(Buffer.concat(parts))].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  const digits = bits.match(/.{1,5}/g).map((group) => parseInt(group.padEnd(5, '0'), 2));
  return `pay_${digits.map((digit) => 'abcdefghijklmnopqrstuvwxyz234567'[digit]).join('')}`;
}

// The form that the terms are hashed in: on EVM chains lower case.
function normal({ asset_identifier: asset, account }) {
  const lower = (text) => (asset.startsWith('eip155:') ? text.toLowerCase() : text);
  return { asset_identifier: lower(asset), account: lower(account) };
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const byAsset = (a, b) => compare(a.asset_identifier, b.asset_identifier) || compare(a.account, b.account);

// The order in the file; what belongs to one attempt, its id and its times, is made here where the file has none. `wrap` is for
// this program alone.
function read(file) {
  const { wrap = process.env.WRAP === '1', ...order } = JSON.parse(readFileSync(file, 'utf8'));
  insist(order.source && order.destination?.length && order.fulfillment_amount, `${file} is not an order: see README.md`);
  insist(order.max_source_amount, `${file} lacks max_source_amount: a payer says what it pays at most`);
  order.source = normal(order.source);
  order.destination = order.destination.map(normal).sort(byAsset);
  if (!order.request_id) {
    order.request_id = `order-${randomUUID()}`;
    console.error(`request_id is ${order.request_id}: put it into the order to try the same payment again`);
  }
  const given = { quote_deadline: order.quote_deadline, fulfillment_deadline: order.fulfillment_deadline };
  return { order, wrap: wrap === true, given };
}

// The times that the file has, and others from now on: wrapping and allowances take the blocks that they take.
function setTimes(order, given) {
  order.quote_deadline = given.quote_deadline ?? rfc3339(Date.now() + QUOTE_SECONDS * 1000);
  order.fulfillment_deadline = given.fulfillment_deadline ?? rfc3339(Date.now() + FULFILLMENT_SECONDS * 1000);
}

// Whom the signature lets have the money, and for how long: what the payer knows by itself has to be what the gateway says.
function trust(defaults, lockSeconds) {
  const { escrow_contract_address: ESCROW, reserver: RESERVER, releaser: RELEASER } = defaults;
  const believed = [];
  for (const [name, account] of Object.entries({ ESCROW, RESERVER, RELEASER })) {
    const pin = process.env[name];
    if (!pin) believed.push(`${name}=${account}`);
    insist(!pin || pin.toLowerCase() === account.toLowerCase(), `the gateway names another ${name}, ${account}`);
  }
  if (believed.length) console.error(`nothing but the gateway's word is behind ${believed.join(' ')}: see README.md`);
  const rule = `the money could be locked for ${lockSeconds} s, and LOCK_SECONDS_MAX is ${LOCK_SECONDS_MAX}`;
  insist(lockSeconds <= LOCK_SECONDS_MAX, rule);
}

// Nothing is known; the same is asked again.
class NoAnswer extends Error {}

async function call(url, body) {
  const options = body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  let response, answer;
  try {
    response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS), ...options });
    answer = await response.json();
  } catch (error) {
    throw new NoAnswer(`${url}: ${error.cause?.message ?? error.message}`);
  }
  if (response.status === 429 || response.status >= 500) throw new NoAnswer(`${answer.code}: ${answer.message}`);
  insist(response.ok, `${url} is refused, ${answer.code}: ${answer.message}`);
  return answer;
}

// Asks until there is an answer: a time-out or a 503 says nothing, and the same request can never start a second payment.
async function persist(until, url, body) {
  for (;;) {
    try {
      return await call(url, body);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      insist(Date.now() < until, `there is no outcome, and nobody answers: ${error.message}`);
      await sleep();
    }
  }
}

// Lets Permit2 take up to `cap`. A token like Tether refuses a new allowance while another one stands, so that is taken back
// first.
async function approve(client, account, chainId, token, cap) {
  const held = { address: token, abi: erc20Abi, functionName: 'allowance', args: [account.address, PERMIT2] };
  const allowance = await client.readContract(held);
  const sent = [];
  if (allowance >= cap) return sent;
  for (const amount of allowance > 0n ? [0n, cap] : [cap]) {
    sent.push(await send(client, account, chainId, token, { abi: erc20Abi, functionName: 'approve', args: [PERMIT2, amount] }));
  }
  return sent;
}

// Wraps coins, up to `cap` of the token that is their wrapped form, as WETH9 does it.
async function wrapCoins(client, account, chainId, token, cap) {
  const held = { address: token, abi: erc20Abi, functionName: 'balanceOf', args: [account.address] };
  const missing = cap - (await client.readContract(held));
  if (missing <= 0n) return [];
  const deposit = { abi: parseAbi(['function deposit() payable']), functionName: 'deposit' };
  return [await send(client, account, chainId, token, deposit, missing)];
}

// Sends the payer's own transaction, and waits until it is in a block and has had its effect. It is made and signed here: the
// node says its nonce, its gas and its fees alone, and what these come to is bounded.
async function send(client, account, chainId, to, call, value = 0n) {
  const data = encodeFunctionData(call);
  const fees = await client.estimateFeesPerGas();
  const gas = ((await client.estimateGas({ account: account.address, to, data, value, prepare: false })) * 5n) / 4n;
  const fee = gas * fees.maxFeePerGas;
  insist(fee <= FEE_WEI_MAX, `${call.functionName} could cost ${fee} wei by what the node says, and FEE_WEI_MAX is ${FEE_WEI_MAX}`);
  const nonce = await client.getTransactionCount({ address: account.address, blockTag: 'pending' });
  const transaction = { type: 'eip1559', chainId, nonce, to, data, value, gas, ...fees };
  const serializedTransaction = await account.signTransaction(transaction);
  await client.sendRawTransaction({ serializedTransaction });
  const hash = keccak256(serializedTransaction);
  const { status } = await client.waitForTransactionReceipt({ hash, pollingInterval: PAUSE_MS });
  insist(status === 'success', `${call.functionName}, ${hash}, reverted`);
  return hash;
}

// The typed data, from the order and the gateway's defaults. The windows are the gateway's to choose, within the payer's limits.
function typedData(order, defaults, refundDelay, prepared) {
  const { source, destination, fulfillment_amount, max_source_amount } = order;
  const [chain, token] = source.asset_identifier.split('/erc20:');
  const { deadline, witness } = JSON.parse(prepared.message_prehash).message;
  const fulfillmentDeadline = unixSeconds(order.fulfillment_deadline);
  const [reserveDeadline, refundAfter] = [Number(witness.reserveDeadline), Number(witness.refundAfter)];
  insist(reserveDeadline <= fulfillmentDeadline, 'the deposit would be taken too late');
  insist(Number(deadline) <= fulfillmentDeadline, 'the signature would hold for too long');
  insist(refundAfter - fulfillmentDeadline <= refundDelay, 'the refund would come too late');
  const id = keccak256(stringToHex(paymentId(source.account, order.request_id)));
  const terms = canonical({ destination, fulfillment_amount, max_source_amount, source });
  const termsHash = `0x${sha256(terms).toString('hex')}`;
  return {
    domain: { name: 'Permit2', chainId: Number(chain.split(':')[1]), verifyingContract: PERMIT2 },
    types: TYPES,
    primaryType: 'PermitWitnessTransferFrom',
    message: {
      permitted: { token, amount: BigInt(max_source_amount) },
      spender: defaults.escrow_contract_address,
      nonce: BigInt(keccak256(concat([id, termsHash]))),
      deadline: BigInt(deadline),
      witness: {
        paymentId: id,
        termsHash,
        // The quote is not known yet.
        quoteHash: ZERO_HASH,
        payer: source.account,
        reserver: defaults.reserver,
        releaser: defaults.releaser,
        reserveDeadline,
        fulfillmentDeadline,
        refundAfter,
      },
    },
  };
}

async function main([gateway, rpc, keyFile, orderFile]) {
  const account = privateKeyToAccount(`0x${readFileSync(keyFile, 'utf8').trim().replace(/^0x/, '')}`);
  const { order, wrap, given } = read(orderFile);
  setTimes(order, given);
  const [chain, token] = order.source.asset_identifier.split('/erc20:');
  insist(token, 'source.asset_identifier is not an ERC-20, eip155:…/erc20:0x…');
  insist(order.source.account === account.address.toLowerCase(), 'the key is not that of source.account');
  const client = createPublicClient({ transport: http(rpc) });
  // The node has to be of the chain that the payment is on.
  const chainId = await client.getChainId();
  insist(chain === `eip155:${chainId}`, `the node at ${rpc} is not of ${chain}`);

  const defaultsOf = (id) => call(`${gateway}/v1/defaults?chain_id=${id}`);
  const defaults = await defaultsOf(chain);
  insist(defaults.permit2.toLowerCase() === PERMIT2, `the gateway names another Permit2, ${defaults.permit2}`);
  // The longest of the payment's chains counts.
  const delays = [defaults.refund_delay_seconds];
  for (const { asset_identifier: asset } of order.destination) {
    delays.push((await defaultsOf(asset.split('/')[0])).refund_delay_seconds);
  }
  const refundDelay = Math.max(...delays);
  trust(defaults, unixSeconds(order.fulfillment_deadline) + refundDelay - Math.floor(Date.now() / 1000));
  const cap = BigInt(order.max_source_amount);
  // Both have to say that the token is the coin's wrapped form: another token might keep what it is sent.
  const listed = defaults.assets.find(({ asset_identifier: id }) => id === order.source.asset_identifier);
  insist(!wrap || listed?.wraps, `the gateway does not say that ${token} wraps coins`);
  const wrapped = wrap ? await wrapCoins(client, account, chainId, token, cap) : [];
  const approvals = await approve(client, account, chainId, token, cap);
  setTimes(order, given);

  const { payment_id: id, message_scheme, signed_messages } = await call(`${gateway}/v1/payments/prepare`, order);
  insist(id === paymentId(order.source.account, order.request_id), 'the payment has another id');
  const typed = typedData(order, defaults, refundDelay, signed_messages[0]);
  insist(signed_messages[0].message === hashTypedData(typed), 'the gateway asks for a signature over something else');
  const signature = await account.signTypedData(typed);
  const sender_auth = { message_scheme, signed_messages: [{ ...signed_messages[0], signature }] };

  // By then every window has passed.
  const until = Date.parse(order.fulfillment_deadline) + (refundDelay + 60) * 1000;
  let status = await persist(until, `${gateway}/v1/payments`, { ...order, sender_auth });
  while (!['completed', 'failed'].includes(status.status)) {
    insist(Date.now() < until, `${id} is still ${status.status}`);
    await sleep();
    status = await persist(until, `${gateway}/v1/payments/${id}/status`);
  }
  const { request_id } = order;
  console.log(JSON.stringify({ payment_id: id, request_id, wrapped, approvals, status: status.status, error: status.error }));
  return status.status === 'completed' ? 0 : 1;
}

if (process.argv.length !== 6) {
  console.error('usage: node pay.mjs GATEWAY RPC KEY_FILE ORDER_FILE');
  process.exit(2);
}
main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    // viem's errors have a short form, and what the node said beside it.
    console.error([error.shortMessage ?? error.message, error.details].filter(Boolean).join(' '));
    process.exit(1);
  },
);
