/**
 * What was asked for, of payments that were handed to the gateway: by the resource, and the digest of what the buyer
 * signed.
 */
export class Begun {
    /**
     * @param {string} resource
     * @param {unknown} payload What the buyer signed.
     * @param {PaymentRequirements} requirements
     * @param {number} seconds For how long.
     */
    add(resource: string, payload: unknown, requirements: PaymentRequirements, seconds: number): Promise<void>;
    /**
     * What was asked for, of the payment in a header.
     *
     * @param {string} resource
     * @param {unknown} header Base64 of JSON, by whomever.
     * @returns {Promise<PaymentRequirements | undefined>}
     */
    of(resource: string, header: unknown): Promise<PaymentRequirements | undefined>;
    #private;
}
export type PaymentRequirements = import("./x402.js").PaymentRequirements;
