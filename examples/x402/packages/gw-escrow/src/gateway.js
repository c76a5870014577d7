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
 */

/**
 * The gateway's defaults for a chain.
 *
 * @param {string} gateway Its base URL.
 * @param {string} network CAIP-2.
 * @returns {Promise<Corridor>}
 */
export async function corridor(gateway, network) {
  const answer = await get(`${gateway}/v1/defaults?chain_id=${encodeURIComponent(network)}`);
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
  const answer = await get(`${gateway}/v1/payments/${encodeURIComponent(paymentId)}/status`);
  if (answer.status === 404 && answer.body?.code === "PAYMENT_NOT_FOUND") return "unknown";
  const status = answer.body?.status;
  if (answer.status === 200 && ["pending", "finalizing", "completed", "failed"].includes(status)) return status;
  throw new GwEscrowError("gateway", `the gateway does not say where ${paymentId} stands: HTTP ${answer.status}`);
}

/**
 * @param {string} url
 * @returns {Promise<{ status: number, body: any }>}
 */
async function get(url) {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
    return { status: response.status, body: await response.json() };
  } catch (cause) {
    throw new GwEscrowError("gateway", `the gateway gives no answer: ${url}`, { cause });
  }
}
