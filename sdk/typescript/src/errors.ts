// What can go wrong, one class for each thing that a caller does about it.

import type { RetryClassification } from './codes.js';
import type { ErrorBody, PaymentFailure, PaymentResponse, PaymentStatusRead } from './types.js';

/** The name of a member with which messages about a body, a parameter or a header begin. */
const FIELD = /^([@\w$][\w@$.[\]-]*): /;

/** The gateway refused. Branch on `code`; {@link nextStep} says what to do. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  /**
   * Stable identity of the error, one of {@link ERROR_CODES} or of a later table. `HTTP_404` and the like where something else than a
   * gateway answered.
   */
  readonly code: string;
  /** HTTP status. */
  readonly status: number;
  /** What to do next; `undefined` where the gateway does not classify it, which is not the same as safe to retry. */
  readonly retryClassification: RetryClassification | undefined;
  /** Whether no payment exists under the `request_id` that was sent, so that it is free; `false` where the gateway does not say. */
  readonly requestIdReusable: boolean;
  /** The member of the request that is at fault. */
  readonly field: string | undefined;
  /** Page that describes the code. */
  readonly docsUrl: string | undefined;
  /** Id of the call, to be quoted to support. Not the `request_id` of a payment. */
  readonly requestId: string | undefined;
  /** The payment that the error is about, where it is about one. */
  readonly paymentId: string | undefined;
  /** How long to wait before the next try, by `Retry-After`, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, body: ErrorBody, retryAfterMs?: number) {
    super(`${body.code}: ${body.message}`);
    this.code = body.code;
    this.status = status;
    this.retryClassification = body.retry_classification;
    this.requestIdReusable = body.request_id_reusable ?? false;
    this.field = FIELD.exec(body.message)?.[1];
    this.docsUrl = body.docs_url;
    this.requestId = body.request_id;
    this.paymentId = body.payment_id;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * There was no answer that says anything: no connection, a time-out, or a fault on the way. Whether a submission was accepted
 * is not known. Send the same body again, under the same `request_id`: it can never start a second payment.
 */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  /** HTTP status, where a proxy answered. */
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: { cause?: unknown; status?: number; retryAfterMs?: number } = {}) {
    super(message, { cause: options.cause });
    this.status = options.status;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** What was to be signed is not what the payer asked for, or names accounts that it does not trust. Nothing was signed. */
export class VerificationError extends Error {
  override readonly name: string = 'VerificationError';
  /** What differs, such as `witness.releaser`. */
  readonly field: string;
  readonly expected: string | undefined;
  readonly found: string | undefined;

  constructor(field: string, message: string, expected?: string, found?: string) {
    super(message);
    this.field = field;
    this.expected = expected;
    this.found = found;
  }

  /** The difference in one member. */
  static mismatch(field: string, expected: unknown, found: unknown): VerificationError {
    const rule = `${field} must be ${expected}, and the gateway asks for a signature over ${found}`;
    return new VerificationError(field, rule, String(expected), String(found));
  }
}

/**
 * The payment's deposit address is one of before, whose time is over or was set by somebody else: nothing may be sent there. `field` is
 * `status` or `pay_by`. Under another `requestId` there is another address; a payment that goes on can be waited for.
 */
export class StaleAddress extends VerificationError {
  override readonly name = 'StaleAddress';
  readonly paymentId: string;

  constructor(paymentId: string, field: 'status' | 'pay_by', expected: string, found: string) {
    super(field, `nothing may be sent for ${paymentId} any more: its ${field} must be ${expected}, and is ${found}`, expected, found);
    this.paymentId = paymentId;
  }
}

/** The wallet or its node would not do it: a signature that was declined, another chain, a transaction that failed. */
export class WalletError extends Error {
  override readonly name = 'WalletError';
  /**
   * `rejected`: the person said no. `chain`: wallet or node are of another chain. `fee`: it would cost more than allowed. `failed`: the
   * rest.
   */
  readonly reason: 'rejected' | 'chain' | 'fee' | 'failed';

  constructor(reason: WalletError['reason'], message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.reason = reason;
  }
}

/** A payment that ended as `failed`; made by {@link PaymentFailed.unlessCompleted} for those who want it thrown. */
export class PaymentFailed extends Error {
  override readonly name = 'PaymentFailed';
  readonly paymentId: string;
  readonly failure: PaymentFailure | undefined;

  constructor(status: PaymentResponse | PaymentStatusRead) {
    super(`${status.payment_id} failed: ${status.error ? `${status.error.code}: ${status.error.message}` : 'no reason was given'}`);
    this.paymentId = status.payment_id;
    this.failure = status.error;
  }

  /** @throws {PaymentFailed} where the payment failed. */
  static unlessCompleted<T extends PaymentResponse | PaymentStatusRead>(status: T): T {
    if (status.status === 'failed') throw new PaymentFailed(status);
    return status;
  }
}

/** It was not waited for any longer. What was accepted goes on. */
export class TimedOut extends Error {
  override readonly name = 'TimedOut';
}

/** An argument cannot be meant. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
