// Tron as tronweb from npm has it.
//
//   node cases.cjs <node_modules> make <seed> <count>   a list in JSON: keys, addresses, calls, typed data, signatures
//   node cases.cjs <node_modules> read                  says what the transactions of a list on standard input are
//   node cases.cjs <node_modules> sign                  signs the typed data of a list on standard input
//
// It knows the gateway by this alone:
//
//   payment_id  keccak256 of the payment's text
//   terms_hash  SHA-256 of the RFC 8785 form of {destination sorted by asset, fulfillment_amount, max_source_amount, source}
//   contracts   the ABIs below, and the escrow's EIP-712 domain and types
const { createHash } = require('node:crypto');
const { readFileSync } = require('node:fs');
const { createRequire } = require('node:module');

const [modules, mode, seed, count] = process.argv.slice(2);
const { TronWeb, Trx, utils } = createRequire(`${modules}/`)('tronweb');

const CHAIN_ID = 3448148188;
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
const ZERO = '410000000000000000000000000000000000000000';

const fields = (text) => text.split(', ').map((field) => ({ type: field.split(' ')[0], name: field.split(' ')[1] }));
const DEPOSIT = fields(
  'bytes32 paymentId, bytes32 termsHash, bytes32 quoteHash, address payer, address reserver, address releaser, ' +
    'uint48 reserveDeadline, uint48 fulfillmentDeadline, uint48 refundAfter',
);
const RESERVATION = fields('bytes32 paymentId, bytes32 quoteHash, address settler, uint256 sourceAmount, uint48 fulfillBy');
const TYPES = {
  Opening: { Opening: fields('GatewayDeposit deposit, address token, uint256 amount'), GatewayDeposit: DEPOSIT },
  Reservation: { Reservation: RESERVATION },
  Delivery: { Delivery: fields('bytes32 paymentId, bytes32 quoteHash, address settler') },
  NonDelivery: { NonDelivery: fields('bytes32 paymentId, bytes32 quoteHash') },
};
const tuple = (name, components) => ({ type: 'tuple', name, components });
const ESCROW = [
  tuple('deposit', DEPOSIT),
  ...fields('address token, uint256 deposited, bytes32 quoteHash, address settler, uint256 sourceAmount, uint48 fulfillBy'),
];
const ABI = {
  approve: fields('address spender, uint256 amount'),
  depositOwn: [tuple('d', DEPOSIT), ...fields('address token, uint256 amount, bytes reserverSignature')],
  reserve: [tuple('e', ESCROW), tuple('r', RESERVATION), ...fields('bytes reserverSignature')],
  release: [tuple('e', ESCROW), ...fields('bytes attestation')],
  fulfill: fields(
    'bytes32 paymentId, bytes32 quoteHash, address token, address recipient, uint256 amount, uint48 fulfillBy',
  ),
};

const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const utf8Keccak = (text) => TronWeb.sha3(text);

// Everything random comes from the seed, so that a case that failed can be seen again.
let drawn = 0;
const random = () => sha256(`${seed} ${drawn++}`);
const hash = () => `0x${random()}`;
const below = (limit) => BigInt(hash()) % BigInt(limit);
const account = () => {
  const key = random();
  return { key, address: TronWeb.address.fromPrivateKey(key) };
};

const base32 = (hex) => {
  const bits = [...Buffer.from(hex, 'hex')].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return bits.match(/.{1,5}/g).map((group) => BASE32[parseInt(group.padEnd(5, '0'), 2)]).join('');
};

