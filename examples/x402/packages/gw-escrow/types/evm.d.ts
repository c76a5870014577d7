/**
 * What is about to be authorized: everything is the buyer's own reading of the requirement and of the gateway it
 * trusts.
 *
 * @typedef {object} Order
 * @property {string} paymentId
 * @property {import("./ids.js").Hex} termsHash
 * @property {string} network
 * @property {string} asset CAIP-19 id.
 * @property {bigint} amount The most that may be taken.
 * @property {string} escrow
 * @property {string} reserver
 * @property {string} releaser
 * @property {number} fulfillmentDeadline UNIX seconds.
 * @property {number} refundAfter UNIX seconds: from then on anyone may send the money back to the payer.
 * @property {import("./ids.js").Terms} terms What `termsHash` is of.
 * @property {import("./gateway.js").Corridor} corridor All that the buyer's gateway says about the network: other
 *   families sign more of it.
 *
 * @typedef {object} SenderAuth Spec 2.3.
 * @property {string} message_scheme
 * @property {{ message: string, message_prehash?: string, signature: string }[]} signed_messages
 *
 * @typedef {object} Signer An account that signs EIP-712 typed data.
 * @property {string} address
 * @property {(typedData: any) => Promise<string>} signTypedData
 *
 * @typedef {object} Payer Who pays on the chains of one namespace. Another namespace is another implementation of
 *   this.
 * @property {string} namespace CAIP-2 namespace.
 * @property {string} account In its normal form.
 * @property {string} originator Who asks for the payment, as payment ids are made of it.
 * @property {(order: Order) => Promise<SenderAuth>} authorize Signs for exactly this order.
 */
/**
 * A payer on EVM chains, for which it signs Permit2's witness transfer into the escrow.
 *
 * @param {Signer} signer For example viem's `privateKeyToAccount(…)`. It must have approved Permit2 for the token.
 * @param {{ permit2?: string }} [options] `permit2`: where Permit2 is, on a chain that has it elsewhere.
 * @returns {Payer}
 */
export function evmPayer(signer: Signer, { permit2 }?: {
    permit2?: string;
}): Payer;
/**
 * The typed data of a deposit, made from the order alone: nothing that somebody else prepared is ever signed.
 *
 * @param {Order} order
 * @param {string} payer
 * @param {string} permit2
 */
export function deposit(order: Order, payer: string, permit2: string): {
    domain: {
        name: string;
        chainId: number;
        verifyingContract: string;
    };
    types: {
        readonly EIP712Domain: readonly [{
            readonly name: "name";
            readonly type: "string";
        }, {
            readonly name: "chainId";
            readonly type: "uint256";
        }, {
            readonly name: "verifyingContract";
            readonly type: "address";
        }];
        readonly TokenPermissions: readonly [{
            readonly name: "token";
            readonly type: "address";
        }, {
            readonly name: "amount";
            readonly type: "uint256";
        }];
        readonly GatewayDeposit: readonly [{
            readonly name: "paymentId";
            readonly type: "bytes32";
        }, {
            readonly name: "termsHash";
            readonly type: "bytes32";
        }, {
            readonly name: "quoteHash";
            readonly type: "bytes32";
        }, {
            readonly name: "payer";
            readonly type: "address";
        }, {
            readonly name: "reserver";
            readonly type: "address";
        }, {
            readonly name: "releaser";
            readonly type: "address";
        }, {
            readonly name: "reserveDeadline";
            readonly type: "uint48";
        }, {
            readonly name: "fulfillmentDeadline";
            readonly type: "uint48";
        }, {
            readonly name: "refundAfter";
            readonly type: "uint48";
        }];
        readonly PermitWitnessTransferFrom: readonly [{
            readonly name: "permitted";
            readonly type: "TokenPermissions";
        }, {
            readonly name: "spender";
            readonly type: "address";
        }, {
            readonly name: "nonce";
            readonly type: "uint256";
        }, {
            readonly name: "deadline";
            readonly type: "uint256";
        }, {
            readonly name: "witness";
            readonly type: "GatewayDeposit";
        }];
    };
    primaryType: string;
    message: {
        permitted: {
            token: string;
            amount: bigint;
        };
        spender: string;
        nonce: bigint;
        deadline: bigint;
        witness: {
            paymentId: `0x${string}`;
            termsHash: `0x${string}`;
            quoteHash: string;
            payer: string;
            reserver: string;
            releaser: string;
            reserveDeadline: number;
            fulfillmentDeadline: number;
            refundAfter: number;
        };
    };
};
/**
 * The typed data as wallets and the gateway read it: whole numbers as decimal strings.
 *
 * @param {ReturnType<typeof deposit>} typedData
 */
export function toJson(typedData: ReturnType<typeof deposit>): string;
/** Where Uniswap's Permit2 is on every chain. */
export const PERMIT2: "0x000000000022d473030f116ddee9f6b43ac78ba3";
/**
 * What is about to be authorized: everything is the buyer's own reading of the requirement and of the gateway it
 * trusts.
 */
export type Order = {
    paymentId: string;
    termsHash: import("./ids.js").Hex;
    network: string;
    /**
     * CAIP-19 id.
     */
    asset: string;
    /**
     * The most that may be taken.
     */
    amount: bigint;
    escrow: string;
    reserver: string;
    releaser: string;
    /**
     * UNIX seconds.
     */
    fulfillmentDeadline: number;
    /**
     * UNIX seconds: from then on anyone may send the money back to the payer.
     */
    refundAfter: number;
    /**
     * What `termsHash` is of.
     */
    terms: import("./ids.js").Terms;
    /**
     * All that the buyer's gateway says about the network: other
     * families sign more of it.
     */
    corridor: import("./gateway.js").Corridor;
};
/**
 * Spec 2.3.
 */
export type SenderAuth = {
    message_scheme: string;
    signed_messages: {
        message: string;
        message_prehash?: string;
        signature: string;
    }[];
};
/**
 * An account that signs EIP-712 typed data.
 */
export type Signer = {
    address: string;
    signTypedData: (typedData: any) => Promise<string>;
};
/**
 * Who pays on the chains of one namespace. Another namespace is another implementation of
 *  this.
 */
export type Payer = {
    /**
     * CAIP-2 namespace.
     */
    namespace: string;
    /**
     * In its normal form.
     */
    account: string;
    /**
     * Who asks for the payment, as payment ids are made of it.
     */
    originator: string;
    /**
     * Signs for exactly this order.
     */
    authorize: (order: Order) => Promise<SenderAuth>;
};
