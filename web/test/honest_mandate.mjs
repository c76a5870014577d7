// What an honest gateway gives for a mandate, from the contract's artefact and the letter of docs/clients.md: the SDK that is in the page
// has no part in it.
import { concat, encodeAbiParameters, encodeFunctionData, getContractAddress, hashTypedData, keccak256, parseAbi, stringToHex } from 'viem';

import { artifact, EVM } from './honest_gateway.mjs';
import { typed } from './honest_batch.mjs';

const { abi } = artifact('Mandates');
export const MANDATES_ABI = abi;
/** Where the contract is, and what the address of each mandate runs, by contracts/vectors/mandates.json. */
export const CONTRACT = '0xdbab82e3a709c159b54e0a0d3546e0071843e727';
const IMPLEMENTATION = '0x0acd3c5377995bee72c2af4eb38b1b49434da8bd';
const PERMIT2_CALLS = parseAbi(['function approve(address token, address spender, uint160 amount, uint48 expiration)']);
const TOKEN_CALLS = parseAbi(['function approve(address spender, uint256 amount)']);

/** A mandate as the contract takes it; `escrow` and `releaser` are the gateway's own. */
export function structOf({ source, destination, mandate }, { escrow = EVM.served.escrow_contract_address, releaser = EVM.served.releaser } = {}) {
  const owned = ({ account, asset_identifier }) => ({ account, asset_identifier });
  const terms = JSON.stringify({ destination: destination.map(owned), fulfillment_amount: '@', max_source_amount: '@', source: owned(source) });
  const [before, , after] = terms.split('@');
  return {
    payer: source.account,
    merchant: mandate.merchant,
    token: source.asset_identifier.split(':').at(-1),
    amount: BigInt(mandate.amount),
    least: BigInt(mandate.least ?? 0),
    escrow,
    releaser,
    begins: mandate.begins,
    periodSeconds: mandate.period_seconds,
    periods: mandate.periods,
    lockSeconds: mandate.lock_seconds,
    salt: mandate.salt,
    termsBefore: stringToHex(before),
    termsAfter: stringToHex(after),
  };
}

export function addressOf(struct) {
  const salt = keccak256(encodeAbiParameters(abi.find(({ name }) => name === 'addressOf').inputs, [struct]));
  const bytecode = concat(['0x3d602d80600a3d3981f3363d3d373d3d3d363d73', IMPLEMENTATION, '0x5af43d82803e903d91602b57fd5bf3']);
  return getContractAddress({ opcode: 'CREATE2', from: CONTRACT, salt, bytecode }).toLowerCase();
}

const unsigned = (data) => ({ message: hashTypedData(data), message_prehash: JSON.stringify(data), payload: {} });
const call = (to, data) => ({ to, data, value: '0x0' });

/**
 * What is to be signed for a mandate. `change` alters the request that is answered for, `places` names another escrow or releaser, `edit` changes
 * the typed data before it is hashed; with `approves` the token has to let Permit2 draw first.
 */
export function preparedMandate(asked, { change = (request) => request, places = {}, edit = () => {}, approves = false, more = {} } = {}) {
  const request = change(structuredClone(asked));
  const { served, chain } = EVM;
  const chainId = Number(chain.split(':')[1]);
  const struct = structOf(request, places);
  const address = addressOf(struct);
  const amount = struct.amount * BigInt(struct.periods);
  const last = struct.begins + struct.periodSeconds * struct.periods - 1;
  const data = {
    types: {
      EIP712Domain: typed('string name, uint256 chainId, address verifyingContract'),
      PermitDetails: typed('address token, uint160 amount, uint48 expiration, uint48 nonce'),
      PermitSingle: typed('PermitDetails details, address spender, uint256 sigDeadline'),
    },
    primaryType: 'PermitSingle',
    domain: { name: 'Permit2', chainId, verifyingContract: served.permit2 },
    message: { details: { token: struct.token, amount: String(amount), expiration: String(last), nonce: '0' }, spender: address, sigDeadline: String(last) },
  };
  edit(data);
  const cancellation = {
    types: { EIP712Domain: typed('string name, string version, uint256 chainId, address verifyingContract'), Cancellation: typed('address mandate') },
    primaryType: 'Cancellation',
    domain: { name: 'GatewayMandates', version: '1', chainId, verifyingContract: CONTRACT },
    message: { mandate: address },
  };
  const approval = {
    asset_identifier: request.source.asset_identifier,
    spender: served.permit2,
    amount: String(amount),
    call: call(struct.token, encodeFunctionData({ abi: TOKEN_CALLS, args: [served.permit2, amount] })),
  };
  return {
    message_scheme: 'EVM_PERMIT2_MANDATE',
    mandate: request.mandate,
    address,
    contract: CONTRACT,
    permit: unsigned(data),
    allowance: call(served.permit2, encodeFunctionData({ abi: PERMIT2_CALLS, args: [struct.token, address, amount, last] })),
    fulfillment_verifier: served.fulfillment_verifier,
    ...(approves ? { approval } : {}),
    cancel: { call: call(CONTRACT, encodeFunctionData({ abi, functionName: 'cancel', args: [struct, '0x'] })), message: unsigned(cancellation) },
    ...more,
  };
}
