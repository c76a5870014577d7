import { account, namespaceOf } from "./chains.js";
import { GwEscrowError } from "./errors.js";
import { BY_TOKEN } from "./evm.js";
import { corridor, paymentStatus, prepare } from "./gateway.js";
import { paymentId, termsHash } from "./ids.js";
import { memoryStore } from "./memory.js";
import { readRequirement, SCHEME } from "./requirement.js";
import { checkVerifiers, endpointsOf } from "./verifiers.js";

export { evmPayer } from "./evm.js";
export { GwEscrowError } from "./errors.js";
export { SEND_AGAIN } from "./reasons.js";
export { solanaPayer } from "./solana.js";

const EXTENSION = "payment-identifier";
/** Clocks differ by this much before a deadline is taken to be past for everyone. */
const CLOCK_MARGIN_MS = 60_000;

/**
 * @typedef {import("./x402.js").PaymentRequirements} PaymentRequirements
 * @typedef {import("./evm.js").Payer} Payer
 *
 * @typedef {object} OpenPayment A payment that was signed and whose outcome is not known to be good.
 * @property {string} paymentId
 * @property {number} fulfillmentDeadline UNIX seconds, as it was signed: from then on nobody can take it any more.
 * @property {Record<string, unknown>} payload What was sent, and is sent again.
 * @property {true} [isServed] The shop says that it is paid, which the gateway did not confirm at that moment.
 *
 * @typedef {object} Options
 * @property {string} gateway Base URL of the gateway that the buyer trusts. Shops choose their own; contracts that
 *   this one does not name are not paid into.
 * @property {Payer[]} payers One for each namespace to pay in.
 * @property {number} [maxLockSeconds] Longest time after which money that was not used must be on its way back; an
 *   hour.
 * @property {Record<string, { escrow: string, reserver: string, releaser: string }>} [pins] By network: what the
 *   gateway itself must name.
 * @property {import("./memory.js").Store<OpenPayment>} [open] Keeps payments until their outcome is known. With
 *   `fileStore` a buyer that was killed goes on with what it signed, and pays nothing twice.
 */

/**
 * Scheme `gw-escrow` for `x402Client`.
 *
 * A payment is signed for exactly what the requirement says, with the contracts of the buyer's own gateway, and
 * nothing that was prepared elsewhere is signed. A payment whose outcome is unknown is sent again, and a second one
 * for the same thing is made only when the gateway says that the first has failed, or can no longer accept it.
 */
export class GwEscrowClient {
  scheme = SCHEME;

  /** @type {WeakMap<object, string>} */
  #resources = new WeakMap();
  /** Purchases are signed one after another, so that two of the same thing are one payment.
   * @type {Promise<unknown>} */
  #turn = Promise.resolve();

  /** @param {Options} options */
  constructor({ gateway, payers, maxLockSeconds = 3600, pins = {}, open = memoryStore() }) {
    this.gateway = gateway.replace(/\/+$/, "");
    this.payers = new Map(payers.map((payer) => [payer.namespace, payer]));
    this.maxLockSeconds = maxLockSeconds;
    this.pins = pins;
    this.open = open;
  }

  /** @type {import("./x402.js").ClientHooks} */
  schemeHooks = {
    // A scheme is not told what is being bought, and its hook is.
    onBeforePaymentCreation: async ({ paymentRequired, selectedRequirements }) => {
      this.#resources.set(selectedRequirements, paymentRequired.resource?.url ?? "");
    },
    onPaymentResponse: async ({ paymentPayload, requirements, settleResponse }) => {
      if (settleResponse?.success) await this.#paid(keyOf(paymentPayload.resource?.url ?? "", requirements));
    },
  };

