import {
  SCHEME,
  account,
  amount,
  assetId,
  namespaceOf
} from "./shared-J4YPHA2P.js";
import {
  memoryStore
} from "./shared-RNKGJPOV.js";
import {
  GwEscrowError
} from "./shared-EJZXPSA6.js";

// examples/x402/node_modules/@x402/core/dist/esm/chunk-XW2CWVLZ.mjs
function numberToDecimalString(n) {
  const str = n.toString();
  if (!/[eE]/.test(str)) return str;
  const [significand, exponentStr] = str.split(/[eE]/);
  const exp = parseInt(exponentStr, 10);
  const negative = significand.startsWith("-");
  const abs = negative ? significand.slice(1) : significand;
  const [intDigits, fracDigits = ""] = abs.split(".");
  const allDigits = intDigits + fracDigits;
  const decimalPos = intDigits.length + exp;
  let result;
  if (decimalPos <= 0) {
    result = "0." + "0".repeat(-decimalPos) + allDigits;
  } else if (decimalPos >= allDigits.length) {
    result = allDigits + "0".repeat(decimalPos - allDigits.length);
  } else {
    result = allDigits.slice(0, decimalPos) + "." + allDigits.slice(decimalPos);
  }
  return (negative ? "-" : "") + result;
}
function parseMoneyString(money) {
  const cleaned = money.replace(/^\$/, "").trim();
  if (!/^\d+(?:\.\d+)?$/.test(cleaned) || /[eE]/.test(cleaned)) {
    throw new Error(`Invalid money format: ${money}`);
  }
  return cleaned;
}
function parseMoney(money) {
  if (typeof money === "number") {
    if (!Number.isFinite(money) || money < 0) {
      throw new Error(`Invalid money format: ${money}`);
    }
    return { amount: numberToDecimalString(money) };
  }
  const trimmed = money.trim();
  const match = trimmed.match(/^\$?\s*(-?\d+(?:\.\d+)?)(?:\s+([A-Za-z][A-Za-z0-9.]*))?$/);
  if (!match) {
    throw new Error(`Invalid money format: ${money}`);
  }
  const amount2 = parseMoneyString(match[1]);
  const rawSymbol = match[2];
  if (!rawSymbol || rawSymbol.toUpperCase() === "USD") {
    return { amount: amount2 };
  }
  return { amount: amount2, symbol: rawSymbol.toUpperCase() };
}
function convertToTokenAmount(decimalAmount, decimals) {
  if (/[eE]/.test(decimalAmount)) {
    throw new Error(
      `Invalid amount: ${decimalAmount} — use decimal notation, not scientific notation`
    );
  }
  if (!/^-?\d+\.?\d*$/.test(decimalAmount)) {
    throw new Error(`Invalid amount: ${decimalAmount}`);
  }
  const [intPart, decPart = ""] = decimalAmount.split(".");
  const paddedDec = decPart.padEnd(decimals, "0").slice(0, decimals);
  return (intPart + paddedDec).replace(/^0+/, "") || "0";
}

