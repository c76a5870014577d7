// What the shop asks for, as this page was handed it, and as the shop says it now.

import { readRequirement, SCHEME, type Requirement } from '../src/requirement.js';
import type { PaymentRequired, PaymentRequirements } from '../src/x402.js';
import { decoded } from './wire.js';

/** What src/paywall.js hands the page. */
export interface Handed {
  required: PaymentRequired;
  gateway: string;
  maxLockSeconds: number;
  pins: Record<string, { escrow: string; reserver: string; releaser: string }>;
}

/** One way to pay. */
export interface Offer {
  requirement: PaymentRequirements;
  wanted: Requirement;
}

export const handed: Handed = JSON.parse(document.getElementById('x402')?.textContent ?? 'null') as Handed;
/** The gateway's address; a path is the shop's own, which passes it on. */
export const gatewayUrl = new URL(handed.gateway, location.origin).href.replace(/\/+$/, '');

/** The ways to pay that this page can read; where there is none, why. */
export function offersOf({ accepts }: PaymentRequired): { offers: Offer[]; problem?: string } {
  const own = (Array.isArray(accepts) ? accepts : []).filter(({ scheme }) => scheme === SCHEME);
  let problem: string | undefined;
  const offers = own.flatMap((requirement) => {
    try {
      return [{ requirement, wanted: readRequirement(requirement) }];
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
      return [];
    }
  });
  return offers.length || problem === undefined ? { offers } : { offers, problem };
}

/**
 * What the shop asks for now.
 *
 * @throws {TypeError} where it does not say.
 */
export async function askedNow(): Promise<PaymentRequired> {
  const response = await fetch(location.href, { cache: 'no-store', credentials: 'same-origin', headers: { accept: 'application/json' } });
  const required = decoded(response.headers.get('payment-required'));
  void response.body?.cancel();
  if (!required || !Array.isArray(required['accepts'])) throw new TypeError(`the shop answers ${response.status}`);
  return required as PaymentRequired;
}

/** Whether the shop still takes what is shown. */
export const isOffered = (requirement: PaymentRequirements, { accepts }: PaymentRequired): boolean =>
  accepts.some((entry) => canonical(entry) === canonical(requirement));

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    member !== null && typeof member === 'object' && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}
