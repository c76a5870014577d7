// A payer on Solana with nothing of the gateway's but its HTTP API: it wraps coins where they are what it pays with, gives the
// allowance, asks what to sign, rebuilds that itself, signs, submits, and waits for the outcome. See README.md.
'use strict';

const { createHash, createPrivateKey, randomUUID, sign } = require('node:crypto');
const { readFileSync } = require('node:fs');
const web3 = require('@solana/web3.js');
const { keccak_256 } = require('@noble/hashes/sha3');

const TOKEN_PROGRAM = new web3.PublicKey('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA');
const ASSOCIATED_TOKEN_PROGRAM = new web3.PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
// The mint whose tokens are wrapped lamports.
const NATIVE_MINT = new web3.PublicKey('So11111111111111111111111111111111111111112');
// Version of what is signed.
const DOMAIN_VERSION = 1;
const KIND_DEPOSIT = 0;
const POLL_MS = 200;
// The longest that money may be locked, in seconds from now.
const LOCK_SECONDS_MAX = Number(process.env.LOCK_SECONDS_MAX ?? 7200);
// Of an order that says no times: how long quotes are collected, and by when it has to be there.
const QUOTE_SECONDS = 10;
const FULFILLMENT_SECONDS = 180;

const sha256 = (bytes) => createHash('sha256').update(bytes).digest();
const unixSeconds = (text) => Math.floor(Date.parse(text) / 1000);
const hex = (bytes) => `0x${Buffer.from(bytes).toString('hex')}`;

function insist(holds, rule) {
  if (!holds) throw new Error(rule);
}

function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
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
  const parts = ['gw:payment:v1', `solana:${account}`, requestId].flatMap((text) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(Buffer.byteLength(text)));
    return [length, Buffer.from(text)];
  });
  const bits = [...sha256(Buffer.concat(parts))].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  const digits = bits.match(/.{1,5}/g).map((group) => parseInt(group.padEnd(5, '0'), 2));
  return `pay_${digits.map((digit) => 'abcdefghijklmnopqrstuvwxyz234567'[digit]).join('')}`;
}

// What the signature is over, from the request, the gateway's defaults and the windows alone.
function preimage(order, defaults, windows) {
  const key = (text) => new web3.PublicKey(text).toBuffer();
  const { source, destination, fulfillment_amount, max_source_amount } = order;
  const id = paymentId(source.account, order.request_id);
  return Buffer.concat([
    Buffer.from('gw-escrow'),
    Buffer.from([DOMAIN_VERSION]),
    key(defaults.signature_cluster_id),
    key(defaults.escrow_contract_address),
    Buffer.from([KIND_DEPOSIT]),
    Buffer.from(keccak_256(Buffer.from(id))),
    sha256(canonical({ destination, fulfillment_amount, max_source_amount, source })),
    // The quote is not known yet.
    Buffer.alloc(32),
    key(source.account),
    key(source.asset_identifier.split('/token:')[1]),
    u64(max_source_amount),
    key(defaults.reserver),
    key(defaults.releaser),
    u64(windows.reserveDeadline),
    u64(windows.fulfillmentDeadline),
    u64(windows.refundAfter),
  ]);
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

// The payer's own account for tokens of this mint.
function tokenAccount(payer, mint) {
  const seeds = [payer.publicKey.toBuffer(), TOKEN_PROGRAM.toBuffer(), mint.toBuffer()];
  return web3.PublicKey.findProgramAddressSync(seeds, ASSOCIATED_TOKEN_PROGRAM)[0];
}

const meta = (pubkey, isWritable = false, isSigner = false) => ({ pubkey, isSigner, isWritable });

// Lets the program's address for this signer take up to `amount` out of the payer's token account.
function approval(payer, mint, delegate, amount) {
  return new web3.TransactionInstruction({
    programId: TOKEN_PROGRAM,
    keys: [meta(tokenAccount(payer, mint), true), meta(delegate), meta(payer.publicKey, false, true)],
    data: Buffer.concat([Buffer.from([4]), u64(amount)]), // Approve
  });
}

// Wraps lamports, up to `amount` tokens of the native mint: the account where there is none, the lamports, their count. What the
// account costs is known, and comes back with it; a node that says less than is there can have no more than `amount` wrapped.
async function wrapping(connection, payer, amount) {
  const account = tokenAccount(payer, NATIVE_MINT);
  const exists = await connection.getAccountInfo(account);
  const held = exists ? BigInt((await connection.getTokenAccountBalance(account)).value.amount) : 0n;
  insist(held >= 0n, `the node says that ${account.toBase58()} holds ${held}`);
  const missing = BigInt(amount) - held;
  if (missing <= 0n) return [];
  const create = new web3.TransactionInstruction({
    programId: ASSOCIATED_TOKEN_PROGRAM,
    keys: [
      meta(payer.publicKey, true, true),
      meta(account, true),
      meta(payer.publicKey),
      meta(NATIVE_MINT),
      meta(web3.SystemProgram.programId),
      meta(TOKEN_PROGRAM),
    ],
    data: Buffer.from([1]), // CreateIdempotent
  });
  const fill = web3.SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: account, lamports: missing });
  const count = new web3.TransactionInstruction({
    programId: TOKEN_PROGRAM,
    keys: [meta(account, true)],
    data: Buffer.from([17]), // SyncNative
  });
  return [create, fill, count];
}