  /**
   * @param {number} x402Version
   * @param {PaymentRequirements} requirements
   * @param {import("./x402.js").PaymentPayloadContext} [context]
   * @returns {Promise<import("./x402.js").PaymentPayloadResult>}
   */
  async createPaymentPayload(x402Version, requirements, context = {}) {
    if (x402Version !== 2) throw new GwEscrowError("unsupported", `x402 version ${x402Version} has no ${SCHEME}`);
    const key = keyOf(this.#resources.get(requirements) ?? "", requirements);
    const turn = this.#turn.then(() => this.#payment(key, requirements, context.maxAmountPerPayment));
    this.#turn = turn.catch(() => undefined);
    const payment = await turn;
    const declared = context.extensions?.[EXTENSION];
    return {
      x402Version,
      payload: payment.payload,
      ...(declared ? { extensions: { [EXTENSION]: { info: { id: payment.paymentId } } } } : {}),
    };
  }

  /**
   * Forgets a payment whose outcome the shop does not honour, so that the same thing can be paid for again.
   *
   * @param {string} resource URL of what was bought.
   * @param {PaymentRequirements} requirements
   */
  async abandon(resource, requirements) {
    await this.open.delete(keyOf(resource, requirements));
  }

  /**
   * @param {string} key
   * @param {PaymentRequirements} requirements
   * @param {string | undefined} cap
   */
  async #payment(key, requirements, cap) {
    const unresolved = await this.#unresolved(key);
    if (unresolved) return unresolved;
    const payment = await this.#sign(requirements, cap);
    // Kept before it is sent: what was sent and forgotten would be paid again.
    await this.open.set(key, payment);
    return payment;
  }

  /**
   * A shop says that it is paid. It is believed as far as the buyer's own gateway says so.
   *
   * @param {string} key
   */
  async #paid(key) {
    const payment = await this.open.get(key);
    if (!payment) return;
    const status = await paymentStatus(this.gateway, payment.paymentId).catch(() => "unknown");
    if (status === "completed") await this.open.delete(key);
    else await this.open.set(key, { ...payment, isServed: true });
  }

  /**
   * The payment under way for the same thing, unless it is certain that it never takes any money, or took it and what
   * was bought was given.
   *
   * @param {string} key
   * @returns {Promise<OpenPayment | undefined>}
   */
  async #unresolved(key) {
    const payment = await this.open.get(key);
    if (!payment) return undefined;
    const status = await paymentStatus(this.gateway, payment.paymentId);
    const tooLate = Date.now() > lapsesAt(payment);
    const isOver = status === "failed" || (status === "unknown" && tooLate);
    return isOver || (status === "completed" && payment.isServed) ? undefined : payment;
  }

  /**
   * @param {PaymentRequirements} requirements
   * @param {string | undefined} cap Most that the buyer allows, smallest unit.
   * @returns {Promise<OpenPayment>}
   */
  async #sign(requirements, cap) {
    const wanted = readRequirement(requirements);
    const payer = this.payers.get(namespaceOf(wanted.network, "network"));
    if (!payer) throw new GwEscrowError("unsupported", `there is no payer for ${wanted.network}`);
    if (cap !== undefined && wanted.amount > BigInt(cap)) {
      throw new GwEscrowError("cap", `amount is ${wanted.amount}, and ${cap} is allowed`);
    }
    const { escrow, reserver, releaser, refundDelay, corridor } = await this.#trusted(wanted);
    const lock = wanted.fulfillmentSeconds + refundDelay;
    if (lock > this.maxLockSeconds) {
      throw new GwEscrowError(
        "lock",
        `the money could be locked for ${lock} s, and ${this.maxLockSeconds} s are allowed`,
      );
    }

    const fulfillmentDeadline = unixSeconds() + wanted.fulfillmentSeconds;
    const requestId = `x402-${crypto.randomUUID()}`;
    const terms = {
      source: { asset_identifier: wanted.asset, account: payer.account },
      destination: [{ asset_identifier: wanted.destination.asset, account: wanted.destination.address }],
      fulfillment_amount: String(wanted.fulfillmentAmount),
      max_source_amount: String(wanted.amount),
    };
    const id = paymentId(payer.originator, requestId);
    const request = () => ({
      version: "1.0",
      request_id: requestId,
      ...terms,
      quote_deadline: rfc3339(unixSeconds() + wanted.quoteSeconds),
      fulfillment_deadline: rfc3339(fulfillmentDeadline),
    });
    const takesTokenSignatures = corridor.message_schemes?.includes(BY_TOKEN);
    const senderAuth = await payer.authorize({
      paymentId: id,
      termsHash: termsHash(terms),
      network: wanted.network,
      asset: wanted.asset,
      amount: wanted.amount,
      escrow,
      reserver,
      releaser,
      fulfillmentDeadline,
      refundAfter: fulfillmentDeadline + refundDelay,
      terms,
      corridor,
      ...(takesTokenSignatures ? { prepared: () => prepare(this.gateway, request()) } : {}),
    });
    // Settlers are asked once it is signed: a person at a wallet takes longer than an auction.
    const quoteDeadline = unixSeconds() + wanted.quoteSeconds;
    if (quoteDeadline >= fulfillmentDeadline) {
      throw new GwEscrowError(
        "late",
        `it took too long to sign: what was signed ends at ${rfc3339(fulfillmentDeadline)}`,
      );
    }
    const paymentRequest = { ...request(), quote_deadline: rfc3339(quoteDeadline), sender_auth: senderAuth };
    return { paymentId: id, fulfillmentDeadline, payload: { paymentRequest } };
  }

  /**
   * The contracts and accounts to sign for: the buyer's gateway names them, and the requirement may not name others.
   *
   * @param {import("./requirement.js").Requirement} wanted
   */
  async #trusted(wanted) {
    const [source, destination] = await Promise.all([
      corridor(this.gateway, wanted.network),
      corridor(this.gateway, wanted.destination.network),
    ]);
    const trusted = {
      escrow: account(wanted.network, source.escrow_contract_address, "escrow_contract_address"),
      reserver: account(wanted.network, source.reserver, "reserver"),
      releaser: account(wanted.network, source.releaser, "releaser"),
    };
    const same = (/** @type {string} */ field, /** @type {string} */ named, /** @type {string} */ expected) => {
      if (named !== "" && named !== expected) {
        throw new GwEscrowError("untrusted", `${field} is ${named}, and not ${expected} as the buyer's gateway says`);
      }
    };
    const proxy = account(wanted.destination.network, destination.fulfillment_proxy, "fulfillment_proxy");
    same("extra.gw.escrow", wanted.escrow, trusted.escrow);
    same("extra.gw.reserver", wanted.reserver, trusted.reserver);
    same("extra.gw.releaser", wanted.releaser, trusted.releaser);
    same("extra.gw.fulfillmentProxy", wanted.fulfillmentProxy, proxy);
    checkVerifiers(wanted.network, trusted.releaser, source.fulfillment_verifier);
    const named = origin(wanted.fulfillmentVerifierEndpoint);
    const endpoints = endpointsOf(source.fulfillment_verifier).map(origin);
    same("extra.gw.fulfillmentVerifierEndpoint", named, endpoints.includes(named) ? named : endpoints[0]);

    if (wanted.svmCluster !== "" && wanted.svmCluster !== source.signature_cluster_id) {
      throw new GwEscrowError("untrusted", `extra.gw.svmSignatureClusterId is ${wanted.svmCluster}`);
    }

    const pinned = this.pins[wanted.network];
    for (const field of /** @type {const} */ (["escrow", "reserver", "releaser"])) {
      if (pinned && account(wanted.network, pinned[field], `pins.${field}`) !== trusted[field]) {
        throw new GwEscrowError("untrusted", `the gateway's ${field} is ${trusted[field]}, and not the pinned one`);
      }
    }
    // Whichever chain needs longer until nothing on it can change.
    const refundDelay = Math.max(source.refund_delay_seconds, destination.refund_delay_seconds);
    return { ...trusted, refundDelay, corridor: source };
  }
}

