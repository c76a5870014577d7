// Transactions that tronweb builds and signs by itself, for a seed.
//
//   node vectors.mjs <node_modules> <seed> <count>
//
// Writes a list in JSON: keys, addresses, ids, bytes and signatures.
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';

const [modules, seed, count] = process.argv.slice(2);
const { TronWeb, utils } = createRequire(`${modules}/`)('tronweb');

let drawn = 0;
const bytes = (length) => {
  let out = Buffer.alloc(0);
  while (out.length < length) {
    out = Buffer.concat([out, createHash('sha256').update(`${seed} ${drawn++}`).digest()]);
  }
  return out.subarray(0, length);
};
const hex = (length) => bytes(length).toString('hex');
const below = (limit) => Number(bytes(6).readUIntBE(0, 6) % limit);

const tronWeb = new TronWeb({ fullHost: 'http://127.0.0.1:1' });
const builder = tronWeb.transactionBuilder;

const abi = [
  { type: 'constructor', stateMutability: 'nonpayable', inputs: [{ name: 'start', type: 'uint256' }] },
  { type: 'event', name: 'Set', anonymous: false, inputs: [{ indexed: true, name: 'by', type: 'address' }] },
  {
    type: 'function',
    name: 'get',
    stateMutability: 'view',
    inputs: [],
    outputs: [{ name: '', type: 'uint256' }],
  },
  { type: 'receive', stateMutability: 'payable' },
];

async function build(kind, owner) {
  const blockHeader = {
    ref_block_bytes: hex(2),
    ref_block_hash: hex(8),
    expiration: 1_700_000_000_000 + below(100_000_000_000),
    timestamp: 1_700_000_000_000 + below(100_000_000_000),
  };
  const other = TronWeb.address.fromPrivateKey(hex(32));
  if (kind === 'transfer') {
    return builder.sendTrx(other, 1 + below(2 ** 47), owner, { blockHeader });
  }
  if (kind === 'trigger') {
    const options = { blockHeader, txLocal: true, feeLimit: 1 + below(15_000_000_000), callValue: below(1_000_000) };
    const parameters = [
      { type: 'address', value: TronWeb.address.fromPrivateKey(hex(32)) },
      { type: 'uint256', value: BigInt(`0x${hex(32)}`).toString() },
    ];
    const { transaction } = await builder.triggerSmartContract(
      other, 'transfer(address,uint256)', options, parameters, owner);
    return transaction;
  }
  const options = {
    blockHeader,
    abi,
    bytecode: hex(1 + below(300)),
    parameters: [below(1_000_000)],
    name: `c${below(1_000_000)}`,
    feeLimit: 1 + below(15_000_000_000),
    userFeePercentage: below(101),
    originEnergyLimit: 1 + below(10_000_000),
  };
  return builder.createSmartContract(options, owner);
}

const cases = [];
for (let number = 0; number < Number(count); number++) {
  const key = hex(32);
  const owner = TronWeb.address.fromPrivateKey(key);
  const kind = ['transfer', 'trigger', 'create'][number % 3];
  let transaction = await build(kind, owner);
  const memo = number % 5 === 0 ? `memo ${number}` : '';
  if (memo) {
    transaction = await builder.addUpdateData(transaction, memo, 'utf8', { txLocal: true });
  }
  const signed = await tronWeb.trx.sign(transaction, key);
  const message = utils.transaction.txJsonToPb(signed);
  message.addSignature(Uint8Array.from(Buffer.from(signed.signature[0], 'hex')));
  cases.push({
    kind,
    key,
    base58: owner,
    hex: TronWeb.address.toHex(owner),
    id: signed.txID,
    id_of_message: utils.transaction.txPbToTxID(message).replace(/^0x/, ''),
    raw_data_hex: signed.raw_data_hex,
    signature: signed.signature[0],
    message: Buffer.from(message.serializeBinary()).toString('hex'),
    memo,
    contract_address: kind === 'create' && !memo ? signed.contract_address : null,
    transaction: { visible: false, raw_data: signed.raw_data },
  });
}
process.stdout.write(`${JSON.stringify(cases, null, 1)}\n`);
