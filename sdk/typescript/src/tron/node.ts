// A node of Tron, by its HTTP API.

import { readJson } from '../answer.js';
import { bytesToHex, unhex } from '../bytes.js';
import { WalletError } from '../errors.js';
import { pause } from '../time.js';
import type { Draft } from './protobuf.js';
import type { TronTransaction } from './transaction.js';

const TIMEOUT_MS = 30_000;
const POLL_MS = 1000;
/** How long after its newest block a transaction of the payer's own is valid. */
const EXPIRATION_MS = 60_000n;
/** How long after its expiration a transaction may still be found in a block that the node has not seen yet. */
const EXPIRED_MS = 30_000;

/** What asks a node: a path such as `/wallet/getnowblock`, and a body. */
export type TronNode = (path: string, body: Record<string, unknown>) => Promise<unknown>;

/** A node at this address. */
export function httpNode(url: string, options: { fetch?: typeof fetch; headers?: Record<string, string> } = {}): TronNode {
  const base = url.replace(/\/+$/, '');
  const call: typeof fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  return async (path, body) => {
    try {
      const response = await call(base + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...options.headers },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      return await readJson(response);
    } catch (cause) {
      throw new WalletError('failed', `${path}: the node gives no answer`, { cause });
    }
  };
}

interface Block {
  blockID?: unknown;
  block_header?: { raw_data?: { number?: unknown; timestamp?: unknown } };
}

/** The number that CAIP-2 has for the node's network: the end of the first block's id. */
export async function networkOf(node: TronNode): Promise<string> {
  const { blockID } = (await node('/wallet/getblockbynum', { num: 0 })) as Block;
  if (typeof blockID !== 'string' || !/^[0-9a-f]{64}$/i.test(blockID))
    throw new WalletError('failed', 'the node does not show its first block');
  return `tron:${parseInt(blockID.slice(-8), 16)}`;
}

/** What a call of a contract answers, without sending it. */
export async function read(node: TronNode, owner: Uint8Array, contract: Uint8Array, data: Uint8Array): Promise<Uint8Array> {
  const answer = (await node('/wallet/triggerconstantcontract', {
    owner_address: `41${bytesToHex(owner)}`,
    contract_address: `41${bytesToHex(contract)}`,
    data: bytesToHex(data),
    visible: false,
  })) as { constant_result?: unknown };
  const [result] = Array.isArray(answer.constant_result) ? answer.constant_result : [];
  const bytes = unhex(result);
  if (!bytes?.length) throw new WalletError('failed', `the node says nothing of 41${bytesToHex(contract)}`);
  return bytes;
}

/** Time of the node's newest block, UNIX milliseconds, and what a transaction names of it. */
async function newest(node: TronNode): Promise<{ timestamp: bigint; refBlockBytes: Uint8Array; refBlockHash: Uint8Array }> {
  const block = (await node('/wallet/getnowblock', {})) as Block;
  const { number, timestamp } = block.block_header?.raw_data ?? {};
  const id = unhex(block.blockID);
  if (id?.length !== 32 || typeof number !== 'number' || typeof timestamp !== 'number')
    throw new WalletError('failed', 'the node shows no newest block');
  const counted = unhex(number.toString(16).padStart(16, '0'))!;
  return { timestamp: BigInt(timestamp), refBlockBytes: counted.slice(6), refBlockHash: id.slice(8, 16) };
}

/** Time of the newest block, UNIX seconds. */
export async function now(node: TronNode): Promise<bigint> {
  return (await newest(node)).timestamp / 1000n;
}

/** A call of the payer's own, for the newest block. */
export async function draftCall(
  node: TronNode,
  call: Pick<Draft, 'owner' | 'contract' | 'data' | 'callValue' | 'feeLimit'>,
): Promise<Draft> {
  const { timestamp, refBlockBytes, refBlockHash } = await newest(node);
  return { ...call, refBlockBytes, refBlockHash, timestamp: BigInt(Date.now()), expiration: timestamp + EXPIRATION_MS };
}

/** Sends a signed transaction, and waits until it is in a block and had its effect. */
export async function broadcast(node: TronNode, signed: TronTransaction, name: string, signal?: AbortSignal): Promise<string> {
  const id = signed.txID;
  const { result, code, message } = (await node('/wallet/broadcasttransaction', { ...signed })) as {
    result?: unknown;
    code?: unknown;
    message?: unknown;
  };
  if (result !== true) throw new WalletError('failed', `${name} was not taken: ${String(code)} ${said(message)}`);
  for (;;) {
    const info = (await node('/wallet/gettransactioninfobyid', { value: id })) as { id?: unknown; receipt?: { result?: unknown } };
    if (info.id !== undefined) {
      if (info.receipt?.result !== 'SUCCESS')
        throw new WalletError('failed', `${name}, ${id}, is on chain and failed: ${String(info.receipt?.result)}`);
      return id;
    }
    if (Date.now() > signed.raw_data.expiration + EXPIRED_MS) throw new WalletError('failed', `${name}, ${id}, was dropped`);
    await pause(POLL_MS, signal);
  }
}

/** Nodes write their messages in hexadecimal. */
function said(message: unknown): string {
  const bytes = unhex(message);
  return bytes ? new TextDecoder().decode(bytes) : String(message);
}
