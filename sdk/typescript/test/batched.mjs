// What an honest gateway gives for a batch of payments, and who pays it. viem computes leaves, tree and typed data from the contract's
// artefact: the SDK has no part in it, but for ids and the hash of terms, which have tests of their own.
import assert from 'node:assert/strict';
import { concat, decodeFunctionData, encodeAbiParameters, erc20Abi, hashTypedData, keccak256, parseTransaction, stringToHex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { paymentId, termsHash, termsOf } from 'gateway-client';
import { evmWallet, PAYMENT_BATCHES } from 'gateway-client/evm';
import { prepared as fixtures, repository } from './support.mjs';

export const account = privateKeyToAccount(`0x${'7'.repeat(64)}`);
export const PAYER = account.address.toLowerCase();
export const DEFAULTS = fixtures().evm.defaults;
export const TOKEN = fixtures().evm.request.source.asset_identifier;
/** The other token of the source's chain, which wraps its coin. */
export const WRAPPED = DEFAULTS.source.assets.find(({ wraps }) => wraps).asset_identifier;
export const { abi: ABI, bytecode: BYTECODE } = repository('contracts/artifacts/PaymentBatches.json');
export const LEAF = ABI.find(({ name }) => name === 'leafOf').inputs;

/** So many orders, of which every third is in the other token. */
export const ordersOf = (count, more = () => ({})) =>
  Array.from({ length: count }, (_, at) => {
    const [{ asset_identifier: asset, account: recipient }] = fixtures().evm.request.destination;
    return {
      requestId: `order-${at}`,
      source: { asset: at % 3 === 1 ? WRAPPED : TOKEN },
      destination: { asset, account: recipient },
      amount: 25_000_000n + BigInt(at),
      maxSource: 25_500_000n + BigInt(at),
      ...more(at),
    };
  });

export const leafOf = (terms) => keccak256(keccak256(encodeAbiParameters(LEAF, [terms])));

/** The root by halves: the left one is the greatest power of two that leaves something for the right one. */
export function rootOf(leaves) {
  if (leaves.length === 1) return leaves[0];
  let half = 1;
  while (half * 2 < leaves.length) half *= 2;
  return keccak256(concat([rootOf(leaves.slice(0, half)), rootOf(leaves.slice(half))].sort()));
}

/** The typed data of a batch. */
export const typedDataOf = ({ permitted, escrow, payments, deadline }, { spender = PAYMENT_BATCHES, chainId = 31337, permit2 = DEFAULTS.source.permit2 } = {}) => ({
  types: {
    EIP712Domain: [
      { name: 'name', type: 'string' },
      { name: 'chainId', type: 'uint256' },
      { name: 'verifyingContract', type: 'address' },
    ],
    PermitBatchWitnessTransferFrom: [
      { name: 'permitted', type: 'TokenPermissions[]' },
      { name: 'spender', type: 'address' },
      { name: 'nonce', type: 'uint256' },
      { name: 'deadline', type: 'uint256' },
      { name: 'witness', type: 'PaymentBatch' },
    ],
    PaymentBatch: [
      { name: 'escrow', type: 'address' },
      { name: 'payments', type: 'bytes32' },
    ],
    TokenPermissions: [
      { name: 'token', type: 'address' },
      { name: 'amount', type: 'uint256' },
    ],
  },
  primaryType: 'PermitBatchWitnessTransferFrom',
  domain: { name: 'Permit2', chainId, verifyingContract: permit2 },
  message: { permitted, spender, nonce: BigInt(payments).toString(), deadline: String(deadline), witness: { escrow, payments } },
});

/** The payments of a body, each with what stands beside them. */
export const membersOf = ({ payments, reserve_deadline: _, sender_auth: __, ...shared }) => payments.map((own) => ({ ...shared, ...own }));
export const idOf = ({ request_id: requestId }) => paymentId(`eip155:${PAYER}`, requestId);

/** The answer to a body; `edit` changes the typed data before it is hashed. */
export function preparedFor(body, edit = () => {}, more = {}) {
  const { source, refundDelaySeconds } = DEFAULTS;
  const seconds = (text) => Math.floor(Date.parse(text) / 1000);
  const requests = membersOf(body);
  const deadline = body.reserve_deadline ?? Math.min(...requests.map(({ fulfillment_deadline: text }) => seconds(text)));
  const sums = new Map();
  const leaves = requests.map((request) => {
    const token = request.source.asset_identifier.split(':').at(-1);
    const amount = BigInt(request.max_source_amount);
    sums.set(token, (sums.get(token) ?? 0n) + amount);
    const deposit = {
      paymentId: keccak256(stringToHex(idOf(request))),
      termsHash: termsHash(termsOf(request)),
      quoteHash: `0x${'0'.repeat(64)}`,
      payer: request.source.account,
      reserver: source.reserver,
      releaser: source.releaser,
      reserveDeadline: deadline,
      fulfillmentDeadline: seconds(request.fulfillment_deadline),
      refundAfter: seconds(request.fulfillment_deadline) + refundDelaySeconds,
    };
    return leafOf({ escrow: source.escrow_contract_address, token, amount, deposit });
  });
  const tokens = [...sums].sort(([one], [other]) => (BigInt(one) < BigInt(other) ? -1 : 1));
  const permitted = tokens.map(([token, amount]) => ({ token, amount: amount.toString() }));
  const data = typedDataOf({ permitted, escrow: source.escrow_contract_address, payments: rootOf(leaves), deadline });
  edit(data);
  return {
    message_scheme: 'EVM_PERMIT2_BATCH',
    signed_messages: [{ message: hashTypedData(data), message_prehash: JSON.stringify(data), payload: {} }],
    reserve_deadline: deadline,
    payments: requests.map((request) => ({ payment_id: idOf(request) })),
    ...more,
  };
}

/** Each payment of a body, accepted. */
export const acceptedFor = (body, more = () => ({})) => ({
  payments: membersOf(body).map((request, at) => {
    const payment_id = idOf(request);
    const changed = more(at);
    return changed.error ? { payment_id, ...changed } : { payment_id, payment: { payment_id, status: 'pending', idempotent_replay: false, ...changed } };
  }),
});

/** A payer's wallet over a node with these balances and allowances of each token; `calls` has what was sent. */
export async function payerOf({ balance = 10n ** 12n, allowance = 10n ** 12n } = {}) {
  const calls = [];
  const allowances = new Map();
  const balances = new Map();
  const held = (map, token, usual) => map.get(token) ?? usual;
  const word = (value) => `0x${value.toString(16).padStart(64, '0')}`;
  const methods = {
    eth_chainId: () => '0x7a69',
    eth_call: ([{ to, data }]) => {
      const { functionName } = decodeFunctionData({ abi: erc20Abi, data });
      return word(functionName === 'balanceOf' ? held(balances, to, balance) : held(allowances, to, allowance));
    },
    eth_estimateGas: () => '0xc350',
    eth_getBlockByNumber: () => ({ baseFeePerGas: '0x3b9aca00', timestamp: '0x1' }),
    eth_maxPriorityFeePerGas: () => '0x1',
    eth_getTransactionCount: () => '0x5',
    eth_sendRawTransaction: ([raw]) => {
      const { to, data, value = 0n } = parseTransaction(raw);
      if (data === '0xd0e30db0') {
        balances.set(to, held(balances, to, balance) + value);
        calls.push({ to, what: 'deposit', amount: value });
      } else {
        const { args } = decodeFunctionData({ abi: erc20Abi, data });
        assert.equal(args[0].toLowerCase(), DEFAULTS.source.permit2.toLowerCase());
        allowances.set(to, args[1]);
        calls.push({ to, what: 'approve', amount: args[1] });
      }
      return keccak256(raw);
    },
    eth_getTransactionReceipt: () => ({ status: '0x1' }),
  };
  const node = { request: async ({ method, params }) => (methods[method] ?? assert.fail)(params) };
  const signed = [];
  const signer = { ...account, signTypedData: (data) => (signed.push(data), account.signTypedData(data)) };
  return { wallet: await evmWallet({ account: signer, rpc: node }), calls, signed };
}
