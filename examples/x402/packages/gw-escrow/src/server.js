import { convertToTokenAmount, parseMoney } from "@x402/core/utils";

import { account, amount, assetId, namespaceOf } from "./chains.js";
import { GwEscrowError } from "./errors.js";
import { Redemptions } from "./redemptions.js";
import { SCHEME } from "./requirement.js";

export { GwEscrowError } from "./errors.js";
export { Redemptions };

/**
 * @typedef {import("./x402.js").PaymentRequirements} PaymentRequirements
 * @typedef {import("./x402.js").SupportedKind} SupportedKind
 * @typedef {import("./redemptions.js").Redemption} Redemption
 *
 * @typedef {{ asset: string, assetIdentifier: string, symbol: string, decimals: number }} ListedAsset
 *
 * @typedef {object} Options
 * @property {{ network: string, asset: string }} receive Where and in what the merchant is paid: a CAIP-2 network,
 *   and the symbol, address or CAIP-19 id of a token there.
 * @property {number} [marginBasisPoints] How much more than the price a buyer may be charged, for the settler's
 *   price; 100 is one per cent, and the default. What is not used is never taken.
 * @property {number} [quoteDeadlineSeconds] Longest auction; 5.
 * @property {number} [fulfillmentDeadlineSeconds] Longest wait for the delivery; 300.
 * @property {Redemptions} [redemptions] What each payment has opened.
 */

/**
 * Scheme `gw-escrow` for `x402ResourceServer`: a route's price is what the merchant receives, exactly, on its own
 * chain, and `network` is where the buyer pays.
 *
 * A price in money (`"$1.50"`, `1.5`) is for tokens of the same symbol on both chains. For two different tokens the
 * price is `{ asset, amount, extra: { gw: { fulfillmentAmount } } }`: the source token, the most that a buyer pays of
 * it, and what arrives, both in the smallest unit.
 */
export class GwEscrowServer {
  scheme = SCHEME;
  defaultAssetTransferMethod = "default";
  /** The page is made, the payment is settled, and only then the page is sent.
   * @type {Record<string, { supported: ["authorization"], default: "authorization" }>} */
  paymentFlows = { default: { supported: ["authorization"], default: "authorization" } };

  /** Payments in use, by the payload of the request that uses them. @type {WeakMap<object, string>} */
  #taken = new WeakMap();

  /** @param {Options} options */
  constructor({
    receive,
    marginBasisPoints = 100,
    quoteDeadlineSeconds = 5,
    fulfillmentDeadlineSeconds = 300,
    redemptions = new Redemptions(),
  }) {
    namespaceOf(receive.network, "receive.network");
    if (!Number.isSafeInteger(marginBasisPoints) || marginBasisPoints < 0) {
      throw new GwEscrowError("configuration", `marginBasisPoints is not a whole number: ${marginBasisPoints}`);
    }
    this.receive = receive;
    this.marginBasisPoints = BigInt(marginBasisPoints);
    this.deadlines = { quoteDeadlineSeconds, fulfillmentDeadlineSeconds };
    this.redemptions = redemptions;
  }

  /**
   * @param {string} network
   * @param {SupportedKind} kind
   * @returns {string | void} What is wrong.
   */
  validateFacilitatorSupport(network, kind) {
    try {
      this.#destination(kind);
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  /**
   * Money stays decimal here, because only the gateway knows how many decimals its tokens have.
   *
   * @param {import("./x402.js").Price} price
   * @param {string} network
   * @returns {Promise<import("./x402.js").AssetAmount>}
   */
  async parsePrice(price, network) {
    if (typeof price !== "object") {
      const { amount, symbol } = parseMoney(price);
      return { asset: symbol ?? "", amount };
    }
    const gw = /** @type {Record<string, unknown> | undefined} */ (price.extra?.gw);
    amount(price.amount, "price.amount");
    amount(gw?.fulfillmentAmount, "price.extra.gw.fulfillmentAmount");
    return { ...price, asset: assetId(network, price.asset, "price.asset") };
  }

  /**
   * @param {PaymentRequirements} base
   * @param {SupportedKind} kind
   * @returns {Promise<PaymentRequirements>}
   */
  async enhancePaymentRequirements(base, kind) {
    const { destination, token } = this.#destination(kind);
    const explicit = /** @type {Record<string, any> | undefined} */ (base.extra?.gw);
    const source = explicit?.fulfillmentAmount
      ? { asset: base.asset, amount: base.amount, fulfillmentAmount: explicit.fulfillmentAmount }
      : this.#priced(base, kind, token);
    const address = account(this.receive.network, base.payTo, "payTo");
    const named = ["escrow", "reserver", "releaser", "fulfillmentVerifierEndpoint"];
    const own = ["svmSignatureClusterId", "svmSignatureDomainVersion"].filter(
      (member) => gwOf(kind)[member] !== undefined,
    );
    return {
      ...base,
      network: kind.network,
      payTo: address,
      asset: bare(source.asset),
      amount: source.amount,
      extra: {
        ...base.extra,
        gw: {
          destination: { network: this.receive.network, asset: bare(token.assetIdentifier), address },
          fulfillmentAmount: source.fulfillmentAmount,
          fulfillmentProxy: destination.fulfillmentProxy,
          ...Object.fromEntries([...named, ...own].map((member) => [member, gwOf(kind)[member]])),
          ...this.deadlines,
        },
      },
    };
  }

  /** @type {import("./x402.js").ServerHooks} */
  schemeHooks = {
    // A hook that throws is passed over, so nothing may get out of this one but a refusal.
    onAfterVerify: async ({ paymentPayload, result, transportContext }) => {
      if (!result.isValid) return undefined;
      try {
        const paymentId = gwOf(result).paymentId;
        const resource = resourceOf(transportContext);
        if (typeof paymentId !== "string" || resource === undefined) return refusal("payment_cannot_be_told_apart");
        const reason = await this.redemptions.take(paymentId, resource);
        if (reason) return refusal(reason);
        this.#taken.set(paymentPayload, paymentId);
        return undefined;
      } catch (error) {
        return refusal("payment_cannot_be_recorded", error);
      }
    },
    onAfterSettle: async ({ paymentPayload }) => {
      const paymentId = this.#taken.get(paymentPayload);
      if (paymentId !== undefined) await this.redemptions.served(paymentId);
    },
    onSettleFailure: async ({ paymentPayload }) => this.#release(paymentPayload),
    onVerifiedPaymentCanceled: async ({ paymentPayload }) => this.#release(paymentPayload),
  };

  /** @param {object} paymentPayload @returns {undefined} */
  #release(paymentPayload) {
    const paymentId = this.#taken.get(paymentPayload);
    this.#taken.delete(paymentPayload);
    if (paymentId !== undefined) this.redemptions.release(paymentId);
    return undefined;
  }

  /**
   * What the gateway says about the merchant's chain and token.
   *
   * @param {SupportedKind} kind
   */
  #destination(kind) {
    const { network, asset } = this.receive;
    /** @type {{ network: string, fulfillmentProxy: string, assets: ListedAsset[] }[]} */
    const destinations = gwOf(kind).destinations ?? [];
    const destination = destinations.find((entry) => entry.network === network);
    if (!destination) throw new GwEscrowError("configuration", `the gateway does not deliver on ${network}`);
    const token = destination.assets.find((entry) => names(entry, network, asset));
    if (!token) throw new GwEscrowError("configuration", `the gateway does not deliver ${asset} on ${network}`);
    return { destination, token };
  }