// examples/x402/packages/gw-escrow/src/redemptions.js
var Redemptions = class {
  /** Payments that are being used at this moment. @type {Set<string>} */
  #inUse = /* @__PURE__ */ new Set();
  /**
   * @param {object} [options]
   * @param {import("./memory.js").Store<Redemption>} [options.store] Kept for as long as payments may come back, which
   *   is for ever.
   * @param {number} [options.againSeconds] How long a payment opens the same resource again.
   */
  constructor({ store = memoryStore(), againSeconds = 300 } = {}) {
    this.store = store;
    this.againSeconds = againSeconds;
  }
  /**
   * Takes a payment for a resource. Whoever gets `undefined` has it until `release` or `served`.
   *
   * @param {string} paymentId
   * @param {string} resource
   * @returns {Promise<"payment_in_use" | "payment_used" | undefined>} Why it cannot be used.
   */
  async take(paymentId, resource) {
    if (this.#inUse.has(paymentId)) return "payment_in_use";
    this.#inUse.add(paymentId);
    try {
      const known = await this.store.get(paymentId);
      const { servedAt } = known ?? {};
      const spent = servedAt !== void 0 && Date.now() > servedAt + this.againSeconds * 1e3;
      if (spent || known && known.resource !== resource) {
        this.#inUse.delete(paymentId);
        return "payment_used";
      }
      if (!known) await this.store.set(paymentId, { resource });
      return void 0;
    } catch (error) {
      this.#inUse.delete(paymentId);
      throw error;
    }
  }
  /**
   * The payment has been made, and opens its resource now.
   *
   * @param {string} paymentId
   */
  async served(paymentId) {
    const known = await this.store.get(paymentId);
    if (known && known.servedAt === void 0) await this.store.set(paymentId, { ...known, servedAt: Date.now() });
    this.#inUse.delete(paymentId);
  }
  /**
   * The payment was not used after all.
   *
   * @param {string} paymentId
   */
  release(paymentId) {
    this.#inUse.delete(paymentId);
  }
};

// examples/x402/packages/gw-escrow/src/server.js
var GwEscrowServer = class {
  scheme = SCHEME;
  defaultAssetTransferMethod = "default";
  /** The page is made, the payment is settled, and only then the page is sent.
   * @type {Record<string, { supported: ["authorization"], default: "authorization" }>} */
  paymentFlows = { default: { supported: ["authorization"], default: "authorization" } };
  /** Payments in use, by the payload of the request that uses them. @type {WeakMap<object, string>} */
  #taken = /* @__PURE__ */ new WeakMap();
  /** @param {Options} options */
  constructor({
    receive,
    marginBasisPoints = 100,
    quoteDeadlineSeconds = 5,
    fulfillmentDeadlineSeconds = 300,
    redemptions = new Redemptions()
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
      const { amount: amount2, symbol } = parseMoney(price);
      return { asset: symbol ?? "", amount: amount2 };
    }
    const gw = (
      /** @type {Record<string, unknown> | undefined} */
      price.extra?.gw
    );
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
    const explicit = (
      /** @type {Record<string, any> | undefined} */
      base.extra?.gw
    );
    const source = explicit?.fulfillmentAmount ? { asset: base.asset, amount: base.amount, fulfillmentAmount: explicit.fulfillmentAmount } : this.#priced(base, kind, token);
    const address = account(this.receive.network, base.payTo, "payTo");
    const named = ["escrow", "reserver", "releaser", "fulfillmentVerifierEndpoint"];
    const own = ["svmSignatureClusterId", "svmSignatureDomainVersion"].filter(
      (member) => gwOf(kind)[member] !== void 0
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
          ...this.deadlines
        }
      }
    };
  }
  /** @type {import("./x402.js").ServerHooks} */
  schemeHooks = {
    // A hook that throws is passed over, so nothing may get out of this one but a refusal.
    onAfterVerify: async ({ paymentPayload, result, transportContext }) => {
      if (!result.isValid) return void 0;
      try {
        const paymentId = gwOf(result).paymentId;
        const resource = resourceOf(transportContext);
        if (typeof paymentId !== "string" || resource === void 0) return refusal("payment_cannot_be_told_apart");
        const reason = await this.redemptions.take(paymentId, resource);
        if (reason) return refusal(reason);
        this.#taken.set(paymentPayload, paymentId);
        return void 0;
      } catch (error) {
        return refusal("payment_cannot_be_recorded", error);
      }
    },
    onAfterSettle: async ({ paymentPayload }) => {
      const paymentId = this.#taken.get(paymentPayload);
      if (paymentId !== void 0) await this.redemptions.served(paymentId);
    },
    onSettleFailure: async ({ paymentPayload }) => this.#release(paymentPayload),
    onVerifiedPaymentCanceled: async ({ paymentPayload }) => this.#release(paymentPayload)
  };
  /** @param {object} paymentPayload @returns {undefined} */
  #release(paymentPayload) {
    const paymentId = this.#taken.get(paymentPayload);
    this.#taken.delete(paymentPayload);
    if (paymentId !== void 0) this.redemptions.release(paymentId);
    return void 0;
  }
  /**
   * What the gateway says about the merchant's chain and token.
   *
   * @param {SupportedKind} kind
   */
  #destination(kind) {
    const { network, asset } = this.receive;
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
        `the price is in ${base.asset}, and the merchant receives ${received.symbol}`
      );
    }
    const offered = gwOf(kind).assets ?? [];
    const token = offered.find((entry) => entry.symbol === received.symbol);
    if (!token) {
      throw new GwEscrowError("configuration", `there is no ${received.symbol} to pay with on ${kind.network}`);
    }
    const fulfillmentAmount = units(base.amount, received);
    const parity = fulfillmentAmount * 10n ** BigInt(token.decimals) * (10000n + this.marginBasisPoints);
    const divisor = 10n ** BigInt(received.decimals) * 10000n;
    const cap = (parity + divisor - 1n) / divisor;
    return { asset: token.assetIdentifier, amount: String(cap), fulfillmentAmount: String(fulfillmentAmount) };
  }
};
function units(decimal, { decimals, symbol }) {
  const [, fraction = ""] = decimal.split(".");
  const exact = fraction.replace(/0+$/, "").length <= decimals;
  const value = exact ? BigInt(convertToTokenAmount(decimal, decimals)) : 0n;
  if (value === 0n) throw new GwEscrowError("configuration", `there is no amount of ${decimal} ${symbol}`);
  return value;
}
function names(entry, network, asset) {
  if (entry.symbol === asset) return true;
  try {
    return assetId(network, asset, "receive.asset") === entry.assetIdentifier;
  } catch {
    return false;
  }
}
function bare(identifier) {
  const match = /\/(?:erc20|token):(.+)$/.exec(identifier);
  return match ? match[1] : identifier;
}
function gwOf({ extra, extensions }) {
  const members = (
    /** @type {Record<string, unknown> | undefined} */
    extensions ?? extra
  );
  return (
    /** @type {Record<string, any>} */
    members?.gw ?? {}
  );
}
function resourceOf(transportContext) {
  const { request } = (
    /** @type {{ request?: { method?: string, adapter: { getUrl(): string } } }} */
    transportContext ?? {}
  );
  if (!request) return void 0;
  const url = new URL(request.adapter.getUrl());
  return `${request.method} ${url.pathname}${url.search}`;
}
function refusal(reason, error) {
  return { abort: true, reason, ...error instanceof Error ? { message: error.message } : {} };
}
export {
  GwEscrowError,
  GwEscrowServer,
  Redemptions
};
