// A payer on an EVM chain with the SDK and viem: it asks what to sign, gives Permit2 the allowance where the token takes no signature in
// its place, rebuilds what is to be signed itself, signs, submits, and waits for the outcome. See README.md.
import { readFileSync } from 'node:fs';
import { Gateway, VerificationError, WalletError, orderOf } from 'gateway-client';
import { evmWallet } from 'gateway-client/evm';
import { privateKeyToAccount } from 'viem/accounts';

const { ESCROW, RESERVER, RELEASER, PERMIT2, WRAP, FEE_WEI_MAX = 10n ** 16n, LOCK_SECONDS_MAX = 7200 } = process.env;
// What the payer knows by itself has to be what the gateway says.
const trust = {
  escrow: ESCROW,
  reserver: RESERVER,
  releaser: RELEASER,
  permit2: PERMIT2,
  feeMax: BigInt(FEE_WEI_MAX),
  lockSecondsMax: Number(LOCK_SECONDS_MAX),
};

// `wrap` of the file is for this program alone.
function read(file) {
  const { wrap = WRAP === '1', ...body } = JSON.parse(readFileSync(file, 'utf8'));
  return { order: orderOf(body), wrap: wrap === true };
}

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

async function main([url, rpc, keyFile, orderFile]) {
  const account = privateKeyToAccount(`0x${readFileSync(keyFile, 'utf8').trim().replace(/^0x/, '')}`);
  const { order, wrap } = read(orderFile);
  const wallet = await evmWallet({ account, rpc });
  const told = (step) => onStep(step, order);
  const { paymentId, requestId, sent, status } = await new Gateway(url).pay(order, wallet, { trust, wrap, onStep: told });
  const sentFor = (step) => sent.filter(({ what }) => what === step).map(({ transaction }) => transaction);
  const [wrapped, approvals] = [sentFor('wrap'), sentFor('approve')];
  console.log(
    JSON.stringify({
      payment_id: paymentId,
      request_id: requestId,
      wrapped,
      approvals,
      status: status.status,
      error: status.error,
    }),
  );
  return status.status === 'completed' ? 0 : 1;
}

// What went wrong, with the setting that bounds it.
function inWords(error) {
  if (error instanceof VerificationError && ['escrow', 'reserver', 'releaser'].includes(error.field)) {
    return `the gateway names another ${error.field.toUpperCase()}, ${error.found}`;
  }
  if (error instanceof VerificationError && error.field === 'lock')
    return `${error.message}: LOCK_SECONDS_MAX is ${LOCK_SECONDS_MAX}`;
  if (error instanceof WalletError && error.reason === 'fee') return `${error.message}: FEE_WEI_MAX is ${FEE_WEI_MAX}`;
  return error.message;
}

if (process.argv.length !== 6) {
  console.error('usage: node pay.mjs GATEWAY RPC KEY_FILE ORDER_FILE');
  process.exit(2);
}
main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    console.error(inWords(error));
    process.exit(1);
  },
);
