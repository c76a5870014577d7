/**
 * CAIP-2.
 */
export type Network = `${string}:${string}`;
/**
 * What x402 version 2 gives a scheme and takes of it, as far as it is used here. Declared here and not imported, so
 * that the package needs no other one, wherever it is installed; `test/consumer.ts` holds it against the official
 * types.
 */
export type ResourceInfo = {
    url: string;
    description?: string | undefined;
    mimeType?: string | undefined;
    serviceName?: string | undefined;
    iconUrl?: string | undefined;
};
/**
 * An entry of `accepts`.
 */
export type PaymentRequirements = {
    scheme: string;
    network: Network;
    asset: string;
    amount: string;
    payTo: string;
    maxTimeoutSeconds: number;
    extra: Record<string, unknown>;
};
/**
 * What a 402 asks for.
 */
export type PaymentRequired = {
    x402Version: number;
    error?: string | undefined;
    resource: ResourceInfo;
    accepts: PaymentRequirements[];
    extensions?: Record<string, unknown> | undefined;
};
/**
 * What a buyer sends.
 */
export type PaymentPayload = {
    x402Version: number;
    resource?: ResourceInfo | undefined;
    accepted: PaymentRequirements;
    payload: Record<string, unknown>;
    extensions?: Record<string, unknown> | undefined;
};
/**
 * What x402 version 2 gives a scheme and takes of it, as far as it is used here. Declared here and not imported, so
 * that the package needs no other one, wherever it is installed; `test/consumer.ts` holds it against the official
 * types.
 */
export type PaymentPayloadResult = Pick<PaymentPayload, "x402Version" | "payload" | "extensions">;
/**
 * What x402 version 2 gives a scheme and takes of it, as far as it is used here. Declared here and not imported, so
 * that the package needs no other one, wherever it is installed; `test/consumer.ts` holds it against the official
 * types.
 */
export type PaymentPayloadContext = {
    /**
     * What the 402 declares.
     */
    extensions?: Record<string, unknown> | undefined;
    /**
     * The most that the buyer allows, smallest unit.
     */
    maxAmountPerPayment?: string | undefined;
};
/**
 * What x402 version 2 gives a scheme and takes of it, as far as it is used here. Declared here and not imported, so
 * that the package needs no other one, wherever it is installed; `test/consumer.ts` holds it against the official
 * types.
 */
export type ClientHooks = {
    onBeforePaymentCreation: (context: {
        paymentRequired: PaymentRequired;
        selectedRequirements: PaymentRequirements;
    }) => Promise<void>;
    onPaymentResponse: (context: {
        paymentPayload: PaymentPayload;
        requirements: PaymentRequirements;
        settleResponse?: {
            success: boolean;
        };
    }) => Promise<void>;
};
/**
 * What x402 version 2 gives a scheme and takes of it, as far as it is used here. Declared here and not imported, so
 * that the package needs no other one, wherever it is installed; `test/consumer.ts` holds it against the official
 * types.
 */
export type AssetAmount = {
    asset: string;
    amount: string;
    extra?: Record<string, unknown>;
};
/**
 * What x402 version 2 gives a scheme and takes of it, as far as it is used here. Declared here and not imported, so
 * that the package needs no other one, wherever it is installed; `test/consumer.ts` holds it against the official
 * types.
 */
export type Price = string | number | AssetAmount;
/**
 * What a facilitator supports.
 */
export type SupportedKind = {
    x402Version: number;
    scheme: string;
    network: Network;
    extra?: Record<string, unknown> | undefined;
};
/**
 * What x402 version 2 gives a scheme and takes of it, as far as it is used here. Declared here and not imported, so
 * that the package needs no other one, wherever it is installed; `test/consumer.ts` holds it against the official
 * types.
 */
export type Refusal = {
    abort: true;
    reason: string;
    message?: string;
};
/**
 * What x402 version 2 gives a scheme and takes of it, as far as it is used here. Declared here and not imported, so
 * that the package needs no other one, wherever it is installed; `test/consumer.ts` holds it against the official
 * types.
 */
export type ServerHooks = {
    onAfterVerify: (context: {
        paymentPayload: object;
        transportContext?: unknown;
        readonly requirements?: {
            readonly maxTimeoutSeconds: number;
        };
        result: {
            readonly isValid: boolean;
            readonly extensions?: {
                readonly [name: string]: unknown;
            };
        };
    }) => Promise<Refusal | void>;
    onBeforeSettle: (context: {
        paymentPayload: {
            readonly payload: object;
        };
        requirements: PaymentRequirements;
    }) => Promise<Refusal | void>;
    onAfterSettle: (context: {
        paymentPayload: object;
    }) => Promise<void>;
    onSettleFailure: (context: {
        paymentPayload: object;
        error?: unknown;
    }) => Promise<void>;
    onVerifiedPaymentCanceled: (context: {
        paymentPayload: object;
    }) => Promise<void>;
};
