// A payer on Tron with nothing of the gateway's but its HTTP API: it wraps coins where they are what it pays with, asks what to
// sign, builds the very same transactions with tronweb from its own request, signs, submits, waits for the outcome, and reads on
// the chain what became of its money. See README.md.
'use strict';

const { createHash, randomUUID } = require('node:crypto');
const { readFileSync } = require('node:fs');
const { TronWeb, Trx, utils } = require('tronweb');

const POLL_MS = 200;
// Of an order that says no times: how long quotes are collected, and by when it has to be there.
const QUOTE_SECONDS = 10;
const FULFILLMENT_SECONDS = 240;
// The network takes no transaction that expires later.
const EXPIRATION_MS_MAX = 24 * 60 * 60 * 1000;
// The most TRX, in sun, that wrapping may burn for energy: `deposit()` of a wrapped coin takes far less.
const WRAP_FEE_LIMIT_SUN = 30_000_000n;
// The most TRX, in sun, that this payer lets one transaction burn for energy.
const FEE_LIMIT_SUN_MAX = BigInt(process.env.FEE_LIMIT_SUN_MAX ?? 500_000_000);
// The longest that money may be locked, in seconds from now.
const LOCK_SECONDS_MAX = Number(process.env.LOCK_SECONDS_MAX ?? 7200);
// How long after its expiration a transaction may still be found in a block that this node has not seen yet.
const EXPIRED_MS = 30_000;
const ZERO_HASH = `0x${'0'.repeat(64)}`;

const fields = (text) => text.split(', ').map((field) => ({ type: field.split(' ')[0], name: field.split(' ')[1] }));
const DEPOSIT = fields(
  'bytes32 paymentId, bytes32 termsHash, bytes32 quoteHash, address payer, address reserver, address releaser, ' +
    'uint48 reserveDeadline, uint48 fulfillmentDeadline, uint48 refundAfter',
);
const RESERVATION = fields('bytes32 paymentId, bytes32 quoteHash, address settler, uint256 sourceAmount, uint48 fulfillBy');
const OPENING = { Opening: fields('GatewayDeposit deposit, address token, uint256 amount'), GatewayDeposit: DEPOSIT };
const method = (name, inputs) => ({ type: 'function', name, inputs, outputs: inputs, stateMutability: 'nonpayable' });
const APPROVE = method('approve', fields('address spender, uint256 amount'));
const DEPOSIT_OWN = method('depositOwn', [
  { type: 'tuple', name: 'd', components: DEPOSIT },
  ...fields('address token, uint256 amount, bytes reserverSignature'),
]);
const ESCROW = [
  { type: 'tuple', name: 'deposit', components: DEPOSIT },
  ...fields('address token, uint256 deposited, bytes32 quoteHash, address settler, uint256 sourceAmount, uint48 fulfillBy'),
];
const RESERVE = method('reserve', [
  { type: 'tuple', name: 'e', components: ESCROW },
  { type: 'tuple', name: 'r', components: RESERVATION },
  ...fields('bytes reserverSignature'),
]);
const BALANCE_OF = method('balanceOf', fields('address owner'));
const WRAP = method('deposit', []);
const DEPOSITED = `Deposited(bytes32,bytes32,address,(${DEPOSIT.map(({ type }) => type).join()}),address,uint256)`;

const sha256 = (bytes) => createHash('sha256').update(bytes).digest();
const bare = (hex) => hex.replace(/^0x/, '').toLowerCase();
const unixSeconds = (text) => BigInt(Math.floor(Date.parse(text) / 1000));
const sleep = () => new Promise((resolve) => setTimeout(resolve, POLL_MS));

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
  const parts = ['gw:payment:v1', `tron:${account}`, requestId].flatMap((text) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(Buffer.byteLength(text)));
    return [length, Buffer.from(text)];
  });
  const bits = [...sha256(Buffer.concat(parts))].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  const digits = bits.match(/.{1,5}/g).map((group) => parseInt(group.padEnd(5, '0'), 2));
  return `pay_${digits.map((digit) => 'abcdefghijklmnopqrstuvwxyz234567'[digit]).join('')}`;
}

// The order in the file; what belongs to one attempt, its id and its times, is made here where the file has none. `wrap` is for
// this program alone.
function read(file) {
  const { wrap = process.env.WRAP === '1', ...order } = JSON.parse(readFileSync(file, 'utf8'));
  const after = (seconds) => new Date(Date.now() + seconds * 1000).toISOString().replace(/\.\d+Z$/, 'Z');
  order.destination = order.destination.map(normal);
  if (!order.request_id) {
    order.request_id = `order-${randomUUID()}`;
    console.error(`request_id is ${order.request_id}: put it into the order to try the same payment again`);
  }
  order.quote_deadline ??= after(QUOTE_SECONDS);
  order.fulfillment_deadline ??= after(FULFILLMENT_SECONDS);
  return { order, wrap: wrap === true };
}

