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
     * @param {number} [options.againSeconds] How long a payment opens the same resource again, once an answer to it was
     *   sent.
     * @param {number} [options.claimSeconds] How long a payment that was made opens its resource while no answer to it
     *   was sent, as the buyer was gone; a day.
     */
    constructor({ store, againSeconds, claimSeconds }?: {
        store?: import("./memory.js").Store<Redemption> | undefined;
        againSeconds?: number | undefined;
        claimSeconds?: number | undefined;
    });
    store: import("./memory.js").Store<Redemption>;
    againSeconds: number;
    claimSeconds: number;
    /**
     * Takes a payment for a resource. Whoever gets `undefined` has it until `release`, or for so many seconds.
     *
     * @param {string} paymentId
     * @param {string} resource
     * @param {number} [seconds]
     * @returns {Promise<"payment_in_use" | "payment_used" | undefined>} Why it cannot be used.
     */
    take(paymentId: string, resource: string, seconds?: number): Promise<"payment_in_use" | "payment_used" | undefined>;
    /**
     * Remembers that this payment is for this resource and no other. To be called before any money moves.
     *
     * @param {string} paymentId
     * @param {string} resource
     * @returns {Promise<"payment_used" | undefined>} Why it cannot be.
     */
    bind(paymentId: string, resource: string): Promise<"payment_used" | undefined>;
    /**
     * The payment has been made.
     *
     * @param {string} paymentId
     */
    settled(paymentId: string): Promise<void>;
    /**
     * An answer to the payment was sent to its end.
     *
     * @param {string} paymentId
     */
    served(paymentId: string): Promise<void>;
    /**
     * The payment is not in use any more.
     *
     * @param {string} paymentId
     */
    release(paymentId: string): void;
    /**
     * A payment that was bound has not been made.
     *
     * @param {string} paymentId
     * @param {boolean} isFinal It was refused, or failed, and moved no money: nothing has to be remembered of it, unless
     *   another request is at it.
     */
    failed(paymentId: string, isFinal: boolean): Promise<void>;
    #private;
}
/**
 * What a payment was used for.
 */
export type Redemption = {
    /**
     * Method and address of what it opens.
     */
    resource: string;
    /**
     * UNIX milliseconds from when on it was known to be paid.
     */
    settledAt?: number | undefined;
    /**
     * UNIX milliseconds at which an answer to it was sent to its end for the first time.
     */
    servedAt?: number | undefined;
};
