// Wallets of EVM chains: EIP-6963 tells which there are, EIP-1193 speaks to them.

import { evmWallet, type Eip1193Provider } from '../../../sdk/typescript/src/evm/index.js';
import { type FoundWallet, ownIcon, ownName } from './wallet.js';

/** What EIP-1193 has besides `request`. */
interface Provider extends Eip1193Provider {
  on?(event: string, listener: (...values: unknown[]) => void): void;
  removeListener?(event: string, listener: (...values: unknown[]) => void): void;
}

interface Announced {
  info?: { uuid?: unknown; name?: unknown; icon?: unknown; rdns?: unknown };
  provider?: Provider;
}

function found(id: string, name: string, icon: { icon?: string }, provider: Provider): FoundWallet {
  const wallet: FoundWallet = {
    id,
    name,
    ...icon,
    family: 'evm',
    async open() {
      const opened = await evmWallet({ provider });
      return {
        found: wallet,
        wallet: opened,
        onAccountChange(changed) {
          const listener = (accounts: unknown): void => {
            const [first] = Array.isArray(accounts) ? accounts : [];
            if (String(first).toLowerCase() !== opened.account) changed();
          };
          provider.on?.('accountsChanged', listener);
          return () => provider.removeListener?.('accountsChanged', listener);
        },
      };
    },
  };
  return wallet;
}

/** Tells of every wallet; a browser with one that announces nothing has it as `window.ethereum`. */
export function discoverEvm(told: (wallet: FoundWallet) => void): () => void {
  const announced = (event: Event): void => {
    const { info, provider } = ((event as CustomEvent<Announced>).detail ?? {}) as Announced;
    if (typeof provider?.request !== 'function') return;
    const id = `evm:${typeof info?.rdns === 'string' && info.rdns ? info.rdns : String(info?.uuid)}`;
    told(found(id, ownName(info?.name, 'Wallet'), ownIcon(info?.icon), provider));
  };
  window.addEventListener('eip6963:announceProvider', announced);
  window.dispatchEvent(new Event('eip6963:requestProvider'));
  const injected = (window as { ethereum?: Provider }).ethereum;
  if (typeof injected?.request === 'function') told(found('evm:injected', 'Browser wallet', {}, injected));
  return () => window.removeEventListener('eip6963:announceProvider', announced);
}
