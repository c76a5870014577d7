// A running network of gw-dev, as ../../README.md says: its addresses, its keys, and its gateway.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Gateway } from 'gateway-client';
import { evmWallet } from 'gateway-client/evm';
import { solanaKeypair, solanaWallet } from 'gateway-client/solana';
import { tronKey, tronWallet } from 'gateway-client/tron';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const PREFIXES = { eip155: 'EVM', solana: 'SOLANA', tron: 'TRON' };
const NODES = { eip155: 'EVM_RPC_URL', solana: 'SOLANA_RPC_URL', tron: 'TRON_API_URL' };

export const scenarios = JSON.parse(readFileSync(new URL('../../scenarios.json', import.meta.url), 'utf8'));
export const namespaceOf = (chain) => chain.split(':')[0];

/** The network that was started in `directory`; GW_DEV_DIRECTORY, or .dev of the repository, where it is left out. */
export async function network(directory = process.env.GW_DEV_DIRECTORY ?? join(ROOT, '.dev')) {
  const lines = readFileSync(join(directory, 'env'), 'utf8').matchAll(/^export (\w+)='(.*)'$/gm);
  const env = Object.fromEntries([...lines].map(([, name, value]) => [name, value]));
  const key = (name) => readFileSync(join(directory, 'examples', `${name}.key`), 'utf8').trim();
  const gateway = new Gateway(env.GATEWAY_URL);
  const { chains } = await gateway.defaults();
  const evmKey = () => privateKeyToAccount(`0x${key('evm').replace(/^0x/, '')}`);
  const wallets = {
    eip155: () => evmWallet({ account: evmKey(), rpc: env.EVM_RPC_URL }),
    solana: async () => solanaWallet({ signer: await solanaKeypair(JSON.parse(key('solana'))), rpc: env.SOLANA_RPC_URL }),
    tron: async () => tronWallet({ signer: tronKey(key('tron')), node: env.TRON_API_URL }),
  };
  return {
    gateway,
    env,
    /** Whether the network has a chain of this namespace. */
    has: (namespace) => env[NODES[namespace]] !== undefined,
    /** The payer of a namespace. */
    wallet: (namespace) => wallets[namespace](),
    /** A merchant on EVM chains, with a new key and nothing else. */
    merchant: () => evmWallet({ account: privateKeyToAccount(generatePrivateKey()), rpc: env.EVM_RPC_URL }),
    /** The payer on EVM chains as viem has accounts, the keypair of that on Solana, and the private key of that on Tron. */
    evmKey,
    solanaKey: () => key('solana'),
    tronKey: () => key('tron'),
    /** The accounts that the payer of a namespace knows without asking the gateway. */
    trust(namespace) {
      const prefix = PREFIXES[namespace];
      const pin = (name) => env[`${prefix}_${name}`];
      return {
        escrow: pin('ESCROW'),
        reserver: pin('RESERVER'),
        releaser: pin('RELEASER'),
        depositAddressFactory: pin('DEPOSIT_ADDRESS_FACTORY'),
        permit2: pin('PERMIT2'),
      };
    },
    /** The asset that a scenario names: as it is, or by chain and symbol. */
    asset({ chain, symbol, asset }) {
      if (asset) return asset;
      const ids = chain.includes(':') ? [chain] : Object.keys(chains).filter((id) => namespaceOf(id) === chain);
      const found = ids.flatMap((id) => chains[id].assets.filter((served) => served.symbol === symbol));
      if (ids.length !== 1 || found.length !== 1) throw new Error(`${chain} and ${symbol} are not one asset`);
      return found[0].asset_identifier;
    },
    /** The process ids of the parts of the network whose names begin so. */
    processes: (...names) => names.map((name) => Number(readFileSync(join(directory, `${name}.pid`), 'utf8'))),
  };
}
