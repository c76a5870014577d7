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
 * @property {() => Promise<import("./gateway.js").Prepared | undefined>} [prepared] What the buyer's gateway would have
 *   signed, where it takes signatures for tokens: by it is known which ones a token takes. Nothing of it is signed.
 *
 * @typedef {object} SenderAuth Spec 2.3.
 * @property {string} message_scheme
 * @property {{ message: string, message_prehash?: string, payload?: object, signature: string }[]} signed_messages
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
 * A payer on EVM chains, for which it signs the token's own transfer into the escrow where the token takes such signatures
 * (ERC-3009), else Permit2's witness transfer; before that Permit2's allowance, where it lacks one and the token takes
 * signatures for it (ERC-2612).
 *
 * @param {Signer} signer For example viem's `privateKeyToAccount(…)`. For a token that takes no signatures it must have
 *   approved Permit2.
 * @param {{ permit2?: string }} [options] `permit2`: where Permit2 is, on a chain that has it elsewhere.
 * @returns {Payer}
 */
export function evmPayer(signer: Signer, { permit2 }?: {
    permit2?: string;
}): Payer;
/**
 * A message that is to be signed.
 *
 * @typedef {object} Message
 * @property {any} typedData
 * @property {string} message Its digest.
 * @property {string} message_prehash The typed data as text.
 * @property {object} [payload] What is told beside the signature.
 */
/**
 * All that is signed for an order, in its order.
 *
 * @param {Order} order
 * @param {string} payer
 * @param {string} permit2
 * @returns {Promise<{ message_scheme: string, messages: Message[] }>}
 */
export function messagesFor(order: Order, payer: string, permit2: string): Promise<{
    message_scheme: string;
    messages: Message[];
}>;
/**
 * The typed data of a deposit by Permit2, made from the order alone: nothing that somebody else prepared is ever signed.
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
 * @param {object} typedData
 */
export function toJson(typedData: object): string;
/** Where Uniswap's Permit2 is on every chain. */
export const PERMIT2: "0x000000000022d473030f116ddee9f6b43ac78ba3";
/** The scheme of tokens that move by a signature. */
export const BY_TOKEN: "EVM_EIP3009";
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
    /**
     * What the buyer's gateway would have
     * signed, where it takes signatures for tokens: by it is known which ones a token takes. Nothing of it is signed.
     */
    prepared?: (() => Promise<import("./gateway.js").Prepared | undefined>) | undefined;
};
/**
 * Spec 2.3.
 */
export type SenderAuth = {
    message_scheme: string;
    signed_messages: {
        message: string;
        message_prehash?: string;
        payload?: object;
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
/**
 * A message that is to be signed.
 */
export type Message = {
    typedData: any;
    /**
     * Its digest.
     */
    message: string;
    /**
     * The typed data as text.
     */
    message_prehash: string;
    /**
     * What is told beside the signature.
     */
    payload?: object | undefined;
};
