// What went wrong, in words that say what to do.

import { GatewayError, NoAnswer, StaleAddress, UsageError, VerificationError, WalletError } from '../../sdk/typescript/src/errors.js';
import { chainName } from './chains.js';
import { t, type TextName } from './texts.js';

/** Whether something in front of the gateway answered, or it gave no reason: that refuses nothing. */
export const isForeign = (error: GatewayError): boolean => error.code.startsWith('HTTP_');

/** Whether the gateway itself says that it has no such payment. A 404 of something in front of it says nothing of a payment. */
export const isUnknownPayment = (error: unknown): boolean => error instanceof GatewayError && error.code === 'PAYMENT_NOT_FOUND';

export interface ProblemText {
  text: string;
  code?: string;
  href?: string;
}

/** Another tab of this browser is about to pay the same. */
export class PaidElsewhere extends Error {
  override readonly name = 'PaidElsewhere';
}

/** The gateway gave a deposit address that is not the order's. */
export class WrongAddress extends Error {
  override readonly name = 'WrongAddress';

  constructor(readonly field: string) {
    super(`the deposit address differs in ${field}`);
  }
}

/** The gateway answered for something else than it was asked. */
export class WrongAnswer extends Error {
  override readonly name = 'WrongAnswer';

  constructor(readonly field: string) {
    super(`the answer differs in ${field}`);
  }
}

/** By EIP-1193: the person said no. Wallets on Solana and Tron use it, too, or say so in words. */
const REJECTED = 4001;
const REJECTION = /reject|denied|declin|cancel/i;

const codeOf = (error: unknown): unknown => (error as { code?: unknown } | null)?.code;

const messageOf = (error: unknown): string => {
  const message = (error as { message?: unknown } | null)?.message;
  return typeof message === 'string' && message ? message : String(error);
};

/** Whether the person declined in the wallet. */
export function isRejected(error: unknown): boolean {
  if (error instanceof WalletError) return error.reason === 'rejected';
  if (error instanceof GatewayError || error instanceof NoAnswer || error instanceof VerificationError) return false;
  return codeOf(error) === REJECTED || codeOf(error) === 'ACTION_REJECTED' || REJECTION.test(messageOf(error));
}

/**
 * The error as a person is told it. What others say of it stays text.
 *
 * @param differs What is said where a signature is asked for over something else than is shown.
 */
export function problemOf(error: unknown, differs: TextName = 'error.verify'): ProblemText {
  if (error instanceof PaidElsewhere) return { text: t('pay.elsewhere') };
  if (isRejected(error)) return { text: t('error.cancelled') };
  if (error instanceof NoAnswer) return { text: t('error.offline') };
  if (error instanceof WrongAddress) return { text: t('error.verify.address'), code: error.field };
  if (error instanceof StaleAddress) return { text: t('address.stale'), code: error.field };
  if (error instanceof WrongAnswer) return { text: t('error.answer'), code: error.field };
  if (error instanceof VerificationError) return { text: t(differs), code: error.field };
  if (error instanceof UsageError) return { text: t('error.usage', { message: error.message }) };
  if (error instanceof GatewayError) {
    const href = error.docsUrl !== undefined && /^https?:\/\//.test(error.docsUrl) ? { href: error.docsUrl } : {};
    return { text: refusal(error), code: error.code, ...href };
  }
  return { text: t('error.wallet', { message: messageOf(error).slice(0, 300) }) };
}

/** Why the wallet is not on the chain that is needed. */
export function networkProblem(error: WalletError, chainId: string): string {
  const chain = chainName(chainId);
  if (error.reason === 'rejected') return t('network.refused', { chain });
  return t(error.reason === 'chain' ? 'network.unknown' : 'network.switch', { chain });
}

function refusal(error: GatewayError): string {
  switch (error.code) {
    case 'INSUFFICIENT_FUNDS':
      return t('error.funds');
    case 'IDEMPOTENCY_TERMS_MISMATCH':
    case 'REQUEST_ID_TAKEN':
      return t('error.taken');
    case 'RATE_LIMITED':
    case 'TOO_MANY_DEPOSIT_ADDRESSES':
    case 'TOO_MANY_QUOTE_REQUESTS':
      return t('error.busy');
    case 'PAYMENT_NOT_FOUND':
    case 'QUOTE_REQUEST_NOT_FOUND':
      return t('missing.text');
    case 'REQUEST_TOO_LARGE':
      return t('error.large');
    case 'QUOTE_EXPIRED':
      return t('quotes.lapsed');
    default:
      return t('error.refused', { message: error.message.replace(`${error.code}: `, '') });
  }
}
