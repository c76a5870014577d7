import { convertToTokenAmount, parseMoney } from "@x402/core/utils";

import { Begun } from "./begun.js";
import { account, amount, assetId, namespaceOf } from "./chains.js";
import { GwEscrowError } from "./errors.js";
import { SEND_AGAIN } from "./reasons.js";
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
 * @typedef {{ paymentId: string, resource: string, isBound: boolean, isSettled: boolean, isAwaited: boolean }} Use One
 *   request's use of a payment: `isAwaited` while its response tells when it ends.
 *
 * @typedef {import("./x402.js").Price} Price
 * @typedef {object} PriceContext What a computed price is told of a request.
 * @property {{ getUrl(): string, getHeader(name: string): string | undefined }} adapter
 * @property {string} method
 * @property {string} path
 * @property {string} [paymentHeader]
 *
 * @typedef {{ begun: PaymentRequirements, now: Price }} Held A price that `held` gave.
 *
 * @typedef {{ closed: boolean, on: (event: "finish" | "close", listener: () => void) => unknown }} Response
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

/** How much longer a request may take than its settlement, until another may have its payment. */
const HOLD_MARGIN_SECONDS = 300;

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

  /** Payments in use, by the payload of the request that uses them. @type {WeakMap<object, Use>} */
  #taken = new WeakMap();
  #begun = new Begun();

  /** @param {Options} options */
  constructor({
    receive,
    marginBasisPoints = 100,
    quoteDeadlineSeconds = 5,
    fulfillmentDeadlineSeconds = 300,
    redemptions = new Redemptions(),
  }) {
    try {
      namespaceOf(receive.network, "receive.network");
    } catch (cause) {
      const message = `receive.network is not a chain that this package can be paid on: ${receive.network}`;
      throw new GwEscrowError("configuration", message, { cause });
    }
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
   * A computed price for a route. A payment that was handed to the gateway at one price is answered for that one, for
   * as long as it opens its page, whatever the price is by then. What was not handed in before the price changed is
   * refused. The process remembers it, and not the store.
   *
   * @template {PriceContext} Context
   * @param {(context: Context) => Price | Promise<Price>} price
   * @returns {(context: Context) => Promise<Price>}
   */
  held(price) {
    return async (context) => {
      const { paymentHeader } = context;
      const resource = paymentHeader ? resourceOf({ request: context }) : undefined;
      const begun = resource === undefined ? undefined : await this.#begun.of(resource, paymentHeader);
      const now = await price(context);
      return begun ? { asset: "", amount: "", extra: { held: { begun, now } } } : now;
    };
  }

  /**
   * Money stays decimal here, because only the gateway knows how many decimals its tokens have.
   *
   * @param {import("./x402.js").Price} price
   * @param {string} network
   * @returns {Promise<import("./x402.js").AssetAmount>}
   */
  async parsePrice(price, network) {
    const held = /** @type {Held | undefined} */ (typeof price === "object" ? price.extra?.held : undefined);
    if (held?.begun.network === network) {
      const { asset, amount: most, extra } = held.begun;
      const { fulfillmentAmount } = /** @type {Record<string, unknown>} */ (extra.gw);
      return { asset: assetId(network, asset, "asset"), amount: most, extra: { gw: { fulfillmentAmount } } };
    }
    if (held) price = held.now;
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
    // A hook that throws is passed over, so nothing may get out of these two but a refusal.
    onAfterVerify: async ({ paymentPayload, requirements, result, transportContext }) => {
      if (!result.isValid) return undefined;
      try {
        const paymentId = gwOf(result).paymentId;
        const resource = resourceOf(transportContext);
        if (typeof paymentId !== "string" || resource === undefined) return refusal("payment_cannot_be_told_apart");
        const seconds = (requirements?.maxTimeoutSeconds ?? 0) + HOLD_MARGIN_SECONDS;
        const reason = await this.redemptions.take(paymentId, resource, seconds);
        if (reason) return refusal(reason);
        const use = { paymentId, resource, isBound: false, isSettled: false, isAwaited: false };
        this.#taken.set(paymentPayload, use);
        this.#await(use, responseOf(transportContext));
        return undefined;
      } catch (error) {
        return refusal("payment_cannot_be_recorded", error);
      }
    },
    onBeforeSettle: async ({ paymentPayload, requirements }) => {
      const use = this.#taken.get(paymentPayload);
      if (!use) return refusal("payment_cannot_be_told_apart");
      try {
        const reason = await this.redemptions.bind(use.paymentId, use.resource);
        if (!reason) {
          use.isBound = true;
          await this.#begun.add(use.resource, paymentPayload.payload, requirements, this.redemptions.claimSeconds);
          return undefined;
        }
        this.#release(paymentPayload);
        return refusal(reason);
      } catch (error) {
        this.#release(paymentPayload);
        return refusal("payment_cannot_be_recorded", error);
      }
    },
    onAfterSettle: async ({ paymentPayload }) => {
      const use = this.#taken.get(paymentPayload);
      if (!use) return;
      use.isSettled = true;
      use.isBound = false;
      try {
        await this.redemptions.settled(use.paymentId);
      } finally {
        if (!use.isAwaited) this.#release(paymentPayload);
      }
    },
    onSettleFailure: async ({ paymentPayload, error }) => {
      const use = this.#taken.get(paymentPayload);
      this.#release(paymentPayload);
      const reason = /** @type {{ errorReason?: unknown } | undefined} */ (error)?.errorReason;
      // Without a reason nothing is known.
      const isFinal = typeof reason === "string" && !SEND_AGAIN.includes(reason);
      if (use?.isBound) await this.redemptions.failed(use.paymentId, isFinal);
    },
    onVerifiedPaymentCanceled: async ({ paymentPayload }) => this.#release(paymentPayload),
  };

  /**
   * Ends the use of a payment when its response ends, however that comes about. The time for which the payment opens
   * its resource again begins with an answer that was sent to its end.
   *
   * @param {Use} use
   * @param {Response | undefined} response
   */
  #await(use, response) {
    if (!response) return;
    if (response.closed) return this.redemptions.release(use.paymentId);
    use.isAwaited = true;
    response.on("finish", () => {
      if (!use.isAwaited || !use.isSettled) return;
      // Where that cannot be recorded, the payment stays open for as long as one whose buyer was gone.
      this.redemptions.served(use.paymentId).catch(() => undefined);
    });
    response.on("close", () => {
      use.isAwaited = false;
      this.redemptions.release(use.paymentId);
    });
  }

  /** @param {object} paymentPayload @returns {undefined} */
  #release(paymentPayload) {
    const use = this.#taken.get(paymentPayload);
    this.#taken.delete(paymentPayload);
    if (use) this.redemptions.release(use.paymentId);
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

