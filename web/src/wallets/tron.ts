// Wallets of Tron: `window.tron` (TIP-1193), or `window.tronLink` of older ones. The page has no node: what is signed is Permit2's
// typed data, where Permit2 has its allowance, or transactions that the gateway sends. Either is what the SDK rebuilt.

import { WalletError } from '../../../sdk/typescript/src/errors.js';
import { tronWallet, typedDataSigner, type TronWebLike } from '../../../sdk/typescript/src/tron/index.js';
import { answered, walletError } from '../../../sdk/typescript/src/tron/wallet.js';
import type { Wallet } from '../../../sdk/typescript/src/types.js';
import { t } from '../texts.js';
import { type FoundWallet, ownIcon, ownName } from './wallet.js';

/** Comes from a wallet that is injected after the page has begun. */
const LATE = 'tronLink#initialized';
/** What a wallet says that was asked for its accounts by the older way. */
const GRANTED = 200;

type TronWeb = Pick<TronWebLike, 'defaultAddress' | 'trx'>;

interface Provider {
  request(asked: { method: string; params?: unknown }): Promise<unknown>;
  tronWeb?: TronWeb | false;
  on?(event: string, listener: (value: unknown) => void): void;
  removeListener?(event: string, listener: (value: unknown) => void): void;
}

interface Announced {
  info?: { name?: unknown; icon?: unknown };
  provider?: Provider;
}

const codeOf = (error: unknown): unknown => (error as { code?: unknown } | null)?.code;

/** The number of the chain that the wallet is on; `undefined` where it does not tell. */
async function chainOf(provider: Provider): Promise<string | undefined> {
  try {
    const id = await provider.request({ method: 'eth_chainId' });
    return typeof id === 'string' && /^0x[0-9a-f]+$/i.test(id) ? `tron:${BigInt(id)}` : undefined;
  } catch {
    return undefined;
  }
}

async function changeTo(provider: Provider, chainId: string): Promise<void> {
  const current = await chainOf(provider);
  if (current === undefined || current === chainId) return;
  try {
    const number = `0x${BigInt(chainId.split(':')[1] ?? '').toString(16)}`;
    await provider.request({ method: 'wallet_switchEthereumChain', params: [{ chainId: number }] });
  } catch (error) {
    const { reason, message } = walletError(error);
    throw new WalletError(reason === 'rejected' ? 'rejected' : 'chain', message, { cause: error });
  }
  if ((await chainOf(provider)) !== chainId) throw new WalletError('chain', `the wallet is not on ${chainId}`);
}

function found(id: string, name: string, icon: { icon?: string }, provider: Provider, method: string): FoundWallet {
  const wallet: FoundWallet = {
    id,
    name,
    ...icon,
    family: 'tron',
    async open() {
      const answer = await answered(() => provider.request({ method }));
      const code = codeOf(answer);
      if (code !== undefined && code !== GRANTED) throw walletError(answer);
      const web = provider.tronWeb || (window as { tronWeb?: TronWeb }).tronWeb;
      const address = web ? web.defaultAddress.base58 : false;
      if (!web || !address) throw new WalletError('rejected', 'the wallet does not give any account');
      // One that signs no typed data pays by transactions alone, and the gateway is asked for these.
      const signTypedData = typedDataSigner(web.trx);
      const signer = {
        address,
        sign: (transaction: unknown): Promise<{ signature?: string[] }> => web.trx.sign(transaction),
        ...(signTypedData ? { signTypedData } : {}),
      };
      const signing = tronWallet({ signer, node: () => Promise.reject(new WalletError('failed', t('wrap.tron'))) });
      const opened: Wallet = {
        family: 'tron',
        account: signing.account,
        ...(signing.messageScheme ? { messageScheme: signing.messageScheme } : {}),
        connect: (chainId) => changeTo(provider, chainId),
        // An allowance that is missing is one of the messages; coins would be wrapped through a node, which the page does not have.
        fund: () => Promise.resolve([]),
        verify: (spend, prepared) => signing.verify(spend, prepared),
        sign: (spend, prepared) => signing.sign(spend, prepared),
        refund: (payment) => signing.refund(payment),
        claim: (claim) => signing.claim(claim),
      };
      return {
        found: wallet,
        wallet: opened,
        onAccountChange(changed) {
          const listener = (accounts: unknown): void => {
            const [first] = Array.isArray(accounts) ? accounts : [];
            if (first !== address) changed();
          };
          provider.on?.('accountsChanged', listener);
          return () => provider.removeListener?.('accountsChanged', listener);
        },
      };
    },
  };
  return wallet;
}

/** Tells of every wallet: those that announce themselves (TIP-6963), and the one that is injected. */
export function discoverTron(told: (wallet: FoundWallet) => void): () => void {
  const announced = (event: Event): void => {
    const { info, provider } = ((event as CustomEvent<Announced>).detail ?? {}) as Announced;
    if (typeof provider?.request !== 'function') return;
    const name = ownName(info?.name, 'Tron wallet');
    told(found(`tron:${name}`, name, ownIcon(info?.icon), provider, 'eth_requestAccounts'));
  };
  window.addEventListener('TIP6963:announceProvider', announced);
  window.dispatchEvent(new Event('TIP6963:requestProvider'));
  const injected = (): void => {
    const { tron, tronLink } = window as { tron?: Provider; tronLink?: Provider };
    if (typeof tron?.request === 'function') told(found('tron:injected', 'TronLink', {}, tron, 'eth_requestAccounts'));
    else if (typeof tronLink?.request === 'function') told(found('tron:injected', 'TronLink', {}, tronLink, 'tron_requestAccounts'));
  };
  injected();
  window.addEventListener(LATE, injected);
  return () => {
    window.removeEventListener('TIP6963:announceProvider', announced);
    window.removeEventListener(LATE, injected);
  };
}
