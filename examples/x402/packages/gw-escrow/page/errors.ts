// What went wrong before anything was sent, in words that say what to do.

import { GatewayError, NoAnswer, VerificationError, WalletError } from '../../../../../sdk/typescript/src/errors.js';
import { isRejected } from '../../../../../web/src/problems.js';
import { GwEscrowError } from '../src/errors.js';
import { say } from './texts.js';

export interface ProblemText {
  text: string;
  code?: string;
}

/** The shop does not say what it asks for. */
export class ShopAway extends Error {
  override readonly name = 'ShopAway';
}

/** Another tab of this browser is about to pay the same. */
export class PaidElsewhere extends Error {
  override readonly name = 'PaidElsewhere';
}

/** The error as a person is told it. What others say of it stays text. */
export function problemOf(error: unknown): ProblemText {
  if (error instanceof ShopAway) return { text: say('error.shop') };
  if (error instanceof PaidElsewhere) return { text: say('pay.elsewhere') };
  if (error instanceof GwEscrowError) return { text: ofClient(error), code: error.code };
  if (error instanceof NoAnswer) return { text: say('error.gateway') };
  if (error instanceof VerificationError) {
    return error.field === 'lock'
      ? { text: say('error.lock', { message: error.message }) }
      : { text: say('error.verify', { field: error.field }) };
  }
  if (error instanceof GatewayError) {
    const message = error.message.replace(`${error.code}: `, '');
    return { text: error.code === 'INSUFFICIENT_FUNDS' ? say('error.funds') : say('error.refused', { message }), code: error.code };
  }
  if (isRejected(error)) return { text: say('error.rejected') };
  const message =
    error instanceof WalletError || error instanceof Error
      ? error.message
      : String((error as { message?: unknown } | null)?.message ?? error);
  return { text: say('error.wallet', { message: message.slice(0, 300) }) };
}

function ofClient({ code, message }: GwEscrowError): string {
  switch (code) {
    case 'untrusted':
      return say('error.untrusted', { message });
    case 'gateway':
      return say('error.gateway');
    case 'late':
      return say('error.late');
    default:
      return say('error.lock', { message });
  }
}
