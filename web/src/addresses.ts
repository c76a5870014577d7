// Paying without a signature: the deposit address of an order, held against the order before it is shown to anybody.

import type { CheckedAddress } from '../../sdk/typescript/src/addresses.js';
import { formatAmount } from '../../sdk/typescript/src/amounts.js';
import { familyOf, normalAccount, originatorOf, splitAsset, tronText } from '../../sdk/typescript/src/caip.js';
import { StaleAddress, VerificationError } from '../../sdk/typescript/src/errors.js';
import { checkAddress as checkOnEvm, openAddress as openOnEvm } from '../../sdk/typescript/src/evm/addresses.js';
import { paymentId as paymentIdOf, quoteRequestId } from '../../sdk/typescript/src/ids.js';
import { checkAddress as checkOnSolana, openAddress as openOnSolana } from '../../sdk/typescript/src/solana/addresses.js';
import { termsOf } from '../../sdk/typescript/src/spend.js';
import { unixSeconds } from '../../sdk/typescript/src/time.js';
import { checkAddress as checkOnTron, openAddress as openOnTron } from '../../sdk/typescript/src/tron/addresses.js';
import type { Defaults, Family, PaymentStatusRead, QuoteRequest, ServedAsset, TimelineEntry } from '../../sdk/typescript/src/types.js';
import { servedAsset } from './format.js';
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

/** What is shown to be scanned and opened, and what has to be said of it. */
interface Code {
  text: string;
  label: TextName;
  /** The link into a wallet. */
  link: string;
  hints: TextName[];
  /** How exchanges name the network, where that has to be chosen by hand. */
  network?: TextName;
}

/** What a family of chains has that has deposit addresses. */
interface Sendable {
  /** CAIP-19 namespace of the tokens that can be sent. */
  namespace: string;
  /** The account of zeros, which is nobody's. */
  zero: string;
  /** Accounts that differ in case alone are the same. */
  ignoresCase: boolean;
  /** What is said of the account that money should come back to. */
  refund: TextName;
  /** What is said of a text that is not an account. */
  invalid: TextName;
  /** What is said of what may be sent. */
  only: TextName;
  /** `decimals` are those of the token, where the gateway says them. */
  code: (address: CheckedAddress, decimals: number | undefined) => Code;
  checkAddress: typeof checkOnEvm;
  openAddress: typeof openOnEvm;
}

const SENDABLE: Partial<Record<Family, Sendable>> = {
  evm: {
    namespace: 'erc20',
    zero: `0x${'0'.repeat(40)}`,
    ignoresCase: true,
    refund: 'address.refund.text',
    invalid: 'address.refund.invalid',
    only: 'address.only',
    // The whole transfer (EIP-681).
    code: ({ uri }) => ({ text: uri, label: 'address.qr', link: uri, hints: [] }),
    checkAddress: checkOnEvm,
    openAddress: openOnEvm,
  },
  solana: {
    namespace: 'token',
    // That of the system program.
    zero: '1'.repeat(32),
    ignoresCase: false,
    refund: 'address.refund.text.solana',
    invalid: 'address.refund.invalid.solana',
    only: 'address.only.solana',
    code: solanaPay,
    checkAddress: checkOnSolana,
    openAddress: openOnSolana,
  },
  tron: {
    namespace: 'trc20',
    zero: tronText(new Uint8Array(20)),
    ignoresCase: false,
    refund: 'address.refund.text',
    invalid: 'address.refund.invalid.tron',
    only: 'address.only.tron',
    // There is no settled form for a transfer, and what every wallet and exchange reads is the address.
    code: ({ address, uri }) => ({
      text: address,
      label: 'address.qr.bare',
      link: uri,
      hints: ['address.bare'],
      network: 'address.network.tron',
    }),
    checkAddress: checkOnTron,
    openAddress: openOnTron,
  },
};

