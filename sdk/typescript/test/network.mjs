// Makes the payments of ../../scenarios.json on a running network of gw-dev, as ../../README.md says.
//
//     npm run test:network -- [DIRECTORY [NAME…]]
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { cancelMandate, GatewayError, newRequestId, splitAsset } from 'gateway-client';
import { namespaceOf, network, scenarios } from './devnet.mjs';
import { exchangeOf } from './exchange.mjs';

const [directory, ...names] = process.argv.slice(2);
const net = await network(directory);
const { gateway } = net;
const FULFILLMENT_SECONDS = { eip155: 180, solana: 180, tron: 240 };
/** How long what is over may take to come back, which on Solana is a transaction of its own behind the release. */
const BACK_MS = 60_000;
const requestIds = {};
/** The scheme by which a scenario's payer sends no transaction of its own. */
const BY_SIGNATURE = { 'evm-by-signature': 'EVM_EIP3009', 'tron-by-signature': 'TRON_PERMIT2_ESCROW' };

const after = (seconds) => new Date(Date.now() + seconds * 1000);

/** What became of a scenario, in the words of `expected`. */
async function run(scenario) {
  const namespace = namespaceOf(scenario.source.chain);
  const requestId = scenario.request_id_of ? requestIds[scenario.request_id_of] : newRequestId();
  requestIds[scenario.name] = requestId;
  const exchange = scenario.way === 'address' ? exchangeOf(namespace, net) : undefined;
  const asset = net.asset(scenario.source);
  const wallet = exchange ? { account: await exchange.newAccount(splitAsset(asset).token) } : await net.wallet(namespace);
  const { message_scheme: messageScheme, ...extra } = scenario.members ?? {};
  const order = {
    requestId,
    source: { asset, account: wallet.account },
    destination: scenario.destination.map((one) => ({
      asset: net.asset(one),
      account: one.account ?? scenarios.recipients[namespaceOf(one.chain)],
    })),
    amount: BigInt(scenario.amount),
    maxSource: BigInt(scenario.cap),
    quoteDeadline: after(scenario.quote_seconds ?? 10),
    fulfillmentDeadline: after(scenario.fulfillment_seconds ?? FULFILLMENT_SECONDS[namespace]),
    extra,
  };
  try {
    const options = { trust: net.trust(namespace), messageScheme };
    if (scenario.way === 'batch') return await payBatch(order, wallet, options);
    if (scenario.way === 'mandate') return await payByMandate(order, wallet, options);
    const paying = exchange ? payByAddress(exchange, order, options) : pay(scenario, order, wallet, options);
    const { status, accepted, body, sent } = await paying;
    await check(status);
    const scheme = BY_SIGNATURE[scenario.name];
    if (scheme) assert.deepEqual([sent, body.sender_auth.message_scheme], [[], scheme]);
    if (exchange) {
      await cameBack(exchange, accepted.deposit_address, status);
      return { status: status.status, code: status.error?.code, id: status.payment_id };
    }
    assert.equal((await gateway.resolve({ requestId, account: wallet.account })).payment_id, status.payment_id);
    // The same again would be a replay.
    if (scenario.way !== 'quotes') assert.equal((await gateway.verify(body)).status, status.status);
    return {
      status: status.status,
      code: status.error?.code,
      idempotent_replay: accepted.idempotent_replay,
      id: status.payment_id,
    };
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return { refused: error.code };
  }
}

/** The payer's own account is the exchange, which sends the money by an ordinary transfer. */
async function payByAddress(exchange, order, options) {
  const opened = await exchange.openAddress(gateway, order, options);
  assert.deepEqual(opened.believed, []);
  const { token, address, amount } = opened.address;
  await exchange.send(token, address, amount);
  return { status: await gateway.wait(opened.paymentId), accepted: opened.accepted };
}

