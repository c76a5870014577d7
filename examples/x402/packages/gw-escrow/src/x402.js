/**
 * What x402 version 2 gives a scheme and takes of it, as far as it is used here. Declared here and not imported, so
 * that the package needs no other one, wherever it is installed; `test/consumer.ts` holds it against the official
 * types.
 *
 * @typedef {`${string}:${string}`} Network CAIP-2.
 *
 * @typedef {object} ResourceInfo
 * @property {string} url
 * @property {string} [description]
 * @property {string} [mimeType]
 * @property {string} [serviceName]
 * @property {string} [iconUrl]
 *
 * @typedef {object} PaymentRequirements An entry of `accepts`.
 * @property {string} scheme
 * @property {Network} network
 * @property {string} asset
 * @property {string} amount
 * @property {string} payTo
 * @property {number} maxTimeoutSeconds
 * @property {Record<string, unknown>} extra
 *
 * @typedef {object} PaymentRequired What a 402 asks for.
 * @property {number} x402Version
 * @property {string} [error]
 * @property {ResourceInfo} resource
 * @property {PaymentRequirements[]} accepts
 * @property {Record<string, unknown>} [extensions]
 *
 * @typedef {object} PaymentPayload What a buyer sends.
 * @property {number} x402Version
 * @property {ResourceInfo} [resource]
 * @property {PaymentRequirements} accepted
 * @property {Record<string, unknown>} payload
 * @property {Record<string, unknown>} [extensions]
 *
 * @typedef {Pick<PaymentPayload, "x402Version" | "payload" | "extensions">} PaymentPayloadResult
 *
 * @typedef {object} PaymentPayloadContext
 * @property {Record<string, unknown>} [extensions] What the 402 declares.
 * @property {string} [maxAmountPerPayment] The most that the buyer allows, smallest unit.
 *
 * @typedef {object} ClientHooks
 * @property {(context: { paymentRequired: PaymentRequired, selectedRequirements: PaymentRequirements }) =>
 *   Promise<void>} onBeforePaymentCreation
 * @property {(context: { paymentPayload: PaymentPayload, requirements: PaymentRequirements,
 *   settleResponse?: { success: boolean } }) => Promise<void>} onPaymentResponse
 *
 * @typedef {{ asset: string, amount: string, extra?: Record<string, unknown> }} AssetAmount
 * @typedef {string | number | AssetAmount} Price
 *
 * @typedef {object} SupportedKind What a facilitator supports.
 * @property {number} x402Version
 * @property {string} scheme
 * @property {Network} network
 * @property {Record<string, unknown>} [extra]
 *
 * @typedef {{ abort: true, reason: string, message?: string }} Refusal
 *
 * @typedef {object} ServerHooks
 * @property {(context: { paymentPayload: object, transportContext?: unknown,
 *   readonly requirements?: { readonly maxTimeoutSeconds: number },
 *   result: { readonly isValid: boolean, readonly extensions?: { readonly [name: string]: unknown } } }) =>
 *   Promise<Refusal | void>} onAfterVerify
 * @property {(context: { paymentPayload: { readonly payload: object }, requirements: PaymentRequirements }) =>
 *   Promise<Refusal | void>} onBeforeSettle
 * @property {(context: { paymentPayload: object }) => Promise<void>} onAfterSettle
 * @property {(context: { paymentPayload: object, error?: unknown }) => Promise<void>} onSettleFailure
 * @property {(context: { paymentPayload: object }) => Promise<void>} onVerifiedPaymentCanceled
 */

export {};