/** Solana Pay's link counts in whole tokens, so it has an amount where the token's decimals are known. */
function solanaPay({ address, token, amount }: CheckedAddress, decimals: number | undefined): Code {
  const isKnown = decimals !== undefined;
  const link = `solana:${address}?${isKnown ? `amount=${formatAmount(amount, decimals)}&` : ''}spl-token=${token}`;
  const label = isKnown ? 'address.qr' : 'address.qr.token';
  return { text: link, label, link, hints: isKnown ? ['address.curve'] : ['address.bare.amount', 'address.curve'] };
}

/** Whether money can be sent to an address on chains of this family. */
export const isSendable = (family: Family): boolean => SENDABLE[family] !== undefined;

function sendable(family: Family): Sendable {
  const found = SENDABLE[family];
  if (!found) throw new VerificationError('source', `there are no deposit addresses on chains of ${family}`);
  return found;
}

/** The sources that can be sent to an address: tokens, of an order that has no payer yet. */
export function addressSources(purchase: Purchase, defaults: Defaults): Source[] {
  if (purchase.batch) return [];
  const served = (Object.keys(SENDABLE) as Family[]).flatMap((family) => sourcesFor(purchase, family, defaults));
  return purchase.sources.filter((source) => {
    if (!served.includes(source)) return false;
    const { family, namespace } = splitAsset(source.asset_identifier);
    return namespace === SENDABLE[family]?.namespace;
  });
}

/** What is said of the account that money of this source should come back to. */
export const refundText = ({ asset_identifier: asset }: Source): TextName => sendable(familyOf(asset)).refund;

/** A refund account in its normal form, or what is wrong with what was entered. */
export function refundAccount(text: string, { asset_identifier: asset }: Source): { account: string } | { fault: TextName } {
  const { family, token } = splitAsset(asset);
  const { zero, ignoresCase, invalid } = sendable(family);
  const entered = text.trim();
  if (!entered) return { fault: 'address.refund.empty' };
  let account: string;
  try {
    account = normalAccount(family, entered);
  } catch {
    return { fault: invalid };
  }
  if (account === zero) return { fault: invalid };
  if (account === (ignoresCase ? token.toLowerCase() : token)) return { fault: 'address.refund.contract' };
  return { account };
}

/** The id of the payment by deposit address that this account has of a purchase: of the quote-request under the purchase's key. */
export function addressPaymentId({ requestId }: Purchase, family: Family, account: string): string {
  const originator = originatorOf(family, account);
  return paymentIdOf(originator, quoteRequestId(originator, requestId));
}

/** The payment of this account by deposit address, where it is under way or over and delivered; `other` as `existing` has it. */
export async function addressPayment(
  purchase: Purchase,
  family: Family,
  account: string,
): Promise<{ id: string; is: 'same' | 'other' } | undefined> {
  const id = addressPaymentId(purchase, family, account);
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
  const opening = sendable(familyOf(source.asset_identifier)).openAddress(
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

/** A transfer to an address as a payer is shown it. */
export interface TransferShown {
  only: TextName;
  /** How the gateway serves what is sent. */
  served: ServedAsset | undefined;
  /** CAIP-19. */
  asset: string;
  code: Code;
}

export function transferOf(address: CheckedAddress, defaults: Defaults | undefined): TransferShown {
  const { chainId, token } = address;
  const { namespace, only, code } = sendable(familyOf(chainId));
  const asset = `${chainId}/${namespace}:${token}`;
  const served = servedAsset(defaults, asset);
  return { asset, served, only, code: code(address, served?.decimals) };
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
 * verifiers as its timeline has them. The contract that makes the address is known on EVM chains; on Tron it is the gateway's word, as
 * the escrow is, and on Solana the escrow's program makes it.
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
  const { chainId, family } = splitAsset(terms.source.asset_identifier);
  const chains = [chainId, ...terms.destination.map(({ asset_identifier: asset }) => splitAsset(asset).chainId)];
  return sendable(family).checkAddress(
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