/**
 * From when on nobody can take a payment that the gateway has not, in UNIX milliseconds. What counts is the deadline
 * that was signed: the auction's is not, so a shop may write another one.
 *
 * @param {{ fulfillmentDeadline?: number, payload?: Record<string, unknown> }} payment Records of older versions have
 *   the deadline in the payload alone.
 * @returns {number} `NaN` where there is none, which no time is later than.
 */
export function lapsesAt({ fulfillmentDeadline, payload }) {
  const request = /** @type {{ fulfillment_deadline?: string } | undefined} */ (payload?.paymentRequest);
  const deadlineMs =
    fulfillmentDeadline === undefined ? Date.parse(request?.fulfillment_deadline ?? "") : fulfillmentDeadline * 1000;
  return deadlineMs + CLOCK_MARGIN_MS;
}

/**
 * What is bought: the same key is the same purchase.
 *
 * @param {string} resource
 * @param {PaymentRequirements} requirements
 */
function keyOf(resource, requirements) {
  return JSON.stringify([resource, sorted(requirements)]);
}

/**
 * @param {unknown} value
 * @returns {unknown}
 */
function sorted(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(sorted);
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => [name, sorted(member)]),
  );
}

/** @param {string} url */
function origin(url) {
  return url === "" ? "" : URL.canParse(url) ? new URL(url).origin : url;
}

function unixSeconds() {
  return Math.floor(Date.now() / 1000);
}

/** @param {number} seconds UNIX. */
function rfc3339(seconds) {
  return new Date(seconds * 1000).toISOString().replace(".000Z", "Z");
}