/** What the settler did not get is back at the refund account, and nothing left at the address. */
async function cameBack(exchange, { terms, address, refund_account: refundAccount, amount }, { fulfillment_quote: quote }) {
  const over = BigInt(amount) - BigInt(quote.sourceAmount);
  assert.ok(over > 0n);
  const isBack = async () => (await exchange.held(terms.token, refundAccount)) > 0n;
  for (const end = Date.now() + BACK_MS; !(await isBack()) && Date.now() < end; ) await pause(500);
  assert.deepEqual([await exchange.held(terms.token, refundAccount), await exchange.held(terms.token, address)], [over, 0n]);
}

/** Three times the same, for one signature. */
async function payBatch(order, wallet, { trust }) {
  const orders = [order, ...[1, 2].map(() => ({ ...order, requestId: newRequestId() }))];
  const { payments, body } = await gateway.payBatch(orders, wallet, { trust });
  assert.deepEqual([payments.length, body.sender_auth.message_scheme], [orders.length, 'EVM_PERMIT2_BATCH']);
  const ids = payments.map(({ paymentId, error }) => {
    assert.equal(error, undefined);
    return paymentId;
  });
  const ends = await Promise.all(ids.map((id) => gateway.wait(id)));
  await Promise.all(ends.map(check));
  const unlike = ends.find(({ status }) => status !== 'completed') ?? ends[0];
  return { status: unlike.status, code: unlike.error?.code, id: unlike.payment_id };
}

/** A merchant asks under a mandate of two such payments a day, and for one more once its payer has ended it. */
async function payByMandate(order, wallet, { trust }) {
  const merchant = await net.merchant();
  const { source, destination, amount, maxSource } = order;
  const mandate = { source, destination, merchant: merchant.account, amount: 2n * maxSource, least: 2n * amount, periodSeconds: 86_400, periods: 3 };
  const { payload, spend } = await gateway.signMandate(mandate, wallet, { trust });
  const { status, accepted, body } = await gateway.charge(order, payload, merchant, { trust });
  await check(status);
  assert.equal(body.sender_auth.message_scheme, 'EVM_PERMIT2_MANDATE');
  await cancelMandate(wallet, spend);
  const another = { ...order, requestId: newRequestId(), quoteDeadline: after(10), fulfillmentDeadline: after(FULFILLMENT_SECONDS.eip155) };
  await assert.rejects(gateway.charge(another, payload, merchant, { trust }), (error) => error.code === 'NONCE_ALREADY_USED');
  return { status: status.status, code: status.error?.code, idempotent_replay: accepted.idempotent_replay, id: status.payment_id };
}

async function pay(scenario, order, wallet, options) {
  if (scenario.way !== 'quotes') return gateway.pay(order, wallet, options);
  const batch = await gateway.quote({ ...order, requestId: newRequestId() });
  return gateway.payQuote(batch, batch.quotes[0].quote_id, wallet, { ...options, requestId: order.requestId });
}

/** Watching a payment shows what its timeline shows, in order, and ends by itself. */
async function check({ payment_id: id }) {
  const watched = [];
  for await (const { id: entry } of gateway.watch(id, { signal: AbortSignal.timeout(120_000) })) watched.push(entry);
  const { entries, at_rest: isAtRest } = await gateway.timeline(id);
  assert.deepEqual([watched, isAtRest], [entries.map(({ id: entry }) => entry), true]);
}

let failures = 0;
for (const scenario of scenarios.scenarios) {
  if (names.length && !names.includes(scenario.name)) continue;
  if (![scenario.source, ...scenario.destination].every(({ chain }) => net.has(namespaceOf(chain)))) {
    console.log(`left out  ${scenario.name}: the network has no such chain`);
    continue;
  }
  const began = Date.now();
  const seen = await run(scenario);
  const found = Object.fromEntries(Object.keys(scenario.expected).map((name) => [name, seen[name]]));
  try {
    assert.deepEqual(found, scenario.expected);
    console.log(`ok        ${scenario.name}  ${((Date.now() - began) / 1000).toFixed(1)} s  ${JSON.stringify(found)}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED    ${scenario.name}: ${JSON.stringify(seen)}\n${error.message}`);
  }
}
process.exitCode = failures ? 1 : 0;
