import {
  SCHEME,
  SEND_AGAIN,
  account,
  namespaceOf,
  readRequirement
} from "./shared-WBEYXSIJ.js";
import {
  memoryStore
} from "./shared-RNKGJPOV.js";
import {
  BY_TOKEN,
  evmPayer
} from "./shared-C3CHOMHS.js";
import {
  solanaPayer
} from "./shared-CRTS6FQX.js";
import {
  base58,
  concat,
  keccak256,
  paymentId,
  sha256,
  stringToHex,
  termsHash,
  toHex
} from "./shared-UDSO6T45.js";
import {
  GwEscrowError
} from "./shared-EJZXPSA6.js";

// examples/x402/packages/gw-escrow/src/gateway.js
var TIMEOUT_MS = 1e4;
async function corridor(gateway, network) {
  const answer = await ask(`${gateway}/v1/defaults?chain_id=${encodeURIComponent(network)}`);
  if (answer.status !== 200) {
    throw new GwEscrowError(
      "gateway",
      `the gateway does not serve ${network}: ${answer.body?.message ?? answer.status}`
    );
  }
  const body = answer.body ?? {};
  for (const member of ["escrow_contract_address", "fulfillment_proxy", "reserver", "releaser"]) {
    if (typeof body[member] !== "string")
      throw new GwEscrowError("gateway", `its defaults for ${network} lack ${member}`);
  }
  if (typeof body.fulfillment_verifier?.endpoint !== "string") {
    throw new GwEscrowError("gateway", `its defaults for ${network} lack fulfillment_verifier`);
  }
  if (!Number.isSafeInteger(body.refund_delay_seconds) || body.refund_delay_seconds < 0) {
    throw new GwEscrowError("gateway", `its defaults for ${network} lack refund_delay_seconds`);
  }
  return (
    /** @type {Corridor} */
    body
  );
}
async function paymentStatus(gateway, paymentId2) {
  const answer = await ask(`${gateway}/v1/payments/${encodeURIComponent(paymentId2)}/status`);
  if (answer.status === 404 && answer.body?.code === "PAYMENT_NOT_FOUND") return "unknown";
  const status = answer.body?.status;
  if (answer.status === 200 && ["pending", "finalizing", "completed", "failed"].includes(status)) return status;
  throw new GwEscrowError("gateway", `the gateway does not say where ${paymentId2} stands: HTTP ${answer.status}`);
}
async function prepare(gateway, request) {
  const headers = { "content-type": "application/json" };
  const asked = { method: "POST", headers, body: JSON.stringify(request) };
  const { status, body } = await ask(`${gateway}/v1/payments/prepare`, asked);
  return status === 200 && Array.isArray(body?.signed_messages) ? body : void 0;
}
async function ask(url, options = {}) {
  try {
    const response = await fetch(url, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
    return { status: response.status, body: await response.json() };
  } catch (cause) {
    throw new GwEscrowError("gateway", `the gateway gives no answer: ${url}`, { cause });
  }
}

// examples/x402/packages/gw-escrow/src/verifiers.js
var DOMAIN = stringToHex("gw-verifier-set");
var MEMBERS_MAX = 16;
function releaserOf(network, threshold, accounts) {
  const isEvm = namespaceOf(network, "network") === "eip155";
  const members = accounts.map((member) => account(network, member, "a verifier"));
  const bytes = members.map((member) => isEvm ? (
    /** @type {`0x${string}`} */
    member
  ) : keyOf(member)).sort();
  const isSet = bytes.length >= 1 && bytes.length <= MEMBERS_MAX && new Set(bytes).size === bytes.length;
  if (!isSet || !Number.isInteger(threshold) || threshold < 1 || threshold > bytes.length) {
    throw new GwEscrowError("untrusted", `${threshold} of ${bytes.length} verifiers on ${network} are no set`);
  }
  if (members.length === 1) return members[0];
  const preimage = concat([DOMAIN, toHex(Uint8Array.of(threshold, bytes.length)), ...bytes]);
  return isEvm ? `0x${keccak256(preimage).slice(-40)}` : base58.encode(sha256(preimage, "bytes"));
}
function keyOf(member) {
  const bytes = base58.decode(member);
  if (bytes.length !== 32) throw new GwEscrowError("untrusted", `a verifier is not a key of Solana: ${member}`);
  return toHex(bytes);
}
function normal(network, shown) {
  try {
    return account(network, shown, "the verifier");
  } catch (cause) {
    throw new GwEscrowError("untrusted", `the gateway shows a verifier that cannot be: ${cause}`, { cause });
  }
}
function checkVerifiers(network, releaser, { account: named, threshold, members }) {
  if (named && normal(network, named) !== releaser) {
    throw new GwEscrowError("untrusted", `the releaser is ${releaser}, and the gateway shows ${named} as its verifier`);
  }
  if (threshold === void 0 && members === void 0) return;
  let stands;
  try {
    const accounts = (
      /** @type {{ account: string }[]} */
      members.map((member) => member.account)
    );
    stands = releaserOf(
      network,
      /** @type {number} */
      threshold,
      accounts
    );
  } catch (cause) {
    throw new GwEscrowError("untrusted", `the gateway shows verifiers that cannot be: ${cause}`, { cause });
  }
  if (stands !== releaser) {
    throw new GwEscrowError("untrusted", `the releaser is ${releaser}, and not ${stands}, that of the verifiers shown`);
  }
}
function endpointsOf({ endpoint, members }) {
  const named = Array.isArray(members) ? members.map((member) => member?.endpoint) : [];
  return [endpoint, ...named.filter((one) => typeof one === "string")];
}

// examples/x402/packages/gw-escrow/src/client.js
var EXTENSION = "payment-identifier";
var CLOCK_MARGIN_MS = 6e4;
var GwEscrowClient = class {
  scheme = SCHEME;
  /** @type {WeakMap<object, string>} */
  #resources = /* @__PURE__ */ new WeakMap();
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
      if (settleResponse?.success) await this.#paid(keyOf2(paymentPayload.resource?.url ?? "", requirements));
    }
  };
  /**
   * @param {number} x402Version
   * @param {PaymentRequirements} requirements
   * @param {import("./x402.js").PaymentPayloadContext} [context]
   * @returns {Promise<import("./x402.js").PaymentPayloadResult>}
   */
  async createPaymentPayload(x402Version, requirements, context = {}) {
    if (x402Version !== 2) throw new GwEscrowError("unsupported", `x402 version ${x402Version} has no ${SCHEME}`);
    const key = keyOf2(this.#resources.get(requirements) ?? "", requirements);
    const turn = this.#turn.then(() => this.#payment(key, requirements, context.maxAmountPerPayment));
    this.#turn = turn.catch(() => void 0);
    const payment = await turn;
    const declared = context.extensions?.[EXTENSION];
    return {
      x402Version,
      payload: payment.payload,
      ...declared ? { extensions: { [EXTENSION]: { info: { id: payment.paymentId } } } } : {}
    };
  }
  /**
   * Forgets a payment whose outcome the shop does not honour, so that the same thing can be paid for again.
   *
   * @param {string} resource URL of what was bought.
   * @param {PaymentRequirements} requirements
   */
  async abandon(resource, requirements) {
    await this.open.delete(keyOf2(resource, requirements));
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
    if (!payment) return void 0;
    const status = await paymentStatus(this.gateway, payment.paymentId);
    const tooLate = Date.now() > lapsesAt(payment);
    const isOver = status === "failed" || status === "unknown" && tooLate;
    return isOver || status === "completed" && payment.isServed ? void 0 : payment;
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
    if (cap !== void 0 && wanted.amount > BigInt(cap)) {
      throw new GwEscrowError("cap", `amount is ${wanted.amount}, and ${cap} is allowed`);
    }
    const { escrow, reserver, releaser, refundDelay, corridor: corridor2 } = await this.#trusted(wanted);
    const lock = wanted.fulfillmentSeconds + refundDelay;
    if (lock > this.maxLockSeconds) {
      throw new GwEscrowError(
        "lock",
        `the money could be locked for ${lock} s, and ${this.maxLockSeconds} s are allowed`
      );
    }
    const fulfillmentDeadline = unixSeconds() + wanted.fulfillmentSeconds;
    const requestId = `x402-${crypto.randomUUID()}`;
    const terms = {
      source: { asset_identifier: wanted.asset, account: payer.account },
      destination: [{ asset_identifier: wanted.destination.asset, account: wanted.destination.address }],
      fulfillment_amount: String(wanted.fulfillmentAmount),
      max_source_amount: String(wanted.amount)
    };
    const id = paymentId(payer.originator, requestId);
    const request = () => ({
      version: "1.0",
      request_id: requestId,
      ...terms,
      quote_deadline: rfc3339(unixSeconds() + wanted.quoteSeconds),
      fulfillment_deadline: rfc3339(fulfillmentDeadline)
    });
    const takesTokenSignatures = corridor2.message_schemes?.includes(BY_TOKEN);
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
      corridor: corridor2,
      ...takesTokenSignatures ? { prepared: () => prepare(this.gateway, request()) } : {}
    });
    const quoteDeadline = unixSeconds() + wanted.quoteSeconds;
    if (quoteDeadline >= fulfillmentDeadline) {
      throw new GwEscrowError(
        "late",
        `it took too long to sign: what was signed ends at ${rfc3339(fulfillmentDeadline)}`
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
      corridor(this.gateway, wanted.destination.network)
    ]);
    const trusted = {
      escrow: account(wanted.network, source.escrow_contract_address, "escrow_contract_address"),
      reserver: account(wanted.network, source.reserver, "reserver"),
      releaser: account(wanted.network, source.releaser, "releaser")
    };
    const same = (field, named2, expected) => {
      if (named2 !== "" && named2 !== expected) {
        throw new GwEscrowError("untrusted", `${field} is ${named2}, and not ${expected} as the buyer's gateway says`);
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
    for (
      const field of
      /** @type {const} */
      ["escrow", "reserver", "releaser"]
    ) {
      if (pinned && account(wanted.network, pinned[field], `pins.${field}`) !== trusted[field]) {
        throw new GwEscrowError("untrusted", `the gateway's ${field} is ${trusted[field]}, and not the pinned one`);
      }
    }
    const refundDelay = Math.max(source.refund_delay_seconds, destination.refund_delay_seconds);
    return { ...trusted, refundDelay, corridor: source };
  }
};
function lapsesAt({ fulfillmentDeadline, payload }) {
  const request = (
    /** @type {{ fulfillment_deadline?: string } | undefined} */
    payload?.paymentRequest
  );
  const deadlineMs = fulfillmentDeadline === void 0 ? Date.parse(request?.fulfillment_deadline ?? "") : fulfillmentDeadline * 1e3;
  return deadlineMs + CLOCK_MARGIN_MS;
}
function keyOf2(resource, requirements) {
  return JSON.stringify([resource, sorted(requirements)]);
}
function sorted(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(sorted);
  return Object.fromEntries(
    Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1).map(([name, member]) => [name, sorted(member)])
  );
}
function origin(url) {
  return url === "" ? "" : URL.canParse(url) ? new URL(url).origin : url;
}
function unixSeconds() {
  return Math.floor(Date.now() / 1e3);
}
function rfc3339(seconds) {
  return new Date(seconds * 1e3).toISOString().replace(".000Z", "Z");
}
export {
  GwEscrowClient,
  GwEscrowError,
  SEND_AGAIN,
  evmPayer,
  lapsesAt,
  solanaPayer
};
