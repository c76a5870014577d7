// What is to be paid, whether a link asks for it or a quote-request, and the batch of quotes for it.

import { familyOf, normalOwned, splitAsset } from '../../sdk/typescript/src/caip.js';
import { destinationSet } from '../../sdk/typescript/src/ids.js';
import { deliveredTo, orderRequest } from '../../sdk/typescript/src/spend.js';
import type { CollectedQuote, Defaults, Family, OwnedAsset, QuoteBatch, QuoteRequest, TimelineEntry } from '../../sdk/typescript/src/types.js';
import type { PaymentLink, Source } from './link.js';

/** How long settlers are asked, and by when it has to be there. */
const QUOTE_SECONDS = 6;
const FULFILLMENT_SECONDS = 600;
/** What the price may grow by until a quote is signed for, where nobody set a limit: a hundredth. */
const MARGIN_PARTS = 100n;

/** What is to be paid. */
export interface Purchase {
  /** What this browser keeps the payment under. */
  subject: string;
  /** Under this key money is taken once. */
  requestId: string;
  destinations: OwnedAsset[];
  amount: string;
  sources: Source[];
  /** The one account that may pay; any, where it is left out. */
  payer?: string;
  memo?: string;
  expiresAt?: string;
  /** The quotes that were collected for it; new ones are asked for where it is left out. */
  batch?: QuoteBatch;
}

/** What a link asks for. Without a word on what may pay, everything that is served may. */
export function purchaseOf(link: PaymentLink, defaults: Defaults): Purchase {
  const served = Object.values(defaults.chains).flatMap(({ assets }) => assets.map(({ asset_identifier }) => ({ asset_identifier })));
  const destinations = [...link.destination];
  const subject = JSON.stringify([link.request_id, link.fulfillment_amount, destinations.map(({ asset_identifier, account }) => [asset_identifier, account])]);
  return {
    subject,
    requestId: link.request_id,
    destinations,
    amount: link.fulfillment_amount,
    sources: link.pay_with.length ? link.pay_with : served,
    ...(link.memo === undefined ? {} : { memo: link.memo }),
    ...(link.expires_at === undefined ? {} : { expiresAt: link.expires_at }),
  };
}

/** What a quote-request asks for. It is awarded once, and under one key. */
export function purchaseOfBatch(batch: QuoteBatch): Purchase {
  const { quote_request_id: id, source, max_source_amount: most } = batch;
  return {
    subject: id,
    requestId: `award-${id}`,
    destinations: batch.destination,
    amount: batch.fulfillment_amount,
    sources: [{ asset_identifier: source.asset_identifier, ...(most === undefined ? {} : { max_source_amount: most }) }],
    payer: source.account,
    batch,
  };
}

/** The sources that a wallet of this family can pay with: tokens that are served. Coins are paid in their wrapped form. */
export function sourcesFor(purchase: Purchase, family: Family, defaults: Defaults): Source[] {
  return purchase.sources.filter(({ asset_identifier: asset }) => {
    try {
      const { chainId, namespace } = splitAsset(asset);
      const same = (id: string): boolean => id === asset || id.toLowerCase() === asset.toLowerCase();
      return familyOf(asset) === family && namespace !== 'slip44' && (defaults.chains[chainId]?.assets.some((it) => same(it.asset_identifier)) ?? false);
    } catch {
      return false;
    }
  });
}

/** The body that asks for quotes, or for what to sign. Each batch has an id of its own: the payment's is kept for the award. */
export function requestOf(purchase: Purchase, source: Source, account: string): QuoteRequest {
  const now = Date.now();
  const request = orderRequest({
    requestId: `quotes-${crypto.randomUUID()}`,
    source: { asset: source.asset_identifier, account },
    destination: purchase.destinations.map(({ asset_identifier: asset, account: recipient }) => ({ asset, account: recipient })),
    amount: BigInt(purchase.amount),
    maxSource: BigInt(source.max_source_amount ?? 1),
    quoteDeadline: new Date(now + QUOTE_SECONDS * 1000),
    fulfillmentDeadline: new Date(now + FULFILLMENT_SECONDS * 1000),
  });
  if (source.max_source_amount !== undefined) return request;
  const { max_source_amount: _, ...open } = request;
  return open;
}

/** What a quote says, as the page shows it. */
export interface QuoteShown {
  quoteId: string;
  price: string;
  settler: string;
  /** Which of the purchase's destinations gets the amount. */
  to: OwnedAsset;
  fulfillBy: string;
  validUntil: number;
}

const textOf = ({ asset_identifier, account }: OwnedAsset): string => JSON.stringify([asset_identifier, account]);

/** The set of destinations as a text by which two are compared; `undefined` where one is not an account. */
function setOf(destinations: readonly OwnedAsset[]): string[] | undefined {
  try {
    return destinationSet(destinations.map((it) => normalOwned(it, 'destination'))).map(textOf);
  } catch {
    return undefined;
  }
}

/** The quotes that can be read and deliver where the purchase wants it, in their order. */
export function quotesOf(batch: QuoteBatch, { destinations }: Pick<Purchase, 'destinations'>): QuoteShown[] {
  const wanted = setOf(destinations) ?? [];
  return (batch.quotes ?? []).flatMap(({ quote_id: quoteId, fulfillment_quote: quote }: CollectedQuote) => {
    const { sourceAmount, settler, fulfillBy, validUntil } = quote as Record<string, unknown>;
    const to = deliveredTo(quote);
    if (!to || !wanted.includes(textOf(to))) return [];
    if (typeof sourceAmount !== 'string' || !/^\d+$/.test(sourceAmount)) return [];
    if (typeof settler !== 'string' || typeof fulfillBy !== 'string' || typeof validUntil !== 'string') return [];
    return [{ quoteId, price: sourceAmount, settler, to, fulfillBy, validUntil: Date.parse(validUntil) }];
  });
}

/**
 * Whether the payment of this timeline pays the purchase: another shop may have used the same request id. `undefined` where the
 * timeline does not say yet.
 */
export function isPaidBy(purchase: Pick<Purchase, 'destinations' | 'amount'>, entries: readonly TimelineEntry[]): boolean | undefined {
  const order = entries.findLast(({ event }) => event === 'Submitted')?.data;
  if (!order) return undefined;
  const { destination, fulfillment_amount: amount } = order;
  const [found, wanted] = [Array.isArray(destination) ? setOf(destination as OwnedAsset[]) : undefined, setOf(purchase.destinations)];
  return amount === purchase.amount && found !== undefined && found.join() === wanted?.join();
}

/** A limit for a purchase without one: the best price and a hundredth. */
export function limitFrom(price: string): string {
  const units = BigInt(price);
  return (units + (units + MARGIN_PARTS - 1n) / MARGIN_PARTS).toString();
}
