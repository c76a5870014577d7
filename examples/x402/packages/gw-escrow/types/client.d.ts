/**
 * From when on nobody can take a payment that the gateway has not, in UNIX milliseconds. What counts is the deadline
 * that was signed: the auction's is not, so a shop may write another one.
 *
 * @param {{ fulfillmentDeadline?: number, payload?: Record<string, unknown> }} payment Records of older versions have
 *   the deadline in the payload alone.
 * @returns {number} `NaN` where there is none, which no time is later than.
 */
export function lapsesAt({ fulfillmentDeadline, payload }: {
    fulfillmentDeadline?: number;
    payload?: Record<string, unknown>;
}): number;
export { evmPayer } from "./evm.js";
export { GwEscrowError } from "./errors.js";
export { SEND_AGAIN } from "./reasons.js";
export { solanaPayer } from "./solana.js";
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
    /** @param {Options} options */
    constructor({ gateway, payers, maxLockSeconds, pins, open }: Options);
    scheme: string;
    gateway: string;
    payers: Map<string, import("./evm.js").Payer>;
    maxLockSeconds: number;
    pins: Record<string, {
        escrow: string;
        reserver: string;
        releaser: string;
    }>;
    open: import("./memory.js").Store<OpenPayment>;
    /** @type {import("./x402.js").ClientHooks} */
    schemeHooks: import("./x402.js").ClientHooks;
    /**
     * @param {number} x402Version
     * @param {PaymentRequirements} requirements
     * @param {import("./x402.js").PaymentPayloadContext} [context]
     * @returns {Promise<import("./x402.js").PaymentPayloadResult>}
     */
    createPaymentPayload(x402Version: number, requirements: PaymentRequirements, context?: import("./x402.js").PaymentPayloadContext): Promise<import("./x402.js").PaymentPayloadResult>;
    /**
     * Forgets a payment whose outcome the shop does not honour, so that the same thing can be paid for again.
     *
     * @param {string} resource URL of what was bought.
     * @param {PaymentRequirements} requirements
     */
    abandon(resource: string, requirements: PaymentRequirements): Promise<void>;
    #private;
}
export type PaymentRequirements = import("./x402.js").PaymentRequirements;
export type Payer = import("./evm.js").Payer;
/**
 * A payment that was signed and whose outcome is not known to be good.
 */
export type OpenPayment = {
    paymentId: string;
    /**
     * UNIX seconds, as it was signed: from then on nobody can take it any more.
     */
    fulfillmentDeadline: number;
    /**
     * What was sent, and is sent again.
     */
    payload: Record<string, unknown>;
    /**
     * The shop says that it is paid, which the gateway did not confirm at that moment.
     */
    isServed?: true | undefined;
};
export type Options = {
    /**
     * Base URL of the gateway that the buyer trusts. Shops choose their own; contracts that
     * this one does not name are not paid into.
     */
    gateway: string;
    /**
     * One for each namespace to pay in.
     */
    payers: Payer[];
    /**
     * Longest time after which money that was not used must be on its way back; an
     * hour.
     */
    maxLockSeconds?: number | undefined;
    /**
     * By network: what the
     * gateway itself must name.
     */
    pins?: Record<string, {
        escrow: string;
        reserver: string;
        releaser: string;
    }> | undefined;
    /**
     * Keeps payments until their outcome is known. With
     * `fileStore` a buyer that was killed goes on with what it signed, and pays nothing twice.
     */
    open?: import("./memory.js").Store<OpenPayment> | undefined;
};
