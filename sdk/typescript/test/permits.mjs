// What a gateway has a payer on Tron sign for Permit2 (TIP-712), by the letter of the rules: neither the SDK nor a library has a part
// in it. The tests of the page have it from here, too, and their packages are others.
import { createHash } from 'node:crypto';

export const SCHEME = 'TRON_PERMIT2_ESCROW';
/** SUN.io's, on the main network. */
export const PERMIT2 = 'TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9';

const typed = (fields) => fields.split(', ').map((field) => ({ name: field.split(' ')[1], type: field.split(' ')[0] }));
export const TYPES = {
  TokenPermissions: typed('address token, uint256 amount'),
  PermitWitnessTransferFrom: typed('TokenPermissions permitted, address spender, uint256 nonce, uint256 deadline, GatewayDeposit witness'),
  GatewayDeposit: typed(
    'bytes32 paymentId, bytes32 termsHash, bytes32 quoteHash, address payer, address reserver, address releaser, ' +
      'uint48 reserveDeadline, uint48 fulfillmentDeadline, uint48 refundAfter',
  ),
  EIP712Domain: typed('string name, uint256 chainId, address verifyingContract'),
};

/** SHA-256 of an order's canonical JSON. */
export function termsHash({ destination, fulfillment_amount, max_source_amount, source }) {
  const owned = ({ account, asset_identifier }) => ({ account, asset_identifier });
  const terms = { destination: destination.map(owned), fulfillment_amount, max_source_amount, source: owned(source) };
  return `0x${createHash('sha256').update(JSON.stringify(terms)).digest('hex')}`;
}

/**
 * Permit2's transfer of `amount` into the escrow, as typed data, with every window as late as may be. `served` is what the gateway serves
 * of the chain, `hashes` are those of the deposit, and `nonce` the hash of the first two; `edit` changes what is made.
 */
export function transferOf({ asset, amount, payer, hashes, nonce, fulfilled, refundDelay, served }, edit = () => {}) {
  const [chain, token] = asset.split('/trc20:');
  const message = {
    permitted: { token, amount },
    spender: served.escrow_contract_address,
    nonce: BigInt(nonce).toString(),
    deadline: String(fulfilled),
    witness: {
      ...hashes,
      payer,
      reserver: served.reserver,
      releaser: served.releaser,
      reserveDeadline: String(fulfilled),
      fulfillmentDeadline: String(fulfilled),
      refundAfter: String(fulfilled + refundDelay),
    },
  };
  const domain = { name: 'Permit2', chainId: Number(chain.split(':')[1]), verifyingContract: served.permit2 };
  const data = structuredClone({ types: TYPES, primaryType: 'PermitWitnessTransferFrom', domain, message });
  edit(data);
  return data;
}

/** What is to be signed of it; `digest` hashes it. */
export function unsigned(data, digest) {
  const { witness: { reserveDeadline, refundAfter }, deadline } = data.message;
  const times = { reserve_deadline: Number(reserveDeadline), refund_after: Number(refundAfter) };
  const payload = { ...times, permit_deadline: Number(deadline) };
  return { message_scheme: SCHEME, signed_messages: [{ message: digest(data), message_prehash: JSON.stringify(data), payload }] };
}

/** Domain and message with their addresses in hexadecimal, as EVM chains write them: so they have the same digest by EIP-712. */
export function inHex(value, toHex) {
  if (typeof value === 'string') return /^T[1-9A-Za-z]{33}$/.test(value) ? toHex(value) : value;
  if (typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, inHex(member, toHex)]));
}
