// Calls of the escrow itself, and the end of a mandate, through a node and nothing else: no gateway is asked, so they work when none is left.

import { UsageError, WalletError } from './errors.js';
import { familyOf } from './caip.js';
import type { EscrowedClaim, EscrowedPayment, MandateSpend, Wallet } from './types.js';

/**
 * Pays an overdue payment back to its payer, once the refund window that the payer signed is open; anybody may send it. The terms
 * that the escrow asks for are read from its own events. Resolves to the transaction, once it is in a block.
 */
export async function refund(wallet: Wallet, payment: EscrowedPayment): Promise<string> {
  await connect(wallet, payment.chainId);
  return wallet.refund(payment);
}

/**
 * Takes money that a token refused to hand over, and that waits in the escrow as a claim: `claims` of a status read has all that
 * is needed. Resolves to the transaction, once it is in a block.
 */
export async function claim(wallet: Wallet, waiting: EscrowedClaim): Promise<string> {
  await connect(wallet, waiting.chainId);
  return wallet.claim(waiting);
}

/**
 * Ends a mandate for ever, by its payer's wallet or its merchant's: nothing is drawn by it any more. What is in escrow by then stays there for
 * its payment. Resolves to the transaction, once it is in a block.
 *
 * @param mandate `spend` of what {@link Gateway.signMandate} gave.
 */
export async function cancelMandate(wallet: Wallet, mandate: MandateSpend): Promise<string> {
  if (!wallet.cancelMandate) throw new UsageError(`mandates are on EVM chains, and the wallet of ${wallet.account} ends none`);
  await connect(wallet, mandate.chainId);
  return wallet.cancelMandate(mandate);
}

async function connect(wallet: Wallet, chainId: string): Promise<void> {
  if (familyOf(chainId) !== wallet.family) throw new WalletError('chain', `${wallet.account} is not an account on ${chainId}`);
  await wallet.connect(chainId);
}
