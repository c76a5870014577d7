/**
 * What a payment was used for.
 *
 * @typedef {object} Redemption
 * @property {string} resource Method and address of what it opened.
 * @property {number} [servedAt] UNIX milliseconds of its first use; absent until it was used.
 */
/**
 * What each payment opens. A gateway settles the same payment again and again with the same success, so a merchant
 * has to remember: one payment opens one resource, once, and for a short time again, for an answer that was lost on
 * its way.
 */
export class Redemptions {
    /**
     * @param {object} [options]
     * @param {import("./memory.js").Store<Redemption>} [options.store] Kept for as long as payments may come back, which
     *   is for ever.
     * @param {number} [options.againSeconds] How long a payment opens the same resource again.
     */
    constructor({ store, againSeconds }?: {
        store?: import("./memory.js").Store<Redemption> | undefined;
        againSeconds?: number | undefined;
    });
    store: import("./memory.js").Store<Redemption>;
    againSeconds: number;
    /**
     * Takes a payment for a resource. Whoever gets `undefined` has it until `release` or `served`.
     *
     * @param {string} paymentId
     * @param {string} resource
     * @returns {Promise<"payment_in_use" | "payment_used" | undefined>} Why it cannot be used.
     */
    take(paymentId: string, resource: string): Promise<"payment_in_use" | "payment_used" | undefined>;
    /**
     * The payment has been made, and opens its resource now.
     *
     * @param {string} paymentId
     */
    served(paymentId: string): Promise<void>;
    /**
     * The payment was not used after all.
     *
     * @param {string} paymentId
     */
    release(paymentId: string): void;
    #private;
}
/**
 * What a payment was used for.
 */
export type Redemption = {
    /**
     * Method and address of what it opened.
     */
    resource: string;
    /**
     * UNIX milliseconds of its first use; absent until it was used.
     */
    servedAt?: number | undefined;
};