// The members of a payment's terms are texts, arrays and objects, for which this is RFC 8785.
const canonical = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${members.join(',')}}`;
};

const tronWeb = new TronWeb({ fullHost: 'http://127.0.0.1:1' });

async function call(owner, contract, name, values, { number, id, timestamp, expiration, feeLimit, callValue = 0 }) {
  const funcABIV2 = { type: 'function', name, inputs: ABI[name], outputs: [], stateMutability: 'payable' };
  const selector = utils.abi.buildFunctionSelector(funcABIV2);
  const blockHeader = { ref_block_bytes: number, ref_block_hash: id.slice(16, 32), timestamp, expiration };
  const options = { txLocal: true, blockHeader, feeLimit, callValue, funcABIV2, parametersV2: values };
  const { transaction } = await tronWeb.transactionBuilder.triggerSmartContract(contract, selector, options, [], owner.address);
  const signed = await tronWeb.trx.sign(transaction, owner.key);
  const message = utils.transaction.txJsonToPb(signed);
  message.addSignature(Uint8Array.from(Buffer.from(signed.signature[0], 'hex')));
  return {
    function: name,
    owner: owner.address,
    contract,
    call_value: callValue,
    fee_limit: feeLimit,
    ref_block_bytes: number,
    ref_block_hash: id.slice(16, 32),
    timestamp,
    expiration,
    data: transaction.raw_data.contract[0].parameter.value.data,
    id: signed.txID,
    raw_data: signed.raw_data_hex,
    signature: signed.signature[0],
    signed: Buffer.from(message.serializeBinary()).toString('hex'),
  };
}

function typed(escrow, type, value, key) {
  const domain = { name: 'GatewayEscrow', version: '1', chainId: CHAIN_ID, verifyingContract: escrow };
  return {
    type,
    digest: utils.typedData.TypedDataEncoder.hash(domain, TYPES[type], value),
    signature: Trx.signTypedData(domain, TYPES[type], value, key),
  };
}

// One payment: what its payer signs, what the gateway and the releaser sign, and what a settler does.
async function one(index) {
  const [payer, reserver, releaser, settler, recipient, token, proxy, escrow] = Array.from({ length: 8 }, account);
  const chain = `tron:${CHAIN_ID}`;
  const paymentId = `pay_${base32(random())}`;
  const cap = 1n + (index % 7 === 0 ? below(2n ** 256n - 1n) : below(2n ** 64n));
  const terms = {
    destination: [{ account: recipient.address, asset_identifier: `${chain}/slip44:195` }],
    fulfillment_amount: String(1n + below(10n ** 12n)),
    max_source_amount: String(cap),
    source: { account: payer.address, asset_identifier: `${chain}/trc20:${token.address}` },
  };
  const fulfillmentDeadline = 1_800_000_600n;
  const made = 1_800_000_000_000 - Number(below(60_000));
  const deposit = {
    paymentId: utf8Keccak(paymentId),
    termsHash: `0x${sha256(canonical(terms))}`,
    quoteHash: index % 2 === 0 ? `0x${'0'.repeat(64)}` : hash(),
    payer: payer.address,
    reserver: reserver.address,
    releaser: releaser.address,
    reserveDeadline: String(fulfillmentDeadline - 60n - below(400)),
    fulfillmentDeadline: String(fulfillmentDeadline),
    refundAfter: String(fulfillmentDeadline + 900n),
  };
  const opening = typed(escrow.address, 'Opening', { deposit, token: token.address, amount: String(cap) }, reserver.key);
  const { paymentId: id } = deposit;
  const award = {
    paymentId: id,
    quoteHash: index % 2 === 0 ? hash() : deposit.quoteHash,
    settler: settler.address,
    sourceAmount: String(1n + below(cap)),
    fulfillBy: String(fulfillmentDeadline - below(60)),
  };
  const { quoteHash } = award;
  const reservation = typed(escrow.address, 'Reservation', award, reserver.key);
  const delivery = typed(escrow.address, 'Delivery', { paymentId: id, quoteHash, settler: settler.address }, releaser.key);
  const nonDelivery = typed(escrow.address, 'NonDelivery', { paymentId: id, quoteHash }, releaser.key);

  const tuple = (fields, value) => fields.map(({ name }) => value[name]);
  const agreed = [tuple(DEPOSIT, deposit), token.address, String(cap)];
  const deposited = [...agreed, deposit.quoteHash, ZERO, '0', '0'];
  const reserved = [...agreed, quoteHash, settler.address, award.sourceAmount, award.fulfillBy];
  const header = () => ({
    number: random().slice(0, 4),
    id: random(),
    timestamp: made,
    expiration: Number(deposit.reserveDeadline) * 1000,
    feeLimit: 1 + Number(below(15_000_000_000)),
  });
  const coins = Number(terms.fulfillment_amount);
  return {
    chain_id: chain,
    accounts: Object.fromEntries(
      Object.entries({ payer, reserver, releaser, settler, recipient, token, proxy, escrow }).map(([role, { key, address }]) => [
        role,
        { key, base58: address, hex: TronWeb.address.toHex(address) },
      ]),
    ),
    payment_id: paymentId,
    terms,
    deposit,
    cap: String(cap),
    award,
    typed_data: [opening, reservation, delivery, nonDelivery],
    calls: [
      await call(payer, token.address, 'approve', [escrow.address, String(cap)], header()),
      await call(
        payer, escrow.address, 'depositOwn', [tuple(DEPOSIT, deposit), token.address, String(cap), opening.signature], header(),
      ),
      await call(
        settler, escrow.address, 'reserve', [deposited, tuple(RESERVATION, award), reservation.signature], header(),
      ),
      await call(settler, escrow.address, 'release', [reserved, delivery.signature], header()),
      await call(
        settler, proxy.address, 'fulfill', [id, quoteHash, ZERO, recipient.address, String(coins), award.fulfillBy],
        { ...header(), callValue: coins },
      ),
    ],
  };
}

// A transaction that somebody else made, by tronweb's reader alone.
function read({ raw_data: bytes, signature }) {
  const rawData = utils.deserializeTx.deserializeTransaction('TriggerSmartContract', bytes);
  const { value } = rawData.contract[0].parameter;
  const bare = { visible: false, raw_data: rawData, raw_data_hex: bytes };
  const message = utils.transaction.txJsonToPb(bare);
  const transaction = { ...bare, txID: utils.transaction.txPbToTxID(message).replace(/^0x/, ''), signature: [signature] };
  return {
    checked: utils.transaction.txCheck(transaction),
    id: transaction.txID,
    raw_data: utils.transaction.txPbToRawDataHex(message).toLowerCase(),
    signer: Trx.ecRecover(transaction),
    owner: TronWeb.address.fromHex(value.owner_address),
    contract: TronWeb.address.fromHex(value.contract_address),
    data: value.data.toLowerCase(),
    call_value: value.call_value,
    fee_limit: rawData.fee_limit,
    ref_block_bytes: rawData.ref_block_bytes.toLowerCase(),
    ref_block_hash: rawData.ref_block_hash.toLowerCase(),
    timestamp: rawData.timestamp,
    expiration: rawData.expiration,
  };
}

// Typed data that somebody else made, signed as a wallet does, which is given the types without the domain's.
function sign({ typed_data: { domain, types, message }, key }) {
  const { EIP712Domain: _, ...own } = types;
  return {
    digest: utils.typedData.TypedDataEncoder.hash(domain, own, message),
    signature: Trx.signTypedData(domain, own, message, key),
  };
}

async function main() {
  if (mode === 'sign') return JSON.parse(readFileSync(0, 'utf8')).map(sign);
  if (mode === 'read') return JSON.parse(readFileSync(0, 'utf8')).map(read);
  const cases = [];
  for (let index = 0; index < Number(count); index++) cases.push(await one(index));
  return cases;
}

main().then(
  (said) => process.stdout.write(`${JSON.stringify(said, null, 1)}\n`),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
