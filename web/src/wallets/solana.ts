// Wallets of Solana, by Wallet Standard. The page has no node, so it says in a node's place what the gateway says of the account.

import { base64 } from '@scure/base';

import { WalletError } from '../../../sdk/typescript/src/errors.js';
import { solanaWallet, standardSigner, type SolanaRpc, type StandardWallet } from '../../../sdk/typescript/src/solana/index.js';
import type { PreparedPayment, Spend, Wallet } from '../../../sdk/typescript/src/types.js';
import { t } from '../texts.js';
import { type FoundWallet, ownIcon, ownName } from './wallet.js';

/** What Wallet Standard calls the clusters; their CAIP-2 ids are the beginnings of their genesis hashes. */
const CLUSTERS: Record<string, string> = {
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'solana:mainnet',
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1': 'solana:devnet',
  'solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z': 'solana:testnet',
};
const LOCAL = 'solana:localnet';
/** Of a token account: its bytes, and where its amount is. */
const TOKEN_ACCOUNT_BYTES = 165;
const AMOUNT_AT = 64;
const PAUSE_MS = 1000;
/** How long the gateway is asked whether it has seen the payer's own transaction. */
const SEEN_MS = 120_000;

interface Standard extends StandardWallet {
  name?: unknown;
  icon?: unknown;
  chains?: readonly string[];
}

interface ConnectFeature {
  connect(): Promise<{ accounts: readonly { address: string }[] }>;
}

interface EventsFeature {
  on(event: 'change', listener: (changed: { accounts?: readonly { address: string }[] }) => void): () => void;
}

/** Asks the gateway what the payer has to send first. */
type Asked = () => Promise<PreparedPayment>;

async function connected(standard: Standard): Promise<string> {
  const feature = standard.features['standard:connect'] as ConnectFeature | undefined;
  if (!feature) throw new WalletError('failed', 'the wallet cannot be connected');
  const { accounts } = await feature.connect();
  const address = (accounts[0] ?? standard.accounts[0])?.address;
  if (!address) throw new WalletError('rejected', 'the wallet does not give any account');
  return address;
}

/**
 * What a node would be asked for the payer's own transaction, as the gateway says it. The transaction itself is made by the SDK: it
 * approves no more than the limit, to no other program than the escrow.
 */
function gatewayNode(spend: Spend, prepared: PreparedPayment, ask: Asked): SolanaRpc {
  const { approval, wrap } = prepared;
  const calls = [approval?.call, ...(wrap?.calls ?? [])] as (Record<string, unknown> | undefined)[];
  const blockhash = calls.map((call) => call?.['recent_blockhash']).find((hash) => typeof hash === 'string');
  const program = calls[0]?.['program_id'];
  const account = (owner: unknown, data: Uint8Array): unknown => ({ value: { owner, data: [base64.encode(data), 'base64'] } });
  let accounts = 0;
  let until: number | undefined;
  return async (method) => {
    switch (method) {
      case 'getGenesisHash':
        return spend.signatureClusterId;
      case 'getAccountInfo': {
        // The mint is asked for first, then the payer's account of it.
        accounts += 1;
        if (accounts === 1) return account(program, new Uint8Array());
        const data = new Uint8Array(TOKEN_ACCOUNT_BYTES);
        new DataView(data.buffer).setBigUint64(AMOUNT_AT, spend.cap - BigInt(wrap?.amount ?? 0), true);
        return account(program, data);
      }
      case 'getLatestBlockhash':
        if (blockhash === undefined) throw new WalletError('failed', t('wallet.solana.block'));
        return { value: { blockhash, lastValidBlockHeight: 1 } };
      case 'getSignatureStatuses': {
        until ??= Date.now() + SEEN_MS;
        if (Date.now() > until) throw new WalletError('failed', t('wallet.solana.unseen'));
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        const { approval: missing, wrap: unwrapped } = await ask();
        return { value: [missing || unwrapped ? null : { confirmationStatus: 'confirmed' }] };
      }
      case 'getBlockHeight':
        return 0;
      default:
        throw new WalletError('failed', `the page has no node to ask for ${method}`);
    }
  };
}

function found(standard: Standard): FoundWallet {
  const name = ownName(standard.name, 'Solana wallet');
  const wallet: FoundWallet = {
    id: `solana:${name}`,
    name,
    ...ownIcon(standard.icon),
    family: 'solana',
    async open() {
      const address = await connected(standard);
      // Which cluster it is shows when something is paid.
      const of = (rpc: SolanaRpc, chainId: string): Wallet =>
        solanaWallet({ signer: standardSigner(standard, CLUSTERS[chainId] ?? LOCAL, address), rpc });
      const signing = of(() => Promise.reject(new WalletError('failed', 'the page has no node')), LOCAL);
      let asked: Asked | undefined;
      const opened: Wallet = {
        family: 'solana',
        account: address,
        // A signature names its cluster, and the wallet is told it with each transaction.
        connect: () => Promise.resolve(),
        async fund(spend, funding) {
          if (!asked) return [];
          const prepared = await asked();
          if (!prepared.approval && !prepared.wrap) return [];
          const own = of(gatewayNode(spend, prepared, asked), spend.chainId);
          await own.connect(spend.chainId);
          return own.fund(spend, funding);
        },
        verify: (spend, prepared) => signing.verify(spend, prepared),
        sign: (spend, prepared) => signing.sign(spend, prepared),
        refund: (payment) => signing.refund(payment),
        claim: (claim) => signing.claim(claim),
      };
      return {
        found: wallet,
        wallet: opened,
        lookAt: (ask) => {
          asked = ask;
        },
        onAccountChange(changed) {
          const events = standard.features['standard:events'] as EventsFeature | undefined;
          const end = events?.on('change', ({ accounts }) => {
            if (accounts && accounts[0]?.address !== address) changed();
          });
          return () => end?.();
        },
      };
    },
  };
  return wallet;
}

/** Tells of every wallet that can sign on Solana. */
export function discoverSolana(told: (wallet: FoundWallet) => void): () => void {
  const register = (...wallets: Standard[]): (() => void) => {
    for (const standard of wallets) {
      const isSolana = standard.chains?.some((chain) => chain.startsWith('solana:'));
      if (isSolana && standard.features['solana:signMessage'] && standard.features['standard:connect']) told(found(standard));
    }
    return () => undefined;
  };
  const api = Object.freeze({ register });
  const registered = (event: Event): void => {
    const { detail } = event as CustomEvent<unknown>;
    if (typeof detail === 'function') (detail as (it: typeof api) => void)(api);
  };
  window.addEventListener('wallet-standard:register-wallet', registered);
  window.dispatchEvent(new CustomEvent('wallet-standard:app-ready', { detail: api }));
  return () => window.removeEventListener('wallet-standard:register-wallet', registered);
}
