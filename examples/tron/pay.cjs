// A payer on Tron with the SDK and tronweb: it wraps coins where they are what it pays with, asks what to sign, rebuilds the very
// same typed data or transactions from its own request, signs, submits, waits for the outcome, and reads on the chain what became of
// its money. See README.md.
'use strict';

const { readFileSync } = require('node:fs');
const { TronWeb, utils } = require('tronweb');

const POLL_MS = 200;
const {
  ESCROW,
  RESERVER,
  RELEASER,
  PERMIT2,
  WRAP,
  BY_SIGNATURE,
  ALLOWANCE,
  TRON_PRO_API_KEY,
  FEE_LIMIT_SUN_MAX = 500_000_000,
  LOCK_SECONDS_MAX = 7200,
} = process.env;
// What the payer knows by itself has to be what the gateway says.
const trust = {
  escrow: ESCROW,
  reserver: RESERVER,
  releaser: RELEASER,
  permit2: PERMIT2 || undefined,
  feeMax: BigInt(FEE_LIMIT_SUN_MAX),
  lockSecondsMax: Number(LOCK_SECONDS_MAX),
};

const fields = (text) => text.split(', ').map((field) => ({ type: field.split(' ')[0], name: field.split(' ')[1] }));
const DEPOSIT = fields(
  'bytes32 paymentId, bytes32 termsHash, bytes32 quoteHash, address payer, address reserver, address releaser, ' +
    'uint48 reserveDeadline, uint48 fulfillmentDeadline, uint48 refundAfter',
);
const RESERVATION = fields('bytes32 paymentId, bytes32 quoteHash, address settler, uint256 sourceAmount, uint48 fulfillBy');
const TERMS = [
  { type: 'tuple', name: 'deposit', components: DEPOSIT },
  ...fields('address token, uint256 deposited, bytes32 quoteHash, address settler, uint256 sourceAmount, uint48 fulfillBy'),
];
const INPUTS = [
  { type: 'tuple', name: 'e', components: TERMS },
  { type: 'tuple', name: 'r', components: RESERVATION },
  ...fields('bytes reserverSignature'),
];
// tronweb decodes what a function gives back, so the arguments stand in that place, too.
const RESERVE = { type: 'function', name: 'reserve', inputs: INPUTS, outputs: INPUTS, stateMutability: 'nonpayable' };
const DEPOSITED = `Deposited(bytes32,bytes32,address,(${DEPOSIT.map(({ type }) => type).join()}),address,uint256)`;
const RESERVED = 'Reserved(bytes32,bytes32,address,uint256,uint48)';
/** One signature of the payer's, by which Permit2 moves the money; the gateway sends the deposit. */
const PERMIT2_SCHEME = 'TRON_PERMIT2_ESCROW';

const bare = (hex) => hex.replace(/^0x/, '').toLowerCase();
const address = (hex) => TronWeb.address.fromHex(hex);
const sleep = () => new Promise((resolve) => setTimeout(resolve, POLL_MS));