/** An address, up to the path. */
const AUTHORITY = /^https?:\/\/(?:\[[0-9a-f.:]+\]|[a-z0-9._-]+)(?::[0-9]+)?(?=\/)/i;
const HOST = /^[A-Za-z0-9._:[\]-]+$/;

/**
 * Method, path and query of what is asked for, to the letter: not the host, which whoever asks may write as he likes.
 * `undefined` where it cannot be told where the path begins.
 *
 * @param {unknown} transportContext
 */
function resourceOf(transportContext) {
  const { request } =
    /** @type {{ request?: { method?: string, adapter: { getUrl(): string, getHeader?(name: string): unknown } } }} */ (
      transportContext ?? {}
    );
  if (!request) return undefined;
  const { adapter, method } = request;
  const host = adapter.getHeader?.("host");
  if (host !== undefined && (typeof host !== "string" || !HOST.test(host))) return undefined;
  const url = adapter.getUrl();
  const [authority] = AUTHORITY.exec(url) ?? [];
  return authority === undefined ? undefined : `${method} ${url.slice(authority.length)}`;
}

/**
 * The response that Express has for a request. Of other servers it is not known.
 *
 * @param {unknown} transportContext
 * @returns {Response | undefined}
 */
function responseOf(transportContext) {
  const context = /** @type {{ request?: { adapter?: { req?: { res?: any } } } } | undefined} */ (transportContext);
  const response = context?.request?.adapter?.req?.res;
  return typeof response?.on === "function" ? response : undefined;
}

/**
 * @param {string} reason
 * @param {unknown} [error]
 * @returns {{ abort: true, reason: string, message?: string }}
 */
function refusal(reason, error) {
  return { abort: true, reason, ...(error instanceof Error ? { message: error.message } : {}) };
}
