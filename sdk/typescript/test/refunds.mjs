// Refunds without a gateway, on a running network of gw-dev: the payer deposits for a settler that never delivers, everything that
// belongs to the gateway is stopped, and the payer takes its money back through the nodes alone.
//
//     npm run test:refunds -- [DIRECTORY]
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { newRequestId, refund, splitAsset, WalletError } from 'gateway-client';
import { namespaceOf, network, scenarios } from './devnet.mjs';

const PARTS = ['gateway-1', 'verifier', 'verifier-2', 'verifier-3', 'settler-1', 'settler-2', 'settler-3'];
const PATIENCE_MS = 180_000;
const net = await network(process.argv[2]);
const scenario = scenarios.scenarios.find(({ name }) => name === 'settler-that-never-delivers');
const families = ['eip155', 'solana', 'tron'].filter(net.has);
const sources = {
  eip155: scenario.source,
  solana: { ...scenario.source, chain: 'solana' },
  tron: { ...scenario.source, chain: 'tron' },
};

/** Resolves once the money is in the escrow. */
async function deposit(namespace) {
  const wallet = await net.wallet(namespace);
  const after = (seconds) => new Date(Date.now() + seconds * 1000);
  const order = {
    requestId: newRequestId(),
    source: { asset: net.asset(sources[namespace]), account: wallet.account },
    destination: scenario.destination.map((one) => ({
      asset: net.asset(one),
      account: scenarios.recipients[namespaceOf(one.chain)],
    })),
    amount: BigInt(scenario.amount),
    maxSource: BigInt(scenario.cap),
    quoteDeadline: after(10),
    fulfillmentDeadline: after(30),
    extra: scenario.members,
  };
  const { paymentId } = await net.gateway.pay(order, wallet, { trust: net.trust(namespace), until: 'accepted' });
  for await (const { event } of net.gateway.watch(paymentId, { signal: AbortSignal.timeout(PATIENCE_MS) })) {
    if (event === 'EscrowSecured') break;
  }
  return { wallet, payment: { paymentId, chainId: splitAsset(order.source.asset).chainId, escrow: net.trust(namespace).escrow } };
}

/** The refund, as soon as the escrow gives it. */
async function takeBack({ wallet, payment }) {
  const end = Date.now() + PATIENCE_MS;
  const early = await refund(wallet, payment).then(
    () => 'refunded',
    (error) => error,
  );
  assert.ok(early instanceof WalletError && /can be refunded from/.test(early.message), `${payment.paymentId}: ${early}`);
  for (;;) {
    try {
      return await refund(wallet, payment);
    } catch (error) {
      if (!(error instanceof WalletError) || Date.now() > end) throw error;
      await pause(1000);
    }
  }
}

const escrowed = await Promise.all(families.map(deposit));
const stopped = net.processes(...PARTS);
try {
  for (const id of stopped) process.kill(id, 'SIGSTOP');
  const transactions = await Promise.all(escrowed.map(takeBack));
  for (const [index, { payment }] of escrowed.entries()) {
    await assert.rejects(refund(escrowed[index].wallet, payment), WalletError, 'once');
    console.log(`ok        ${families[index]}  ${payment.paymentId}  ${transactions[index]}`);
  }
} finally {
  for (const id of stopped) process.kill(id, 'SIGCONT');
}
// The gateway finds what happened meanwhile.
for (const { payment } of escrowed) {
  const status = await net.gateway.wait(payment.paymentId, { until: 'rest', timeoutMs: PATIENCE_MS });
  assert.equal(status.status, 'failed');
  const { entries } = await net.gateway.timeline(payment.paymentId);
  assert.ok(
    entries.some(({ event }) => event === 'EscrowRefunded'),
    JSON.stringify(entries.map(({ event }) => event)),
  );
}
