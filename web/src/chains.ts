// Names and explorers of public chains. A chain that is not in the table is shown by its id, and nothing of it is linked.

import table from '../data/chains.json';

interface KnownChain {
  name: string;
  transaction: string;
}

const CHAINS: Record<string, KnownChain> = table;

const known = (chainId: string): KnownChain | undefined => (Object.hasOwn(CHAINS, chainId) ? CHAINS[chainId] : undefined);

/** The chain of a CAIP-19 asset. */
export const chainOf = (asset: string): string => asset.split('/')[0] ?? asset;

export const chainName = (chainId: string): string => known(chainId)?.name ?? chainId;

/** The page of a transaction at the chain's explorer; `undefined` where none is known. */
export function explorerLink(chainId: string, hash: string): string | undefined {
  // What leads to another host is only ever letters and digits.
  if (!/^[A-Za-z0-9]+$/.test(hash)) return undefined;
  return known(chainId)?.transaction.replace('{hash}', hash).replace('{bare}', hash.replace(/^0x/, ''));
}