// Whom the signature lets have the money, and for how long: what the payer knows by itself has to be what the gateway says.
function trust(defaults, lockSeconds) {
  const { escrow_contract_address: ESCROW, reserver: RESERVER, releaser: RELEASER } = defaults;
  const believed = [];
  for (const [name, account] of Object.entries({ ESCROW, RESERVER, RELEASER })) {
    const pin = process.env[name];
    if (!pin) believed.push(`${name}=${account}`);
    insist(!pin || pin === account, `the gateway names another ${name}, ${account}`);
  }
  if (believed.length) console.error(`nothing but the gateway's word is behind ${believed.join(' ')}: see README.md`);
  const rule = `the money could be locked for ${lockSeconds} s, and LOCK_SECONDS_MAX is ${LOCK_SECONDS_MAX}`;
  insist(lockSeconds <= LOCK_SECONDS_MAX, rule);
}

// The form that the terms are hashed in: on EVM chains lower case.
function normal(owned) {
  const { asset_identifier: asset, account } = owned;
  return asset.startsWith('eip155:') ? { asset_identifier: asset.toLowerCase(), account: account.toLowerCase() } : owned;
}

async function call(url, body) {
  const options = body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(url, options);
  const answer = await response.json();
  insist(response.ok, `${url}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

const address = (hex) => TronWeb.address.fromHex(hex);

// The arguments in `data`, which has to be a call of `method`.
function decoded(method, data) {
  const selector = TronWeb.sha3(utils.abi.buildFunctionSelector(method)).slice(0, 10);
  insist(data.startsWith(bare(selector)), `the call is not one of ${method.name}`);
  return utils.abi.decodeParamsV2ByABI(method, `0x${data.slice(8)}`);
}

// What tronweb shows of a prepared transaction. Nothing of it is signed: it tells what was left for the gateway to choose.
const shown = ({ message_prehash: bytes }) => utils.deserializeTx.deserializeTransaction('TriggerSmartContract', bare(bytes));

// The transaction as tronweb builds it for this payer: a call without coins, memo or permission. It is signed when it is, to
// the byte, the one that was prepared. Reference block, times and fee limit are the prepared one's, within the payer's limits.
async function built(tronWeb, payer, prepared, contract, method, values, latest) {
  const { ref_block_bytes, ref_block_hash, expiration, timestamp, fee_limit: feeLimit } = shown(prepared);
  insist(BigInt(feeLimit) <= FEE_LIMIT_SUN_MAX, 'the transaction may burn too much');
  insist(expiration <= latest, 'the transaction could be sent when nobody takes it any more');
  const blockHeader = { ref_block_bytes, ref_block_hash, expiration, timestamp };
  const options = { txLocal: true, blockHeader, feeLimit, funcABIV2: method, parametersV2: values };
  const selector = utils.abi.buildFunctionSelector(method);
  const { transaction } = await tronWeb.transactionBuilder.triggerSmartContract(contract, selector, options, [], payer);
  insist(transaction.raw_data_hex === bare(prepared.message_prehash), `the gateway asks for something else than ${method.name}`);
  insist(transaction.txID === bare(prepared.message), 'the message is not the id of the transaction');
  return transaction;
}

// The arguments of the deposit, all from the order and the gateway's defaults. The windows and the gateway's own signature are
// the gateway's to choose: the ones are held against the payer's limits, the other is verified.
function depositArguments(prepared, order, defaults) {
  const [chain, token] = order.source.asset_identifier.split('/trc20:');
  const { source, destination, fulfillment_amount, max_source_amount: cap } = order;
  const { d: given, reserverSignature } = decoded(DEPOSIT_OWN, bare(shown(prepared).contract[0].parameter.value.data));
  const { reserveDeadline, refundAfter } = given;
  const fulfillmentDeadline = unixSeconds(order.fulfillment_deadline);
  insist(reserveDeadline <= fulfillmentDeadline, 'the deposit would be taken too late');
  insist(refundAfter - fulfillmentDeadline <= BigInt(defaults.refundDelay), 'the refund would come too late');
  const deposit = {
    paymentId: TronWeb.sha3(paymentId(source.account, order.request_id)),
    termsHash: `0x${sha256(canonical({ destination, fulfillment_amount, max_source_amount: cap, source })).toString('hex')}`,
    // The quote is not known yet.
    quoteHash: ZERO_HASH,
    payer: source.account,
    reserver: defaults.reserver,
    releaser: defaults.releaser,
    reserveDeadline: String(reserveDeadline),
    fulfillmentDeadline: String(fulfillmentDeadline),
    refundAfter: String(refundAfter),
  };
  const domain = {
    name: 'GatewayEscrow',
    version: '1',
    chainId: Number(chain.split(':')[1]),
    verifyingContract: defaults.escrow_contract_address,
  };
  const opening = { deposit, token, amount: cap };
  const values = [DEPOSIT.map(({ name }) => deposit[name]), token, cap, reserverSignature];
  const isSigned = () => Trx.verifyTypedData(domain, OPENING, opening, reserverSignature, defaults.reserver);
  return { values, isSigned, reserveDeadline: Number(reserveDeadline) };
}

// What is to be signed, in the order of the messages: an allowance of exactly the cap where there is none yet, the deposit.
async function transactionsOf(tronWeb, prepared, order, defaults) {
  const messages = prepared.signed_messages;
  insist(messages.length === 1 || messages.length === 2, 'the gateway asks for a number of signatures that makes no sense');
  const { source, max_source_amount: cap } = order;
  const [, token] = source.asset_identifier.split('/trc20:');
  const { escrow_contract_address: escrow } = defaults;
  const { values, isSigned, reserveDeadline } = depositArguments(messages.at(-1), order, defaults);
  // Later the contract refuses the deposit, and burnt energy would be all that comes of it.
  const latest = Math.min(reserveDeadline * 1000, Date.now() + EXPIRATION_MS_MAX);
  const transactions = [];
  if (messages.length === 2) {
    transactions.push(await built(tronWeb, source.account, messages[0], token, APPROVE, [escrow, cap], latest));
  }
  transactions.push(await built(tronWeb, source.account, messages.at(-1), escrow, DEPOSIT_OWN, values, latest));
  insist(isSigned(), 'the contract would not take the deposit: the reserver did not sign it');
  return transactions;
}

// Wraps coins, up to `cap` of the token that is their wrapped form, as WETH9 does it, and waits until they are.
async function wrapCoins(tronWeb, payer, key, token, cap) {
  const { transactionBuilder: builder, trx } = tronWeb;
  const [held, deposit] = [BALANCE_OF, WRAP].map((method) => utils.abi.buildFunctionSelector(method));
  const asked = await builder.triggerConstantContract(token, held, {}, [{ type: 'address', value: payer }], payer);
  const missing = BigInt(cap) - BigInt(`0x${asked.constant_result[0]}`);
  if (missing <= 0n) return [];
  const callValue = Number(missing);
  insist(Number.isSafeInteger(callValue), 'that is more TRX than there is');
  const feeLimit = Number(FEE_LIMIT_SUN_MAX < WRAP_FEE_LIMIT_SUN ? FEE_LIMIT_SUN_MAX : WRAP_FEE_LIMIT_SUN);
  const options = { callValue, feeLimit, txLocal: true };
  const built = await builder.triggerSmartContract(token, deposit, options, [], payer);
  const transaction = await trx.sign(built.transaction, key);
  const id = transaction.txID;
  const { result, code, message } = await trx.sendRawTransaction(transaction);
  insist(result, `the coins cannot be wrapped: ${code} ${message}`);
  for (;;) {
    const info = await trx.getUnconfirmedTransactionInfo(id);
    if (info.id) {
      insist(info.receipt.result === 'SUCCESS', `${id} is on chain and failed: ${JSON.stringify(info)}`);
      return [id];
    }
    insist(Date.now() < transaction.raw_data.expiration + EXPIRED_MS, `${id} was dropped`);
    await sleep();
  }
}

// What the chain holds of a transaction once no fork takes it away, and that it did what it should.
async function settled(tronWeb, id) {
  for (;;) {
    const info = await tronWeb.trx.getTransactionInfo(bare(id));
    if (info.id) {
      insist(info.receipt.result === 'SUCCESS', `${id} is on chain and failed: ${JSON.stringify(info)}`);
      return info;
    }
    await sleep();
  }
}

// The payment on chain: the payer's own transactions, and the gateway's reservation with the price.
async function onChain(tronWeb, transactions, order, status, escrow) {
  const { deposit: own, reservation: reserved } = status.transactions;
  insist(bare(own.transaction_hash) === transactions.at(-1).txID, 'the gateway names another deposit');
  const seen = [];
  for (const mine of transactions) {
    const info = await settled(tronWeb, mine.txID);
    const held = await tronWeb.trx.getConfirmedTransaction(mine.txID);
    insist(bare(held.raw_data_hex) === mine.raw_data_hex, 'the chain holds another transaction');
    insist(bare(held.signature[0]) === bare(mine.signature[0]), 'the chain holds another signature');
    seen.push({ id: mine.txID, block: info.blockNumber, fee: info.fee ?? 0, energy: info.receipt.energy_usage_total ?? 0 });
  }
  const id = bare(TronWeb.sha3(paymentId(order.source.account, order.request_id)));
  const deposit = await settled(tronWeb, transactions.at(-1).txID);
  const log = (deposit.log ?? []).find(
    ({ address: emitter, topics }) =>
      address(`41${emitter}`) === escrow && topics[0] === bare(TronWeb.sha3(DEPOSITED)) && topics[1] === id,
  );
  insist(log && BigInt(`0x${log.data.slice(-64)}`) === BigInt(order.max_source_amount), 'there is no deposit of the cap');

  insist(own.block_number === deposit.blockNumber, 'the deposit is in another block than the gateway says');
  insist(status.fulfillment_confirmation.source_tx_hash === own.transaction_hash, 'the receipt is of another deposit');
  const { transaction_hash: hash, block_number: block } = reserved;
  const reservation = await settled(tronWeb, hash);
  insist(reservation.blockNumber === block, 'the reservation is in another block than the gateway says');
  const { value } = (await tronWeb.trx.getConfirmedTransaction(bare(hash))).raw_data.contract[0].parameter;
  insist(address(value.contract_address) === escrow, 'the reservation is another contract\'s');
  const { r } = decoded(RESERVE, bare(value.data));
  insist(bare(r.paymentId) === id && r.sourceAmount <= BigInt(order.max_source_amount), 'the reservation is another\'s');
  return { transactions: seen, reservation: { id: bare(hash), block, source_amount: String(r.sourceAmount) } };
}

async function main([gateway, api, keyFile, request]) {
  const key = bare(readFileSync(keyFile, 'utf8').trim());
  const { order, wrap } = read(request);
  insist(order.source.account === TronWeb.address.fromPrivateKey(key), 'the key is not that of source.account');
  const [chain] = order.source.asset_identifier.split('/trc20:');
  const apiKey = process.env.TRON_PRO_API_KEY;
  const tronWeb = new TronWeb({ fullHost: api, headers: apiKey ? { 'TRON-PRO-API-KEY': apiKey } : {} });
  // The node has to be of the network that the payment is on: its number is the end of the first block's id.
  const first = await tronWeb.trx.getBlock('earliest');
  insist(chain === `tron:${parseInt(first.blockID.slice(-8), 16)}`, 'the node is of another network');

  const defaultsOf = (id) => call(`${gateway}/v1/defaults?chain_id=${id}`);
  const defaults = await defaultsOf(chain);
  const target = await defaultsOf(order.destination[0].asset_identifier.split('/')[0]);
  // The longest of the payment's chains counts.
  defaults.refundDelay = Math.max(defaults.refund_delay_seconds, target.refund_delay_seconds);
  const { asset_identifier: asset, account: payer } = order.source;
  trust(defaults, Number(unixSeconds(order.fulfillment_deadline)) + defaults.refundDelay - Math.floor(Date.now() / 1000));
  // Both have to say that the token is the coin's wrapped form: another token might keep what it is sent.
  const wraps = defaults.assets.some((listed) => listed.asset_identifier === asset && listed.wraps);
  insist(!wrap || wraps, `the gateway does not say that ${asset} wraps coins`);
  const wrapped = wrap ? await wrapCoins(tronWeb, payer, key, asset.split('/trc20:')[1], order.max_source_amount) : [];
  const prepared = await call(`${gateway}/v1/payments/prepare`, order);
  const { payment_id: id, ...auth } = prepared;
  insist(id === paymentId(order.source.account, order.request_id), 'the payment has another id');
  const transactions = await transactionsOf(tronWeb, prepared, order, defaults);
  for (const [index, transaction] of transactions.entries()) {
    const { signature } = await tronWeb.trx.sign(transaction, key);
    transaction.signature = signature;
    auth.signed_messages[index] = { ...auth.signed_messages[index], signature: `0x${bare(signature[0])}` };
  }

  const submitted = await call(`${gateway}/v1/payments`, { ...order, sender_auth: auth });
  let status = submitted;
  while (!['completed', 'failed'].includes(status.status)) {
    await sleep();
    status = await call(`${gateway}/v1/payments/${id}/status`);
  }
  const completed = status.status === 'completed';
  const escrow = defaults.escrow_contract_address;
  // What an earlier run has paid was not paid by these transactions, which nobody broadcasts.
  const own = completed && !submitted.idempotent_replay;
  const chained = own ? await onChain(tronWeb, transactions, order, status, escrow) : {};
  const { request_id } = order;
  console.log(JSON.stringify({ payment_id: id, request_id, wrapped, status: status.status, error: status.error, ...chained }));
  return completed ? 0 : 1;
}

if (process.argv.length !== 6) {
  console.error('usage: node pay.cjs GATEWAY TRON_API KEY_FILE REQUEST_FILE');
  process.exit(2);
}
main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    console.error(error.message);
    process.exit(1);
  },
);
