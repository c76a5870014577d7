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
export function corridor(gateway: string, network: string): Promise<Corridor>;
/**
 * Where a payment stands, or that the gateway has none by this id.
 *
 * @param {string} gateway Its base URL.
 * @param {string} paymentId
 * @returns {Promise<"unknown" | "pending" | "finalizing" | "completed" | "failed">}
 */
export function paymentStatus(gateway: string, paymentId: string): Promise<"unknown" | "pending" | "finalizing" | "completed" | "failed">;
/**
 * What a gateway would have signed for a payment; `undefined` where it refuses it, which it says again when it is paid.
 *
 * @param {string} gateway Its base URL.
 * @param {object} request The payment without `sender_auth`.
 * @returns {Promise<Prepared | undefined>}
 */
export function prepare(gateway: string, request: object): Promise<Prepared | undefined>;
/**
 * What a gateway says about one chain, as far as it is needed to sign; `GET /v1/defaults?chain_id=`.
 */
export type Corridor = {
    escrow_contract_address: string;
    fulfillment_proxy: string;
    reserver: string;
    releaser: string;
    fulfillment_verifier: import("./verifiers.js").Verifiers;
    refund_delay_seconds: number;
    /**
     * Solana.
     */
    signature_cluster_id?: string | undefined;
    /**
     * Solana.
     */
    signature_domain_version?: number | undefined;
    /**
     * What may be signed.
     */
    message_schemes?: string[] | undefined;
};
/**
 * What a gateway would have signed; `POST /v1/payments/prepare`.
 */
export type Prepared = {
    message_scheme: string;
    signed_messages: {
        message_prehash?: string;
    }[];
};
