// What a payer agrees to: the escrow's `GatewayDeposit`, made from the payer's own request. Permit2 has it as its witness; in a
// token's own transfer (ERC-3009) its hash is the nonce.

import { HEX_ADDRESSES, hashStruct, hexWord, word } from './abi.js';
import type { AddressForm } from './abi.js';
import { onChainId, termsHash } from './ids.js';
import type { Spend } from './types.js';
import { quoteHashOf } from './windows.js';

/** Its type string. */
export const DEPOSIT_TYPE =
  'GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,' +
  'uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)';

/** Its members; times are decimal texts. */
export interface Deposit {
  paymentId: string;
  termsHash: string;
  quoteHash: string;
  payer: string;
  reserver: string;
  releaser: string;
  reserveDeadline: string;
  fulfillmentDeadline: string;
  refundAfter: string;
}

/**
 * The deposit of a payment, with what is the gateway's to choose: windows in UNIX seconds, which the caller bounds, and the hash of a
 * quote where the payer does not know it.
 */
export function depositOf(
  spend: Spend,
  chosen: { reserveDeadline: number; refundAfter: number; quoteHash: string },
): Deposit {
  return {
    paymentId: onChainId(spend.paymentId),
    termsHash: termsHash(spend.terms),
    quoteHash: quoteHashOf(spend, chosen.quoteHash),
    payer: spend.terms.source.account,
    reserver: spend.reserver,
    releaser: spend.releaser,
    reserveDeadline: String(chosen.reserveDeadline),
    fulfillmentDeadline: String(spend.fulfillmentDeadline),
    refundAfter: String(chosen.refundAfter),
  };
}

/** EIP-712's hash of a deposit, as the escrow, Permit2 and tokens take it. */
export function depositHash(deposit: Deposit, form: AddressForm = HEX_ADDRESSES): Uint8Array {
  const { paymentId, termsHash: terms, quoteHash, payer, reserver, releaser } = deposit;
  const hashes = [paymentId, terms, quoteHash].map(hexWord);
  const accounts = [payer, reserver, releaser].map((account) => form.word(account));
  const times = [deposit.reserveDeadline, deposit.fulfillmentDeadline, deposit.refundAfter];
  return hashStruct(DEPOSIT_TYPE, ...hashes, ...accounts, ...times.map((time) => word(BigInt(time))));
}
