// Paying without a signature: the deposit address of an order, held against the order before it is shown to anybody.

import { evmAddress, originatorOf, splitAsset } from '../../sdk/typescript/src/caip.js';
import { StaleAddress, VerificationError } from '../../sdk/typescript/src/errors.js';
import { type CheckedAddress, checkAddress, openAddress } from '../../sdk/typescript/src/evm/addresses.js';
import { paymentId as paymentIdOf, quoteRequestId } from '../../sdk/typescript/src/ids.js';
import { termsOf } from '../../sdk/typescript/src/spend.js';
import type { Defaults, PaymentStatusRead, QuoteRequest, TimelineEntry } from '../../sdk/typescript/src/types.js';
import { unixSeconds } from '../../sdk/typescript/src/time.js';
import { gateway } from './gateway.js';
import type { Source } from './link.js';
import { type Purchase, sourcesFor } from './order.js';
import { existing, hasLapsed } from './pay.js';
import { WrongAddress } from './problems.js';
import { orderOf } from './progress.js';
import { keep } from './store.js';
import type { TextName } from './texts.js';

export type { CheckedAddress };

const ZERO_HASH = `0x${'0'.repeat(64)}`;
const ZERO_ACCOUNT = `0x${'0'.repeat(40)}`;

/** The sources that can be sent to an address: tokens on EVM chains, of an order that has no payer yet. */
export function addressSources(purchase: Purchase, defaults: Defaults): Source[] {
  if (purchase.batch) return [];
  return sourcesFor(purchase, 'evm', defaults).filter(({ asset_identifier: asset }) => splitAsset(asset).namespace === 'erc20');
}

/** A refund account in its normal form, or what is wrong with what was entered. */
export function refundAccount(text: string, { asset_identifier: asset }: Source): { account: string } | { fault: TextName } {
  const entered = text.trim();
  if (!entered) return { fault: 'address.refund.empty' };
  let account: string;
  try {
    account = evmAddress(entered);
  } catch {
    return { fault: 'address.refund.invalid' };
  }
  if (account === ZERO_ACCOUNT) return { fault: 'address.refund.invalid' };
  if (account === splitAsset(asset).token.toLowerCase()) return { fault: 'address.refund.contract' };
  return { account };
}

/** The id of the payment by deposit address that this account has of a purchase: of the quote-request under the purchase's key. */
export function addressPaymentId({ requestId }: Purchase, account: string): string {
  const originator = originatorOf('evm', account);
  return paymentIdOf(originator, quoteRequestId(originator, requestId));
}

/** The payment of this account by deposit address, where it is under way or over and delivered; `other` as `existing` has it. */
export async function addressPayment(purchase: Purchase, account: string): Promise<{ id: string; is: 'same' | 'other' } | undefined> {
  const id = addressPaymentId(purchase, account);
  const is = await existing(purchase, id);
  if (is === undefined || (is === 'same' && (await hasLapsed(id)))) return undefined;
  return { id, is };
}

/** What came of asking for an address; without one its payment goes on. `undefined`: its time is over, and this account has no other. */
export type Opened = { paymentId: string; address?: CheckedAddress } | undefined;

/**
 * Opens a payment by deposit address, under the purchase's key, and keeps its id: the link shows it again. The source has its limit,
 * which is what has to be sent.
 *
 * @throws {WrongAddress} where the gateway gives another address than the order's.
 * @throws {StaleAddress} where the address was given before, for a time that is over or is not the link's.
 */
export async function openFor(purchase: Purchase, source: Source, account: string): Promise<Opened> {
  const opening = openAddress(
    gateway,
    {
      requestId: purchase.requestId,
      source: { asset: source.asset_identifier, account },
      destination: purchase.destinations.map(({ asset_identifier: asset, account: recipient }) => ({ asset, account: recipient })),
      amount: BigInt(purchase.amount),
      maxSource: BigInt(source.max_source_amount ?? 0),
    },
    endOf(purchase),
  );
  let opened: NonNullable<Opened>;
  try {
    const { paymentId, address } = await opening;
    opened = { paymentId, address };
  } catch (error) {
    if (error instanceof StaleAddress && error.field === 'status') {
      if (error.found === 'failed') return undefined;
      opened = { paymentId: error.paymentId };
    } else if (error instanceof VerificationError && !(error instanceof StaleAddress)) {
      throw new WrongAddress(error.field);
    } else {
      throw error;
    }
  }
  keep(purchase.subject, { paymentId: opened.paymentId, accepted: true, byAddress: true });
  return opened;
}

/** How long the gateway waits for money where nobody says so, in milliseconds. */
const PAY_MS = 50 * 60_000;

/** Up to when money is waited for: to the end of a link that ends sooner than the gateway would wait. */
function endOf({ expiresAt }: Purchase): { payBy?: Date } {
  const end = expiresAt === undefined ? Infinity : Date.parse(expiresAt);
  return end < Date.now() + PAY_MS ? { payBy: new Date(end) } : {};
}

/**
 * The address of a payment as its page shows it: what the gateway says now, held against the payment's order, its escrow and its
 * verifiers as its timeline has them.
 *
 * @throws {VerificationError} where it is not this payment's.
 * @throws {StaleAddress} where it is, and nothing may be sent there any more.
 */
export function addressOfPayment(
  paymentId: string,
  entries: readonly TimelineEntry[],
  status: PaymentStatusRead,
  defaults: Defaults,
): CheckedAddress | undefined {
  const order = orderOf(entries);
  const given = status.deposit_address;
  const asked = entries.findLast(({ event }) => event === 'Submitted')?.data as (QuoteRequest & Record<string, unknown>) | undefined;
  if (!order || !asked || !given) return undefined;
  let terms;
  try {
    terms = termsOf(asked);
  } catch (cause) {
    throw new VerificationError('order', `the payment's order cannot be read: ${String(cause)}`);
  }
  const { chainId } = splitAsset(terms.source.asset_identifier);
  const chains = [chainId, ...terms.destination.map(({ asset_identifier: asset }) => splitAsset(asset).chainId)];
  return checkAddress(
    {
      paymentId,
      chainId,
      terms,
      cap: BigInt(terms.max_source_amount ?? given.amount),
      quoteDeadline: unixSeconds(asked.quote_deadline),
      fulfillmentDeadline: unixSeconds(asked.fulfillment_deadline),
      escrow: order.escrow ?? '',
      reserver: defaults.chains[chainId]?.reserver ?? '',
      releaser: order.verifier ?? '',
      refundDelaySeconds: Math.max(...chains.map((id) => defaults.chains[id]?.refund_delay_seconds ?? 0)),
      quoteHash: ZERO_HASH,
      wraps: false,
    },
    status,
  );
}
