import {
  SCHEME,
  SEND_AGAIN,
  account,
  amount,
  assetId,
  namespaceOf
} from "./shared-WBEYXSIJ.js";
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

// examples/x402/packages/gw-escrow/src/begun.js
var BEGUN_MAX = 1e4;
var Begun = class {
  /** @type {Map<string, { requirements: PaymentRequirements, until: number }>} */
  #known = /* @__PURE__ */ new Map();
  /**
   * @param {string} resource
   * @param {unknown} payload What the buyer signed.
   * @param {PaymentRequirements} requirements
   * @param {number} seconds For how long.
   */
  async add(resource, payload, requirements, seconds) {
    const key = await digest(resource, payload);
    const until = this.#known.get(key)?.until ?? Date.now() + seconds * 1e3;
    this.#known.set(key, { requirements, until });
    const [oldest] = this.#known.keys();
    if (this.#known.size > BEGUN_MAX) this.#known.delete(oldest);
  }
  /**
   * What was asked for, of the payment in a header.
   *
   * @param {string} resource
   * @param {unknown} header Base64 of JSON, by whomever.
   * @returns {Promise<PaymentRequirements | undefined>}
   */
  async of(resource, header) {
    const known = this.#known.get(await digest(resource, payloadOf(header)));
    return known && Date.now() <= known.until ? known.requirements : void 0;
  }
};
function payloadOf(header) {
  try {
    const bytes = Uint8Array.from(atob(String(header)), (character) => character.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes))?.payload;
  } catch {
    return void 0;
  }
}
async function digest(resource, payload) {
  const bytes = new TextEncoder().encode(JSON.stringify([resource, payload]));
  return String(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}

// examples/x402/packages/gw-escrow/src/redemptions.js
var HOLD_SECONDS = 600;
var Redemptions = class {
  /** Until when a request holds a payment, in UNIX milliseconds; the oldest first. @type {Map<string, number>} */
  #held = /* @__PURE__ */ new Map();
  /** What reads a record and then writes it, by payment, one after another. @type {Map<string, Promise<unknown>>} */
  #turns = /* @__PURE__ */ new Map();
  /** How many requests have bound a payment and do not know its outcome. @type {Map<string, number>} */
  #open = /* @__PURE__ */ new Map();
  /**
   * @param {object} [options]
   * @param {import("./memory.js").Store<Redemption>} [options.store] Kept for as long as payments may come back, which
   *   is for ever.
   * @param {number} [options.againSeconds] How long a payment opens the same resource again, once an answer to it was
   *   sent.
   * @param {number} [options.claimSeconds] How long a payment that was made opens its resource while no answer to it
   *   was sent, as the buyer was gone; a day.
   */
  constructor({ store = memoryStore(), againSeconds = 300, claimSeconds = 86400 } = {}) {
    this.store = store;
    this.againSeconds = againSeconds;
    this.claimSeconds = claimSeconds;
  }
  /**
   * Takes a payment for a resource. Whoever gets `undefined` has it until `release`, or for so many seconds.
   *
   * @param {string} paymentId
   * @param {string} resource
   * @param {number} [seconds]
   * @returns {Promise<"payment_in_use" | "payment_used" | undefined>} Why it cannot be used.
   */
  async take(paymentId, resource, seconds = HOLD_SECONDS) {
    const now = Date.now();
    for (const [id, until] of this.#held) {
      if (until > now) break;
      this.#held.delete(id);
    }
    if ((this.#held.get(paymentId) ?? 0) > now) return "payment_in_use";
    this.#held.delete(paymentId);
    this.#held.set(paymentId, now + seconds * 1e3);
    try {
      if (this.#opens(await this.store.get(paymentId), resource)) return void 0;
    } catch (error) {
      this.release(paymentId);
      throw error;
    }
    this.release(paymentId);
    return "payment_used";
  }
  /**
   * Remembers that this payment is for this resource and no other. To be called before any money moves.
   *
   * @param {string} paymentId
   * @param {string} resource
   * @returns {Promise<"payment_used" | undefined>} Why it cannot be.
   */
  bind(paymentId, resource) {
    return this.#alone(paymentId, async () => {
      const known = await this.store.get(paymentId);
      if (!this.#opens(known, resource)) return "payment_used";
      if (!known) await this.store.set(paymentId, { resource });
      this.#open.set(paymentId, (this.#open.get(paymentId) ?? 0) + 1);
      return void 0;
    });
  }
  /**
   * The payment has been made.
   *
   * @param {string} paymentId
   */
  settled(paymentId) {
    return this.#alone(paymentId, async () => {
      this.#ends(paymentId);
      const known = await this.store.get(paymentId);
      if (known && known.settledAt === void 0 && known.servedAt === void 0) {
        await this.store.set(paymentId, { ...known, settledAt: Date.now() });
      }
    });
  }
  /**
   * An answer to the payment was sent to its end.
   *
   * @param {string} paymentId
   */
  async served(paymentId) {
    try {
      await this.#alone(paymentId, async () => {
        const known = await this.store.get(paymentId);
        if (known && known.servedAt === void 0) await this.store.set(paymentId, { ...known, servedAt: Date.now() });
      });
    } finally {
      this.release(paymentId);
    }
  }
  /**
   * The payment is not in use any more.
   *
   * @param {string} paymentId
   */
  release(paymentId) {
    this.#held.delete(paymentId);
  }
  /**
   * A payment that was bound has not been made.
   *
   * @param {string} paymentId
   * @param {boolean} isFinal It was refused, or failed, and moved no money: nothing has to be remembered of it, unless
   *   another request is at it.
   */
  failed(paymentId, isFinal) {
    return this.#alone(paymentId, async () => {
      if (this.#ends(paymentId) > 0 || !isFinal) return;
      const known = await this.store.get(paymentId);
      if (known && known.settledAt === void 0 && known.servedAt === void 0) await this.store.delete(paymentId);
    });
  }
  /** One request less is at a payment. @param {string} paymentId @returns {number} How many still are. */
  #ends(paymentId) {
    const left = (this.#open.get(paymentId) ?? 1) - 1;
    if (left > 0) this.#open.set(paymentId, left);
    else this.#open.delete(paymentId);
    return left;
  }
  /** @param {Redemption | undefined} known @param {string} resource */
  #opens(known, resource) {
    if (!known) return true;
    const { servedAt, settledAt } = known;
    const until = servedAt !== void 0 ? servedAt + this.againSeconds * 1e3 : settledAt !== void 0 ? settledAt + this.claimSeconds * 1e3 : Infinity;
    return known.resource === resource && Date.now() <= until;
  }
  /**
   * @template T
   * @param {string} paymentId
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  async #alone(paymentId, work) {
    const turn = (this.#turns.get(paymentId) ?? Promise.resolve()).then(work, work);
    this.#turns.set(paymentId, turn);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(paymentId) === turn) this.#turns.delete(paymentId);
    }
  }
};

// examples/x402/packages/gw-escrow/src/server.js
var HOLD_MARGIN_SECONDS = 300;
var GwEscrowServer = class {
  scheme = SCHEME;
  defaultAssetTransferMethod = "default";
  /** The page is made, the payment is settled, and only then the page is sent.
   * @type {Record<string, { supported: ["authorization"], default: "authorization" }>} */
  paymentFlows = { default: { supported: ["authorization"], default: "authorization" } };
  /** Payments in use, by the payload of the request that uses them. @type {WeakMap<object, Use>} */
  #taken = /* @__PURE__ */ new WeakMap();
  #begun = new Begun();
  /** @param {Options} options */
  constructor({
    receive,
    marginBasisPoints = 100,
    quoteDeadlineSeconds = 5,
    fulfillmentDeadlineSeconds = 300,
    redemptions = new Redemptions()
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
      const resource = paymentHeader ? resourceOf({ request: context }) : void 0;
      const begun = resource === void 0 ? void 0 : await this.#begun.of(resource, paymentHeader);
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
    const held = (
      /** @type {Held | undefined} */
      typeof price === "object" ? price.extra?.held : void 0
    );
    if (held?.begun.network === network) {
      const { asset, amount: most, extra } = held.begun;
      const { fulfillmentAmount } = (
        /** @type {Record<string, unknown>} */
        extra.gw
      );
      return { asset: assetId(network, asset, "asset"), amount: most, extra: { gw: { fulfillmentAmount } } };
    }
    if (held) price = held.now;
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
    // A hook that throws is passed over, so nothing may get out of these two but a refusal.
    onAfterVerify: async ({ paymentPayload, requirements, result, transportContext }) => {
      if (!result.isValid) return void 0;
      try {
        const paymentId = gwOf(result).paymentId;
        const resource = resourceOf(transportContext);
        if (typeof paymentId !== "string" || resource === void 0) return refusal("payment_cannot_be_told_apart");
        const seconds = (requirements?.maxTimeoutSeconds ?? 0) + HOLD_MARGIN_SECONDS;
        const reason = await this.redemptions.take(paymentId, resource, seconds);
        if (reason) return refusal(reason);
        const use = { paymentId, resource, isBound: false, isSettled: false, isAwaited: false };
        this.#taken.set(paymentPayload, use);
        this.#await(use, responseOf(transportContext));
        return void 0;
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
          return void 0;
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
      const reason = (
        /** @type {{ errorReason?: unknown } | undefined} */
        error?.errorReason
      );
      const isFinal = typeof reason === "string" && !SEND_AGAIN.includes(reason);
      if (use?.isBound) await this.redemptions.failed(use.paymentId, isFinal);
    },
    onVerifiedPaymentCanceled: async ({ paymentPayload }) => this.#release(paymentPayload)
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
      this.redemptions.served(use.paymentId).catch(() => void 0);
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
var AUTHORITY = /^https?:\/\/(?:\[[0-9a-f.:]+\]|[a-z0-9._-]+)(?::[0-9]+)?(?=\/)/i;
var HOST = /^[A-Za-z0-9._:[\]-]+$/;
function resourceOf(transportContext) {
  const { request } = (
    /** @type {{ request?: { method?: string, adapter: { getUrl(): string, getHeader?(name: string): unknown } } }} */
    transportContext ?? {}
  );
  if (!request) return void 0;
  const { adapter, method } = request;
  const host = adapter.getHeader?.("host");
  if (host !== void 0 && (typeof host !== "string" || !HOST.test(host))) return void 0;
  const url = adapter.getUrl();
  const [authority] = AUTHORITY.exec(url) ?? [];
  return authority === void 0 ? void 0 : `${method} ${url.slice(authority.length)}`;
}
function responseOf(transportContext) {
  const context = (
    /** @type {{ request?: { adapter?: { req?: { res?: any } } } } | undefined} */
    transportContext
  );
  const response = context?.request?.adapter?.req?.res;
  return typeof response?.on === "function" ? response : void 0;
}
function refusal(reason, error) {
  return { abort: true, reason, ...error instanceof Error ? { message: error.message } : {} };
}
export {
  GwEscrowError,
  GwEscrowServer,
  Redemptions
};