// Sends the payer's own transaction, and waits until it is confirmed.
async function send(connection, payer, instructions) {
  const latest = await connection.getLatestBlockhash();
  const transaction = new web3.Transaction({ feePayer: payer.publicKey, ...latest }).add(...instructions);
  transaction.sign(payer);
  const signature = await connection.sendRawTransaction(transaction.serialize());
  for (;;) {
    const status = (await connection.getSignatureStatuses([signature])).value[0];
    insist(!status?.err, `the payer's transaction failed: ${JSON.stringify(status?.err)}`);
    if (status && status.confirmationStatus !== 'processed') return signature;
    insist((await connection.getBlockHeight()) <= latest.lastValidBlockHeight, "the payer's transaction was dropped");
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function signDigest(payer, digest) {
  const part = (bytes) => Buffer.from(bytes).toString('base64url');
  const [d, x] = [payer.secretKey.slice(0, 32), payer.secretKey.slice(32)];
  return sign(null, digest, createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d: part(d), x: part(x) }, format: 'jwk' }));
}

async function main([gateway, rpc, keypair, request]) {
  const payer = web3.Keypair.fromSecretKey(Uint8Array.from(JSON.parse(readFileSync(keypair, 'utf8'))));
  const { order, wrap } = read(request);
  insist(order.source.account === payer.publicKey.toBase58(), 'the keypair is not that of source.account');
  const [chain, token] = order.source.asset_identifier.split('/token:');
  const defaultsOf = (id) => call(`${gateway}/v1/defaults?chain_id=${id}`);
  const defaults = await defaultsOf(chain);
  const target = await defaultsOf(order.destination[0].asset_identifier.split('/')[0]);
  // The longest of the payment's chains counts.
  const refundDelay = Math.max(defaults.refund_delay_seconds, target.refund_delay_seconds);
  // The node has to be of the cluster that the signature is for.
  const connection = new web3.Connection(rpc, 'confirmed');
  const cluster = await connection.getGenesisHash();
  insist(cluster === defaults.signature_cluster_id, 'the node is of another cluster');
  insist(chain === `solana:${cluster.slice(0, 32)}`, `the node is not of ${chain}`);
  trust(defaults, unixSeconds(order.fulfillment_deadline) + refundDelay - Math.floor(Date.now() / 1000));

  const program = new web3.PublicKey(defaults.escrow_contract_address);
  const [delegate] = web3.PublicKey.findProgramAddressSync([Buffer.from('delegate'), payer.publicKey.toBuffer()], program);
  const mint = new web3.PublicKey(token);
  insist(!wrap || mint.equals(NATIVE_MINT), `${token} is not wrapped SOL`);
  const wrapped = wrap ? await wrapping(connection, payer, order.max_source_amount) : [];
  // One transaction: coins are wrapped and lent out, or neither.
  const approved = await send(connection, payer, [...wrapped, approval(payer, mint, delegate, order.max_source_amount)]);

  const prepared = await call(`${gateway}/v1/payments/prepare`, order);
  const [message] = prepared.signed_messages;
  const fulfillmentDeadline = unixSeconds(order.fulfillment_deadline);
  const { reserve_deadline: reserveDeadline, refund_after: refundAfter } = message.payload;
  insist(reserveDeadline <= fulfillmentDeadline, 'the deposit would be taken too late');
  insist(refundAfter - fulfillmentDeadline <= refundDelay, 'the refund would come too late');
  const bytes = preimage(order, defaults, { reserveDeadline, fulfillmentDeadline, refundAfter });
  insist(message.message_prehash === hex(bytes), 'the gateway asks for a signature over something else');
  insist(message.message === hex(sha256(bytes)), 'the digest is not that of the bytes');
  insist(message.payload.allowance_delegate === delegate.toBase58(), 'the allowance would have to go elsewhere');

  const { payment_id: id, ...auth } = prepared;
  insist(id === paymentId(order.source.account, order.request_id), 'the payment has another id');
  auth.signed_messages = [{ ...message, signature: hex(signDigest(payer, sha256(bytes))) }];
  let status = await call(`${gateway}/v1/payments`, { ...order, sender_auth: auth });
  while (!['completed', 'failed'].includes(status.status)) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    status = await call(`${gateway}/v1/payments/${id}/status`);
  }
  const { request_id } = order;
  console.log(JSON.stringify({ payment_id: id, request_id, approval: approved, status: status.status, error: status.error }));
  return status.status === 'completed' ? 0 : 1;
}

if (process.argv.length !== 6) {
  console.error('usage: node pay.cjs GATEWAY RPC KEYPAIR_FILE REQUEST_FILE');
  process.exit(2);
}
main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    console.error(error.message);
    process.exit(1);
  },
);
