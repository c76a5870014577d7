// A payer on Solana with the SDK: it wraps coins where they are what it pays with, gives the allowance, asks what to sign, rebuilds
// that itself, signs, submits, and waits for the outcome. See README.md.
'use strict';

const { readFileSync } = require('node:fs');

const { ESCROW, RESERVER, RELEASER, WRAP, LOCK_SECONDS_MAX = 7200 } = process.env;
// What the payer knows by itself has to be what the gateway says.
const trust = { escrow: ESCROW, reserver: RESERVER, releaser: RELEASER, lockSecondsMax: Number(LOCK_SECONDS_MAX) };

function onStep({ step, requestId, believed, verifiers }, order) {
  if (step !== 'ordered') return;
  if (!order.requestId) console.error(`request_id is ${requestId}: put it into the order to try the same payment again`);
  const words = believed.map((account) => account.replace(/^\w+/, (name) => name.toUpperCase()));
  if (words.length) console.error(`nothing but the gateway's word is behind ${words.join(' ')}: see README.md`);
  // The SDK has compared them with the releaser that is signed for.
  const { threshold, members = [] } = verifiers ?? {};
  const named = members.map(({ account, endpoint }) => `${account} at ${endpoint}`);
  if (named.length > 1) console.error(`${threshold} of ${named.length} verifiers have to attest: ${named.join(', ')}`);
}

async function main([url, rpc, keypair, orderFile]) {
  const { Gateway, orderOf } = await import('gateway-client');
  const { solanaKeypair, solanaWallet } = await import('gateway-client/solana');
  const signer = await solanaKeypair(JSON.parse(readFileSync(keypair, 'utf8')));
  // `wrap` of the file is for this program alone.
  const { wrap = WRAP === '1', ...body } = JSON.parse(readFileSync(orderFile, 'utf8'));
  const order = orderOf(body);
  const options = { trust, wrap: wrap === true, onStep: (step) => onStep(step, order) };
  const { paymentId, requestId, sent, status } = await new Gateway(url).pay(order, solanaWallet({ signer, rpc }), options);
  const approval = sent.find(({ what }) => what === 'approve')?.transaction;
  console.log(
    JSON.stringify({ payment_id: paymentId, request_id: requestId, approval, status: status.status, error: status.error }),
  );
  return status.status === 'completed' ? 0 : 1;
}

// What went wrong, with the setting that bounds it.
function inWords(error) {
  if (['escrow', 'reserver', 'releaser'].includes(error.field))
    return `the gateway names another ${error.field.toUpperCase()}, ${error.found}`;
  if (error.field === 'lock') return `${error.message}: LOCK_SECONDS_MAX is ${LOCK_SECONDS_MAX}`;
  return error.message;
}

if (process.argv.length !== 6) {
  console.error('usage: node pay.cjs GATEWAY RPC KEYPAIR_FILE ORDER_FILE');
  process.exit(2);
}
main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    console.error(inWords(error));
    process.exit(1);
  },
);