function insist(holds, rule) {
  if (!holds) throw new Error(rule);
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

// The arguments in `data`, which has to be the gateway's reservation.
function decoded(data) {
  const selector = TronWeb.sha3(utils.abi.buildFunctionSelector(RESERVE)).slice(0, 10);
  insist(data.startsWith(bare(selector)), 'the call is not a reservation');
  return utils.abi.decodeParamsV2ByABI(RESERVE, `0x${data.slice(8)}`);
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

// The words of an event that the escrow wrote of a payment in a transaction.
function event(info, escrow, signature, id) {
  const log = (info.log ?? []).find(
    ({ address: emitter, topics }) =>
      address(`41${emitter}`) === escrow && topics[0] === bare(TronWeb.sha3(signature)) && topics[1] === id,
  );
  insist(log, `there is no ${signature.split('(')[0]} of the payment`);
  return log.data.match(/.{64}/g).map((word) => BigInt(`0x${word}`));
}

// The transactions that the payer signed, as the chain has them.
async function ownOnChain(tronWeb, transactions) {
  const seen = [];
  for (const mine of transactions) {
    const info = await settled(tronWeb, mine.id);
    const held = await tronWeb.trx.getConfirmedTransaction(mine.id);
    insist(bare(held.raw_data_hex) === mine.bytes, 'the chain holds another transaction');
    insist(bare(held.signature[0]) === mine.signature, 'the chain holds another signature');
    seen.push({ id: mine.id, block: info.blockNumber, fee: info.fee ?? 0, energy: info.receipt.energy_usage_total ?? 0 });
  }
  return seen;
}

// The gateway's reservation of a deposit that the payer made, with the price.
async function reservedOnChain(tronWeb, { transaction_hash: hash, block_number: block }, id, escrow) {
  const reservation = await settled(tronWeb, hash);
  insist(reservation.blockNumber === block, 'the reservation is in another block than the gateway says');
  const { value } = (await tronWeb.trx.getConfirmedTransaction(bare(hash))).raw_data.contract[0].parameter;
  insist(address(value.contract_address) === escrow, "the reservation is another contract's");
  const { r } = decoded(bare(value.data));
  insist(bare(r.paymentId) === id, "the reservation is another's");
  return { id: bare(hash), block, source_amount: r.sourceAmount };
}

// The payment on chain: the payer's own transactions, where it signed any, the deposit, and the reservation with the price, which the
// deposit is, too, where the gateway sent it.
async function onChain(tronWeb, auth, cap, status, escrow) {
  const { deposit: own, reservation: reserved } = status.transactions;
  const isOwn = auth.message_scheme !== PERMIT2_SCHEME;
  const transactions = isOwn ? auth.signed_messages.map(transactionOf) : [];
  insist(!isOwn || bare(own.transaction_hash) === transactions.at(-1).id, 'the gateway names another deposit');
  const seen = await ownOnChain(tronWeb, transactions);
  const id = bare(TronWeb.sha3(status.payment_id));
  const deposit = await settled(tronWeb, own.transaction_hash);
  const deposited = event(deposit, escrow, DEPOSITED, id).at(-1);
  insist(isOwn ? deposited === cap : deposited <= cap, `there is no deposit of the cap, but of ${deposited}`);
  insist(own.block_number === deposit.blockNumber, 'the deposit is in another block than the gateway says');
  insist(status.fulfillment_confirmation.source_tx_hash === own.transaction_hash, 'the receipt is of another deposit');
  const reservation = isOwn
    ? await reservedOnChain(tronWeb, reserved, id, escrow)
    : { id: bare(own.transaction_hash), block: deposit.blockNumber, source_amount: event(deposit, escrow, RESERVED, id)[0] };
  insist(reservation.source_amount <= deposited, 'the reservation is of more than was deposited');
  return { transactions: seen, reservation: { ...reservation, source_amount: String(reservation.source_amount) } };
}

// What a payer signed that pays by transactions of its own.
const transactionOf = ({ message, message_prehash: bytes, signature }) => ({
  id: bare(message),
  bytes: bare(bytes),
  signature: bare(signature),
});

async function main([url, api, keyFile, orderFile]) {
  const { Gateway, orderOf } = await import('gateway-client');
  const { tronWallet } = await import('gateway-client/tron');
  const privateKey = bare(readFileSync(keyFile, 'utf8').trim());
  const headers = TRON_PRO_API_KEY ? { 'TRON-PRO-API-KEY': TRON_PRO_API_KEY } : {};
  const tronWeb = new TronWeb({ fullHost: api, headers, privateKey });
  // `wrap` of the file is for this program alone.
  const { wrap = WRAP === '1', ...body } = JSON.parse(readFileSync(orderFile, 'utf8'));
  const order = orderOf(body);
  insist(!ALLOWANCE || BY_SIGNATURE === '1', 'ALLOWANCE is for Permit2: it is given with BY_SIGNATURE=1');
  const gateway = new Gateway(url);
  const options = {
    trust,
    wrap: wrap === true,
    onStep: (step) => onStep(step, order),
    ...(BY_SIGNATURE === '1' ? { messageScheme: PERMIT2_SCHEME } : {}),
    ...(ALLOWANCE ? { allowance: BigInt(ALLOWANCE) } : {}),
  };
  const paid = await gateway.pay(order, tronWallet({ signer: tronWeb }), options);
  const { accepted, sent, paymentId, requestId } = paid;
  const status = await gateway.status(paymentId);
  const completed = status.status === 'completed';
  const auth = paid.body.sender_auth;
  // What an earlier run has paid was not paid by what this one signed, which nobody uses.
  const own = completed && !accepted.idempotent_replay;
  const escrow = ESCROW ?? (await gateway.defaults(order.source.asset.split('/')[0])).escrow_contract_address;
  const chained = own ? await onChain(tronWeb, auth, order.maxSource, status, escrow) : {};
  const sentFor = (wanted) => sent.filter(({ what }) => what === wanted).map(({ transaction }) => transaction);
  console.log(
    JSON.stringify({
      payment_id: paymentId,
      request_id: requestId,
      message_scheme: auth.message_scheme,
      wrapped: sentFor('wrap'),
      approved: sentFor('approve'),
      status: status.status,
      error: status.error,
      ...chained,
    }),
  );
  return completed ? 0 : 1;
}

// What went wrong, with the setting that bounds it.
function inWords(error) {
  if (['escrow', 'reserver', 'releaser'].includes(error.field))
    return `the gateway names another ${error.field.toUpperCase()}, ${error.found}`;
  if (error.field === 'permit2') return `${error.message}: PERMIT2 is ${PERMIT2 || 'not set'}`;
  if (error.field === 'lock') return `${error.message}: LOCK_SECONDS_MAX is ${LOCK_SECONDS_MAX}`;
  if (error.field === 'fee_limit') return `${error.message}: FEE_LIMIT_SUN_MAX is ${FEE_LIMIT_SUN_MAX}`;
  return error.message;
}

if (process.argv.length !== 6) {
  console.error('usage: node pay.cjs GATEWAY TRON_API KEY_FILE ORDER_FILE');
  process.exit(2);
}
main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    console.error(inWords(error));
    process.exit(1);
  },
);
