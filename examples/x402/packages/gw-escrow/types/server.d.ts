export { GwEscrowError } from "./errors.js";
export { Redemptions };
/**
 * Scheme `gw-escrow` for `x402ResourceServer`: a route's price is what the merchant receives, exactly, on its own
 * chain, and `network` is where the buyer pays.
 *
 * A price in money (`"$1.50"`, `1.5`) is for tokens of the same symbol on both chains. For two different tokens the
 * price is `{ asset, amount, extra: { gw: { fulfillmentAmount } } }`: the source token, the most that a buyer pays of
 * it, and what arrives, both in the smallest unit.
 */
export class GwEscrowServer {
    /** @param {Options} options */
    constructor({ receive, marginBasisPoints, quoteDeadlineSeconds, fulfillmentDeadlineSeconds, redemptions, }: Options);
    scheme: string;
    defaultAssetTransferMethod: string;
    /** The page is made, the payment is settled, and only then the page is sent.
     * @type {Record<string, { supported: ["authorization"], default: "authorization" }>} */
    paymentFlows: Record<string, {
        supported: ["authorization"];
        default: "authorization";
    }>;
    receive: {
        network: string;
        asset: string;
    };
    marginBasisPoints: bigint;
    deadlines: {
        quoteDeadlineSeconds: number;
        fulfillmentDeadlineSeconds: number;
    };
    redemptions: Redemptions;
    /**
     * @param {string} network
     * @param {SupportedKind} kind
     * @returns {string | void} What is wrong.
     */
    validateFacilitatorSupport(network: string, kind: SupportedKind): string | void;
    /**
     * A computed price for a route. A payment that was handed to the gateway at one price is answered for that one, for
     * as long as it opens its page, whatever the price is by then. What was not handed in before the price changed is
     * refused. The process remembers it, and not the store.
     *
     * @template {PriceContext} Context
     * @param {(context: Context) => Price | Promise<Price>} price
     * @returns {(context: Context) => Promise<Price>}
     */
    held<Context extends PriceContext>(price: (context: Context) => Price | Promise<Price>): (context: Context) => Promise<Price>;
    /**
     * Money stays decimal here, because only the gateway knows how many decimals its tokens have.
     *
     * @param {import("./x402.js").Price} price
     * @param {string} network
     * @returns {Promise<import("./x402.js").AssetAmount>}
     */
    parsePrice(price: import("./x402.js").Price, network: string): Promise<import("./x402.js").AssetAmount>;
    /**
     * @param {PaymentRequirements} base
     * @param {SupportedKind} kind
     * @returns {Promise<PaymentRequirements>}
     */
    enhancePaymentRequirements(base: PaymentRequirements, kind: SupportedKind): Promise<PaymentRequirements>;
    /** @type {import("./x402.js").ServerHooks} */
    schemeHooks: import("./x402.js").ServerHooks;
    #private;
}
export type PaymentRequirements = import("./x402.js").PaymentRequirements;
export type SupportedKind = import("./x402.js").SupportedKind;
export type Redemption = import("./redemptions.js").Redemption;
export type ListedAsset = {
    asset: string;
    assetIdentifier: string;
    symbol: string;
    decimals: number;
};
/**
 * One
 * request's use of a payment: `isAwaited` while its response tells when it ends.
 */
export type Use = {
    paymentId: string;
    resource: string;
    isBound: boolean;
    isSettled: boolean;
    isAwaited: boolean;
};
export type Price = import("./x402.js").Price;
/**
 * What a computed price is told of a request.
 */
export type PriceContext = {
    adapter: {
        getUrl(): string;
        getHeader(name: string): string | undefined;
    };
    method: string;
    path: string;
    paymentHeader?: string | undefined;
};
/**
 * A price that `held` gave.
 */
export type Held = {
    begun: PaymentRequirements;
    now: Price;
};
export type Response = {
    closed: boolean;
    on: (event: "finish" | "close", listener: () => void) => unknown;
};
export type Options = {
    /**
     * Where and in what the merchant is paid: a CAIP-2 network,
     * and the symbol, address or CAIP-19 id of a token there.
     */
    receive: {
        network: string;
        asset: string;
    };
    /**
     * How much more than the price a buyer may be charged, for the settler's
     * price; 100 is one per cent, and the default. What is not used is never taken.
     */
    marginBasisPoints?: number | undefined;
    /**
     * Longest auction; 5.
     */
    quoteDeadlineSeconds?: number | undefined;
    /**
     * Longest wait for the delivery; 300.
     */
    fulfillmentDeadlineSeconds?: number | undefined;
    /**
     * What each payment has opened.
     */
    redemptions?: Redemptions | undefined;
};
import { Redemptions } from "./redemptions.js";