  /**
   * @param {PaymentRequirements} base With a decimal amount, and the symbol of an asset if the price says one.
   * @param {SupportedKind} kind
   * @param {ListedAsset} received
   */
  #priced(base, kind, received) {
    if (base.asset !== "" && base.asset !== received.symbol.toUpperCase()) {
      throw new GwEscrowError(
        "configuration",
        `the price is in ${base.asset}, and the merchant receives ${received.symbol}`,
      );
    }
    /** @type {ListedAsset[]} */
    const offered = gwOf(kind).assets ?? [];
    const token = offered.find((entry) => entry.symbol === received.symbol);
    if (!token) {
      throw new GwEscrowError("configuration", `there is no ${received.symbol} to pay with on ${kind.network}`);
    }
    const fulfillmentAmount = units(base.amount, received);
    // The cap in the source token's decimals, with the margin, rounded up.
    const parity = fulfillmentAmount * 10n ** BigInt(token.decimals) * (10_000n + this.marginBasisPoints);
    const divisor = 10n ** BigInt(received.decimals) * 10_000n;
    const cap = (parity + divisor - 1n) / divisor;
    return { asset: token.assetIdentifier, amount: String(cap), fulfillmentAmount: String(fulfillmentAmount) };
  }
}

/**
 * A decimal amount in the smallest unit of a token, to which it has to be exact.
 *
 * @param {string} decimal
 * @param {ListedAsset} token
 */
function units(decimal, { decimals, symbol }) {
  const [, fraction = ""] = decimal.split(".");
  const exact = fraction.replace(/0+$/, "").length <= decimals;
  const value = exact ? BigInt(convertToTokenAmount(decimal, decimals)) : 0n;
  if (value === 0n) throw new GwEscrowError("configuration", `there is no amount of ${decimal} ${symbol}`);
  return value;
}

/**
 * Whether `asset`, a symbol, an address or a CAIP-19 id, means this entry.
 *
 * @param {ListedAsset} entry
 * @param {string} network
 * @param {string} asset
 */
function names(entry, network, asset) {
  if (entry.symbol === asset) return true;
  try {
    return assetId(network, asset, "receive.asset") === entry.assetIdentifier;
  } catch {
    return false;
  }
}

/**
 * The bare reference of a token, which is what x402 calls an asset, or the whole id of what is not a token.
 *
 * @param {string} identifier
 */
function bare(identifier) {
  const match = /\/(?:erc20|token):(.+)$/.exec(identifier);
  return match ? match[1] : identifier;
}

/**
 * @param {{ extra?: Record<string, unknown>, extensions?: unknown }} answer
 * @returns {Record<string, any>}
 */
function gwOf({ extra, extensions }) {
  const members = /** @type {Record<string, unknown> | undefined} */ (extensions) ?? extra;
  return /** @type {Record<string, any>} */ (members?.gw ?? {});
}

/**
 * Method, path and query of what is asked for: not the host, which whoever asks may write as he likes.
 *
 * @param {unknown} transportContext
 */
function resourceOf(transportContext) {
  const { request } = /** @type {{ request?: { method?: string, adapter: { getUrl(): string } } }} */ (
    transportContext ?? {}
  );
  if (!request) return undefined;
  const url = new URL(request.adapter.getUrl());
  return `${request.method} ${url.pathname}${url.search}`;
}

/**
 * @param {string} reason
 * @param {unknown} [error]
 * @returns {{ abort: true, reason: string, message?: string }}
 */
function refusal(reason, error) {
  return { abort: true, reason, ...(error instanceof Error ? { message: error.message } : {}) };
}
