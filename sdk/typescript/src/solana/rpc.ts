// A node of Solana, by JSON-RPC over HTTP.

import { base64 } from '@scure/base';

import { readJson } from '../answer.js';
import { WalletError } from '../errors.js';

const TIMEOUT_MS = 30_000;
const COMMITMENT = { commitment: 'confirmed' };

/** What asks a node. */
export type SolanaRpc = (method: string, params: readonly unknown[]) => Promise<unknown>;

/** JSON-RPC over HTTP. */
export function httpRpc(url: string, options: { fetch?: typeof fetch; headers?: Record<string, string> } = {}): SolanaRpc {
  const call: typeof fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  let id = 0;
  return async (method, params) => {
    id += 1;
    let answer: { result?: unknown; error?: { message?: string } };
    try {
      const response = await call(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...options.headers },
        body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      answer = (await readJson(response)) as typeof answer;
    } catch (cause) {
      throw new WalletError('failed', `${method}: the node gives no answer`, { cause });
    }
    if (answer.error) throw new WalletError('failed', `${method}: ${answer.error.message}`);
    return answer.result;
  };
}

/** An account, as far as it is there. */
export interface AccountInfo {
  owner: string;
  data: Uint8Array;
}

/** What an account holds at a confirmed slot; `undefined` where there is none. */
export async function accountInfo(rpc: SolanaRpc, address: string): Promise<AccountInfo | undefined> {
  const answer = (await rpc('getAccountInfo', [address, { encoding: 'base64', ...COMMITMENT }])) as {
    value?: { owner?: unknown; data?: unknown } | null;
  } | null;
  const value = answer?.value;
  if (!value) return undefined;
  const text = Array.isArray(value.data) ? value.data[0] : undefined;
  if (typeof value.owner !== 'string' || typeof text !== 'string')
    throw new WalletError('failed', `the node says something of ${address} that is not an account`);
  return { owner: value.owner, data: base64.decode(text) };
}

/** A block that a transaction may name, and the last height at which it counts. */
export async function latestBlockhash(rpc: SolanaRpc): Promise<{ blockhash: string; lastValidBlockHeight: number }> {
  const answer = (await rpc('getLatestBlockhash', [COMMITMENT])) as {
    value?: { blockhash?: unknown; lastValidBlockHeight?: unknown };
  } | null;
  const { blockhash, lastValidBlockHeight } = answer?.value ?? {};
  if (typeof blockhash !== 'string' || typeof lastValidBlockHeight !== 'number')
    throw new WalletError('failed', 'the node names no block');
  return { blockhash, lastValidBlockHeight };
}
