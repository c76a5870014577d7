/**
 * What a token says of itself, by the gateway's word: with another name, version or nonce than the token's a signature counts
 * nowhere.
 *
 * @typedef {object} Token
 * @property {string} name
 * @property {string} version
 * @property {bigint} nonce The next one of the payer's allowances; 0 where none is signed.
 */
/**
 * Reads it out of a message that the gateway prepared for the token. Nothing else of the message is used.
 *
 * @param {unknown} text The message's typed data.
 * @returns {Token}
 */
export function tokenOf(text: unknown): Token;
/**
 * The token's own transfer of the deposit into the escrow. Its nonce is the hash of what is agreed to.
 *
 * @param {ReturnType<typeof import("./evm.js").deposit>} transfer The same by Permit2.
 * @param {Token} token
 */
export function authorization({ domain, message }: ReturnType<typeof import("./evm.js").deposit>, { name, version }: Token): {
    domain: {
        name: string;
        version: string;
        chainId: number;
        verifyingContract: string;
    };
    types: {
        readonly EIP712Domain: readonly [{
            readonly name: "name";
            readonly type: "string";
        }, {
            readonly name: "version";
            readonly type: "string";
        }, {
            readonly name: "chainId";
            readonly type: "uint256";
        }, {
            readonly name: "verifyingContract";
            readonly type: "address";
        }];
        readonly ReceiveWithAuthorization: readonly [{
            readonly name: "from";
            readonly type: "address";
        }, {
            readonly name: "to";
            readonly type: "address";
        }, {
            readonly name: "value";
            readonly type: "uint256";
        }, {
            readonly name: "validAfter";
            readonly type: "uint256";
        }, {
            readonly name: "validBefore";
            readonly type: "uint256";
        }, {
            readonly name: "nonce";
            readonly type: "bytes32";
        }];
    };
    primaryType: "ReceiveWithAuthorization";
    message: {
        from: string;
        to: string;
        value: bigint;
        validAfter: bigint;
        validBefore: bigint;
        nonce: `0x${string}`;
    };
};
/**
 * What the gateway is told beside the signature, which covers no more of it than a hash.
 *
 * @param {ReturnType<typeof import("./evm.js").deposit>} transfer
 */
export function payloadOf({ message: { witness } }: ReturnType<typeof import("./evm.js").deposit>): {
    reserve_deadline: number;
    refund_after: number;
    valid_before: number;
    deposit: {
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
/**
 * The token's allowance for Permit2, without an end, given by the same time as the deposit.
 *
 * @param {ReturnType<typeof import("./evm.js").deposit>} transfer What Permit2 is going to move.
 * @param {Token} token
 */
export function allowance({ domain, message }: ReturnType<typeof import("./evm.js").deposit>, { name, version, nonce }: Token): {
    domain: {
        name: string;
        version: string;
        chainId: number;
        verifyingContract: string;
    };
    types: {
        readonly EIP712Domain: readonly [{
            readonly name: "name";
            readonly type: "string";
        }, {
            readonly name: "version";
            readonly type: "string";
        }, {
            readonly name: "chainId";
            readonly type: "uint256";
        }, {
            readonly name: "verifyingContract";
            readonly type: "address";
        }];
        readonly Permit: readonly [{
            readonly name: "owner";
            readonly type: "address";
        }, {
            readonly name: "spender";
            readonly type: "address";
        }, {
            readonly name: "value";
            readonly type: "uint256";
        }, {
            readonly name: "nonce";
            readonly type: "uint256";
        }, {
            readonly name: "deadline";
            readonly type: "uint256";
        }];
    };
    primaryType: "Permit";
    message: {
        owner: string;
        spender: string;
        value: bigint;
        nonce: bigint;
        deadline: bigint;
    };
};
/**
 * EIP-712's hash of a deposit, as the escrow takes it.
 *
 * @param {ReturnType<typeof import("./evm.js").deposit>["message"]["witness"]} witness
 */
export function depositHash(witness: ReturnType<typeof import("./evm.js").deposit>["message"]["witness"]): `0x${string}`;
/**
 * What a token says of itself, by the gateway's word: with another name, version or nonce than the token's a signature counts
 * nowhere.
 */
export type Token = {
    name: string;
    version: string;
    /**
     * The next one of the payer's allowances; 0 where none is signed.
     */
    nonce: bigint;
};
