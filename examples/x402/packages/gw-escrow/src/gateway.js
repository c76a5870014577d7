import { GwEscrowError } from "./errors.js";

/** Longest wait for an answer of the gateway. */
const TIMEOUT_MS = 10_000;

/**
 * What a gateway says about one chain, as far as it is needed to sign; `GET /v1/defaults?chain_id=`.
 *
 * @typedef {object} Corridor
 * @property {string} escrow_contract_address
 * @property {string} fulfillment_proxy
 * @property {string} reserver
 * @property {string} releaser
 * @property {import("./verifiers.js").Verifiers} fulfillment_verifier
 * @property {number} refund_delay_seconds
 * @property {string} [signature_cluster_id] Solana.
 * @property {number} [signature_domain_version] Solana.
 * @property {string[]} [message_schemes] What may be signed.
 *
 * @typedef {object} Prepared What a gateway would have signed; `POST /v1/payments/prepare`.
 * @property {string} message_scheme
 * @property {{ message_prehash?: string }[]} signed_messages
 */

/**
 * The gateway's defaults for a chain.
 *
 * @param {string} gateway Its base URL.
 * @param {string} network CAIP-2.
 * @returns {Promise<Corridor>}
 */
export async function corridor(gateway, network) {
  const answer = await ask(`${gateway}/v1/defaults?chain_id=${encodeURIComponent(network)}`);
  if (answer.status !== 200) {
    throw new GwEscrowError(
      "gateway",
      `the gateway does not serve ${network}: ${answer.body?.message ?? answer.status}`,
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
  return /** @type {Corridor} */ (body);
}

/**
 * Where a payment stands, or that the gateway has none by this id.
 *
 * @param {string} gateway Its base URL.
 * @param {string} paymentId
 * @returns {Promise<"unknown" | "pending" | "finalizing" | "completed" | "failed">}
 */
export async function paymentStatus(gateway, paymentId) {
  const answer = await ask(`${gateway}/v1/payments/${encodeURIComponent(paymentId)}/status`);
  if (answer.status === 404 && answer.body?.code === "PAYMENT_NOT_FOUND") return "unknown";
  const status = answer.body?.status;
  if (answer.status === 200 && ["pending", "finalizing", "completed", "failed"].includes(status)) return status;
  throw new GwEscrowError("gateway", `the gateway does not say where ${paymentId} stands: HTTP ${answer.status}`);
}

/**
 * What a gateway would have signed for a payment; `undefined` where it refuses it, which it says again when it is paid.
 *
 * @param {string} gateway Its base URL.
 * @param {object} request The payment without `sender_auth`.
 * @returns {Promise<Prepared | undefined>}
 */
export async function prepare(gateway, request) {
  const headers = { "content-type": "application/json" };
  const asked = { method: "POST", headers, body: JSON.stringify(request) };
  const { status, body } = await ask(`${gateway}/v1/payments/prepare`, asked);
  return status === 200 && Array.isArray(body?.signed_messages) ? body : undefined;
}

/**
 * @param {string} url
 * @param {RequestInit} [options]
 * @returns {Promise<{ status: number, body: any }>}
 */
async function ask(url, options = {}) {
  try {
    const response = await fetch(url, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
    return { status: response.status, body: await response.json() };
  } catch (cause) {
    throw new GwEscrowError("gateway", `the gateway gives no answer: ${url}`, { cause });
  }
}
