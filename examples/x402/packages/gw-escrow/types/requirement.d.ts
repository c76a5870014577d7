/**
 * Reads one entry of `accepts`. Whoever wrote it is not trusted: what is not understood is refused.
 *
 * @param {import("./x402.js").PaymentRequirements} requirement
 * @returns {Requirement}
 */
export function readRequirement(requirement: import("./x402.js").PaymentRequirements): Requirement;
/** Name of the scheme. */
export const SCHEME: "gw-escrow";
/**
 * A requirement of a 402 as it was understood. Accounts and assets have their normal form.
 */
export type Requirement = {
    /**
     * Where the buyer pays.
     */
    network: string;
    /**
     * What it pays with, as CAIP-19.
     */
    asset: string;
    /**
     * The most that is taken from it.
     */
    amount: bigint;
    /**
     * Where the merchant is paid.
     */
    destination: {
        network: string;
        asset: string;
        address: string;
    };
    /**
     * What the merchant receives.
     */
    fulfillmentAmount: bigint;
    /**
     * Empty when the shop names none; likewise the others.
     */
    escrow: string;
    fulfillmentProxy: string;
    reserver: string;
    releaser: string;
    fulfillmentVerifierEndpoint: string;
    /**
     * Cluster id of the signing domain, of Solana sources.
     */
    svmCluster: string;
    /**
     * Longest auction.
     */
    quoteSeconds: number;
    /**
     * Longest wait for the delivery, counted from the same moment.
     */
    fulfillmentSeconds: number;
};
