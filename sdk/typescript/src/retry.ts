// What to do about an error: the gateway's `retry_classification` as decisions.

import { ERROR_CODES } from './codes.js';
import type { RetryClassification } from './codes.js';
import { GatewayError, NoAnswer, PaymentFailed } from './errors.js';

/**
 * - `resend`: the same body again, under the same `request_id`, after `afterMs`. It can never start a second payment.
 * - `resend-when-funded`: the same, once the account holds or allows enough.
 * - `fix`: the request is wrong; correct it. The `request_id` is free where {@link GatewayError.requestIdReusable} says so.
 * - `new-request`: another `request_id`, after making sure that another payment is wanted.
 * - `reconcile`: find out what became of the earlier one first, by `resolve`, `status` or the escrow itself.
 * - `stop`: nothing that the caller changes helps.
 */
export type NextStep = 'resend' | 'resend-when-funded' | 'fix' | 'new-request' | 'reconcile' | 'stop';

const STEPS: Record<RetryClassification, NextStep> = {
  RETRY_AFTER_DELAY: 'resend',
  RETRY_WITH_NEW_REQUEST_ID: 'new-request',
  NOT_RETRYABLE_FIX_REQUEST: 'fix',
  NOT_RETRYABLE: 'stop',
  RECONCILE_THEN_DECIDE: 'reconcile',
};
/** What helps against these is the payer's own transaction, and not time. */
const UNFUNDED = new Set(['INSUFFICIENT_FUNDS', 'INSUFFICIENT_ALLOWANCE']);
/** The same again is how these are reconciled: it finds the payment where there is one. */
const RECONCILED_BY_RESENDING = new Set(['OUTCOME_UNKNOWN', 'INTERNAL_ERROR']);

/**
 * What to do about an error, or about the failure of a payment. An error that nobody classified is `reconcile`: it is not
 * known to be safe to ask for anything else than the same again.
 */
export function nextStep(error: unknown): NextStep {
  if (error instanceof NoAnswer) return 'resend';
  if (error instanceof PaymentFailed) return classified(error.failure?.code, error.failure?.retry_classification);
  if (error instanceof GatewayError) return classified(error.code, error.retryClassification, error.status);
  return 'stop';
}

function classified(code: string | undefined, classification: RetryClassification | undefined, status?: number): NextStep {
  if (code && UNFUNDED.has(code)) return 'resend-when-funded';
  if (code && status !== undefined && RECONCILED_BY_RESENDING.has(code)) return 'resend';
  const known = (ERROR_CODES as Record<string, { retry: RetryClassification } | undefined>)[code ?? ''];
  const retry = classification ?? known?.retry;
  return retry ? STEPS[retry] : 'reconcile';
}

/**
 * Whether a call is sent again by itself: only where the same body may be answered otherwise without anybody doing anything.
 * Another 5xx that nobody classified is, too, as the same again is always safe.
 */
export function isResent(error: unknown): error is GatewayError | NoAnswer {
  if (error instanceof NoAnswer) return true;
  if (!(error instanceof GatewayError) || (error.status !== 429 && error.status < 500)) return false;
  const step = nextStep(error);
  return step === 'resend' || step === 'reconcile';
}
