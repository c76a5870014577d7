// Every wallet that this browser has.

import { useEffect, useState } from 'preact/hooks';

import { discoverEvm } from './evm.js';
import { discoverSolana } from './solana.js';
import { discoverTron } from './tron.js';
import type { FoundWallet } from './wallet.js';

export type { FoundWallet, OpenWallet } from './wallet.js';

/** The wallets, as they announce themselves. */
export function useWallets(): FoundWallet[] {
  const [wallets, setWallets] = useState<FoundWallet[]>([]);
  useEffect(() => {
    const told = (wallet: FoundWallet): void =>
      setWallets((known) => {
        if (known.some(({ id }) => id === wallet.id)) return known;
        // What stands in for wallets that announce nothing gives way to those that do.
        const others = known.filter(({ id, family }) => family !== wallet.family || !id.endsWith(':injected'));
        const isSpare = wallet.id.endsWith(':injected') && known.some(({ family }) => family === wallet.family);
        return isSpare ? known : [...others, wallet];
      });
    const ends = [discoverEvm(told), discoverSolana(told), discoverTron(told)];
    return () => ends.forEach((end) => end());
  }, []);
  return wallets;
}
