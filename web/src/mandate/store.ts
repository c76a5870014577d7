// The mandates that were signed in this browser: with them one is handed over again, and ended.

import type { MandateDocument } from './document.js';

const PREFIX = 'gateway-mandate:v1:';

export interface KeptMandate {
  document: MandateDocument;
  /** The fragment of the link that asked for it: one link is signed once. */
  link: string;
  /** When it was signed. */
  at: string;
  memo?: string;
  returnUrl?: string;
  /** The transaction that ended it. */
  ended?: string;
}

function read(key: string): KeptMandate | undefined {
  try {
    const text = localStorage.getItem(key);
    return text === null ? undefined : (JSON.parse(text) as KeptMandate);
  } catch {
    return undefined;
  }
}

/** Every mandate that this browser keeps, the latest first. */
export function keptMandates(): KeptMandate[] {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    const found = keys.map(read).filter((mandate) => mandate !== undefined);
    return found.sort((one, other) => (one.at < other.at ? 1 : -1));
  } catch {
    return [];
  }
}

/** What was signed by this link and was not ended; another one of the same link would be a second allowance. */
export const signedBy = (link: string): KeptMandate | undefined => keptMandates().find((kept) => kept.link === link && kept.ended === undefined);

/** Keeps it; `false` where the browser does not. */
export function keepMandate(mandate: KeptMandate): boolean {
  const key = PREFIX + mandate.document.address;
  try {
    const text = JSON.stringify(mandate);
    localStorage.setItem(key, text);
    return localStorage.getItem(key) === text;
  } catch {
    return false;
  }
}

/** Notes that it was ended, where it is kept. */
export function noteEnded(address: string, transaction: string): void {
  const kept = read(PREFIX + address);
  if (kept) keepMandate({ ...kept, ended: transaction });
}

export function forgetMandate(address: string): void {
  try {
    localStorage.removeItem(PREFIX + address);
  } catch {
    // Nothing was kept.
  }
}
