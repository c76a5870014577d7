// What an honest gateway gives for many payments at once, from the contract's artefact and the letter of docs/clients.md: the SDK that is
// in the page has no part in it.
import { concat, encodeAbiParameters, hashTypedData, keccak256, stringToHex } from 'viem';

import { termsHash } from '../../sdk/typescript/test/permits.mjs';
import { artifact, derived, EVM } from './honest_gateway.mjs';

const { abi } = artifact('PaymentBatches');
const LEAF = abi.find(({ name }) => name === 'leafOf').inputs;
/** Where the deterministic deployer puts the contract, by contracts/vectors/payment-batches.json. */
export const CONTRACT = '0xd435ce48aea0b68f80bc2fe11a245f4c29d2260d';

export const typed = (fields) => fields.split(', ').map((field) => ({ name: field.split(' ')[1], type: field.split(' ')[0] }));
const TYPES = {
  EIP712Domain: typed('string name, uint256 chainId, address verifyingContract'),
  PermitBatchWitnessTransferFrom: typed('TokenPermissions[] permitted, address spender, uint256 nonce, uint256 deadline, PaymentBatch witness'),
  PaymentBatch: typed('address escrow, bytes32 payments'),
  TokenPermissions: typed('address token, uint256 amount'),
};

/** The root by halves: the left one is the greatest power of two that leaves something for the right one. */
function rootOf(leaves) {
  if (leaves.length === 1) return leaves[0];
  let half = 1;
  while (half * 2 < leaves.length) half *= 2;
  return keccak256(concat([rootOf(leaves.slice(0, half)), rootOf(leaves.slice(half))].sort()));
}

/** The payments of a body, each with what stands beside them. */
export const membersOf = ({ payments, reserve_deadline: _, sender_auth: __, ...shared }) => payments.map((own) => ({ ...shared, ...own }));

export const idOf = ({ request_id: requestId, source }) => derived('pay_', 'gw:payment:v1', `eip155:${source.account}`, requestId);

/** What is to be signed for a body; `change` alters the payments that stand under the root, `edit` the typed data before it is hashed. */
export function preparedBatch(body, { change = (payments) => payments, edit = () => {}, more = {} } = {}) {
  const { served, chain } = EVM;
  const seconds = (text) => Math.floor(Date.parse(text) / 1000);
  const requests = membersOf(body);
  const deadline = body.reserve_deadline;
  const sums = new Map();
  const leaves = change(structuredClone(requests)).map((request) => {
    const token = request.source.asset_identifier.split(':').at(-1);
    const amount = BigInt(request.max_source_amount);
    sums.set(token, (sums.get(token) ?? 0n) + amount);
    const fulfillmentDeadline = seconds(request.fulfillment_deadline);
    const deposit = {
      paymentId: keccak256(stringToHex(idOf(request))),
      termsHash: termsHash(request),
      quoteHash: `0x${'0'.repeat(64)}`,
      payer: request.source.account,
      reserver: served.reserver,
      releaser: served.releaser,
      reserveDeadline: deadline,
      fulfillmentDeadline,
      refundAfter: fulfillmentDeadline + served.refund_delay_seconds,
    };
    return keccak256(keccak256(encodeAbiParameters(LEAF, [{ escrow: served.escrow_contract_address, token, amount, deposit }])));
  });
  const root = rootOf(leaves);
  const data = {
    types: TYPES,
    primaryType: 'PermitBatchWitnessTransferFrom',
    domain: { name: 'Permit2', chainId: Number(chain.split(':')[1]), verifyingContract: served.permit2 },
    message: {
      permitted: [...sums].sort(([one], [other]) => (BigInt(one) < BigInt(other) ? -1 : 1)).map(([token, amount]) => ({ token, amount: String(amount) })),
      spender: CONTRACT,
      nonce: BigInt(root).toString(),
      deadline: String(deadline),
      witness: { escrow: served.escrow_contract_address, payments: root },
    },
  };
  edit(data);
  return {
    message_scheme: 'EVM_PERMIT2_BATCH',
    signed_messages: [{ message: hashTypedData(data), message_prehash: JSON.stringify(data), payload: {} }],
    reserve_deadline: deadline,
    payments: requests.map((request) => ({ payment_id: idOf(request) })),
    ...more,
  };
}
