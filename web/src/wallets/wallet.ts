// A wallet of this browser, before and after it is connected.

import type { Family, PreparedPayment, Wallet } from '../../../sdk/typescript/src/types.js';

/** A wallet that announced itself. */
export interface FoundWallet {
  /** Names it among all wallets, also when the page is loaded again. */
  id: string;
  name: string;
  /** A picture as `data:` address; none is fetched from elsewhere. */
  icon?: string;
  family: Family;
  /** Asks the wallet for an account. */
  open(): Promise<OpenWallet>;
}

/** A wallet that gave an account. */
export interface OpenWallet {
  found: FoundWallet;
  wallet: Wallet;
  /** How the gateway is asked what the payer has to send first, for wallets that come without a node of their own. */
  lookAt?(ask: () => Promise<PreparedPayment>): void;
  /** Tells when the wallet's account is another one; resolves to what ends it. */
  onAccountChange(changed: () => void): () => void;
}

/** The picture, where it needs nobody to be shown. */
export function ownIcon(icon: unknown): { icon?: string } {
  return typeof icon === 'string' && /^data:image\/(png|svg\+xml|webp|gif|jpeg);/.test(icon) ? { icon } : {};
}

/** A name as it may stand in a button. */
export const ownName = (name: unknown, otherwise: string): string => (typeof name === 'string' && name.trim() ? name.trim().slice(0, 40) : otherwise);
