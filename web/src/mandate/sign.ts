// Signing a mandate: the SDK draws its salt, computes its address, and signs for no other spender.

import { cancelMandate } from '../../../sdk/typescript/src/escrow.js';
import type { Defaults, FulfillmentVerifier, Wallet } from '../../../sdk/typescript/src/types.js';
import { gateway } from '../gateway.js';
import { PaidElsewhere } from '../problems.js';
import { documentOf, type MandateDocument, spendOfDocument } from './document.js';
import { type MandateLink, mandateOrderOf } from './link.js';
import { keepMandate, type KeptMandate, noteEnded, signedBy } from './store.js';

export type MandatePhase = 'allow' | 'allowing' | 'sign';

/** Whether the token lets Permit2 draw too little for all periods, by the gateway's word. What is signed is prepared anew. */
export async function lacksAllowance(link: MandateLink, defaults: Defaults, account: string): Promise<boolean> {
  const { amount, least, periods, periodSeconds, begins, lockSeconds = 0, merchant } = mandateOrderOf(link, defaults);
  const salt = `0x${'0'.repeat(64)}`;
  const numbers = { period_seconds: periodSeconds, periods, begins: Math.floor((begins?.getTime() ?? 0) / 1000), lock_seconds: lockSeconds };
  const { approval } = await gateway.prepareMandate({
    version: '1.0',
    source: { asset_identifier: link.source.asset_identifier, account },
    destination: link.destination,
    mandate: { merchant, amount: amount.toString(), ...(least === undefined ? {} : { least: least.toString() }), ...numbers, salt },
  });
  return approval !== undefined;
}

/**
 * Signs what the link asks for. What was signed is kept before it is shown, and one link is signed once, in whichever tab.
 *
 * @param defaults Those that the page shows the mandate by: another answer of the gateway would lock money for longer.
 * @throws {VerificationError} where the gateway asks for a signature for another spender; nothing was signed.
 * @throws {PaidElsewhere} where another tab is at it.
 */
export async function signMandate(
  link: MandateLink,
  fragment: string,
  defaults: Defaults,
  wallet: Wallet,
  told: (phase: MandatePhase) => void,
): Promise<KeptMandate> {
  const work = async (): Promise<KeptMandate> => {
    const known = signedBy(fragment);
    if (known) return known;
    let verifier: FulfillmentVerifier | undefined;
    const { payload, address, spend } = await gateway.signMandate(mandateOrderOf(link, defaults), wallet, {
      onStep: (step) => {
        if (step.step === 'sending') told('allow');
        if (step.step === 'sent') told('allowing');
        if (step.step === 'signing') {
          verifier = step.prepared.fulfillment_verifier;
          told('sign');
        }
      },
    });
    if (payload.permit === undefined || !verifier) throw new Error('the wallet gave no signature');
    const document = documentOf({ ...spend, mandate: payload.mandate }, payload.permit, address, verifier);
    const kept: KeptMandate = {
      document,
      link: fragment,
      at: new Date().toISOString(),
      ...(link.memo === undefined ? {} : { memo: link.memo }),
      ...(link.return_url === undefined ? {} : { returnUrl: link.return_url }),
    };
    // What another tab has signed meanwhile is the one: this one was handed to nobody.
    const other = signedBy(fragment);
    if (other) return other;
    keepMandate(kept);
    return kept;
  };
  const locks = (navigator as { locks?: LockManager }).locks;
  if (!locks) return work();
  return locks.request(`mandate:${fragment}`, { ifAvailable: true }, (lock) => {
    if (!lock) throw new PaidElsewhere();
    return work();
  });
}

/** Ends a mandate for ever, by its payer or its merchant. Resolves to the transaction, once it is in a block. */
export async function end(document: MandateDocument, wallet: Wallet): Promise<string> {
  const transaction = await cancelMandate(wallet, spendOfDocument(document));
  noteEnded(document.address, transaction);
  return transaction;
}
