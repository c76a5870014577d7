// A node of an EVM chain, by EIP-1193: a browser's wallet, or JSON-RPC over HTTP.

import { readJson } from '../answer.js';
import { WalletError } from '../errors.js';

/** What browsers' wallets are (EIP-1193), and what {@link httpProvider} makes of a node's address. */
export interface Eip1193Provider {
  request(args: { method: string; params?: readonly unknown[] | object }): Promise<unknown>;
}

/** The person said no (EIP-1193). */
const REJECTED = 4001;
const TIMEOUT_MS = 30_000;

/** JSON-RPC over HTTP as a provider. */
export function httpProvider(
  url: string,
  options: { fetch?: typeof fetch; headers?: Record<string, string> } = {},
): Eip1193Provider {
  const call: typeof fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  let id = 0;
  return {
    async request({ method, params = [] }) {
      id += 1;
      const response = await call(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...options.headers },
        body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const answer = (await readJson(response)) as { result?: unknown; error?: { code?: number; message?: string } };
      if (answer.error) throw Object.assign(new Error(`${method}: ${answer.error.message}`), { code: answer.error.code });
      return answer.result;
    },
  };
}

/** Asks, with what goes wrong as a {@link WalletError}. */
export async function ask(provider: Eip1193Provider, method: string, params: readonly unknown[] = []): Promise<unknown> {
  try {
    return await provider.request({ method, params });
  } catch (cause) {
    const { code, message } = (cause ?? {}) as { code?: unknown; message?: unknown };
    if (code === REJECTED) throw new WalletError('rejected', `${method} was declined in the wallet`, { cause });
    throw new WalletError('failed', `${method}: ${typeof message === 'string' ? message : String(cause)}`, { cause });
  }
}

/** Asks for a number; nodes write them in hexadecimal. */
export async function askNumber(provider: Eip1193Provider, method: string, params: readonly unknown[] = []): Promise<bigint> {
  return quantity(await ask(provider, method, params), method);
}

/** A number as nodes write it. */
export function quantity(value: unknown, what: string): bigint {
  if (typeof value !== 'string' || !/^0x[0-9a-f]{1,64}$/i.test(value)) {
    throw new WalletError('failed', `the node says something as ${what} that is not a number: ${JSON.stringify(value)}`);
  }
  return BigInt(value);
}
