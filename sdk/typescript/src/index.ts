/**
 * Client of the cross-chain payment gateway, for Node.js from 20 on and for browsers.
 *
 * ```ts
 * import { Gateway, parseAmount } from 'gateway-client';
 * import { evmWallet } from 'gateway-client/evm';
 *
 * const gateway = new Gateway('https://pay.example');
 * const wallet = await evmWallet({ provider: window.ethereum });
 * const { status } = await gateway.pay(
 *   {
 *     source: { asset: 'eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48' },
 *     destination: { asset: 'eip155:10/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85', account: '0x…' },
 *     amount: parseAmount('25', 6),
 *     maxSource: parseAmount('25.5', 6),
 *   },
 *   wallet,
 *   { trust: { escrow: '0x…', reserver: '0x…', releaser: '0x…' } },
 * );
 * ```
 *
 * @module
 */
export { Gateway } from './gateway.js';
export { batchRequest } from './batches.js';
export type { ChargeOptions, ChargeResult, MandateOrder, MandateStep, SignedMandate, SignMandateOptions } from './mandates.js';
export type { WaitOptions, WatchOptions, QuoteOptions, SecretOptions } from './gateway.js';
export { formatAmount, parseAmount } from './amounts.js';
export { GatewayError, NoAnswer, PaymentFailed, StaleAddress, TimedOut, UsageError, VerificationError, WalletError } from './errors.js';
export { ERROR_CODES } from './codes.js';
export type { ErrorCode, RetryClassification } from './codes.js';
export { nextStep } from './retry.js';
export type { NextStep } from './retry.js';
export { onChainId, paymentId, quoteRequestId, termsHash } from './ids.js';
export { quoteHash } from './quotes.js';
export { familyOf, splitAsset } from './caip.js';
export { addressSpend, awardSpend, newCallerSecret, newRequestId, orderOf, orderRequest, spendOf, termsOf } from './spend.js';
export type { PaymentDefaults } from './spend.js';
export { releaserOf, verifierSetId } from './verifiers.js';
export { cancelMandate, claim, refund } from './escrow.js';
export type * from './types.js';
export type { components, operations, paths } from './api.js';
