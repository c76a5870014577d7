/**
 * Who attests deliveries, as a gateway shows it. An older one shows neither threshold nor members.
 *
 * @typedef {object} Verifiers
 * @property {string} account
 * @property {string} endpoint
 * @property {number} [threshold] How many of the members have to attest.
 * @property {{ account: string, endpoint: string }[]} [members]
 */
/**
 * The releaser that stands for verifiers in an escrow: the account of one that is the only one, and of several a hash of
 * threshold and members, in whatever order they come.
 *
 * @param {string} network CAIP-2.
 * @param {number} threshold
 * @param {string[]} accounts
 * @returns {string}
 */
export function releaserOf(network: string, threshold: number, accounts: string[]): string;
/**
 * Whether the verifiers that the gateway shows are whom the releaser stands for.
 *
 * @param {string} network CAIP-2.
 * @param {string} releaser What is going to be signed for.
 * @param {Verifiers} shown
 */
export function checkVerifiers(network: string, releaser: string, { account: named, threshold, members }: Verifiers): void;
/**
 * The origins at which the verifiers can be asked, any of which a shop may name.
 *
 * @param {Verifiers} shown
 * @returns {string[]}
 */
export function endpointsOf({ endpoint, members }: Verifiers): string[];
/**
 * Who attests deliveries, as a gateway shows it. An older one shows neither threshold nor members.
 */
export type Verifiers = {
    account: string;
    endpoint: string;
    /**
     * How many of the members have to attest.
     */
    threshold?: number | undefined;
    members?: {
        account: string;
        endpoint: string;
    }[] | undefined;
};
