// How an EVM chain's node is asked for the terms of a payment that the escrow is to refund.

import { callData } from '../abi.js';
import { hex, unhex } from '../bytes.js';
import { WalletError } from '../errors.js';
import { REFUND, refundTerms } from '../escrow-abi.js';
import type { EscrowReader, Log } from '../escrow-abi.js';
import { ask } from './rpc.js';
import type { Eip1193Provider } from './rpc.js';

/** The bytes of the call that refunds a payment on an EVM chain. */
export async function refundCall(node: Eip1193Provider, escrow: string, paymentId: string): Promise<Uint8Array> {
  const filtered = async (topics: string[], fromBlock: string, toBlock: string): Promise<Log[]> => {
    const logs = await ask(node, 'eth_getLogs', [{ address: escrow, topics, fromBlock, toBlock }]);
    return Array.isArray(logs) ? (logs as Log[]) : [];
  };
  const reader: EscrowReader = {
    async call(data) {
      const answer = unhex(await ask(node, 'eth_call', [{ to: escrow, data: hex(data) }, 'latest']));
      if (!answer?.length) throw new WalletError('failed', `${escrow} is not an escrow on this chain`);
      return answer;
    },
    async logs(topic, paymentTopic, block) {
      const number = `0x${block.toString(16)}`;
      const found = await filtered([topic, paymentTopic], number, number).catch(() => []);
      // Where a contract's block numbers are another chain's (Arbitrum).
      return found.length ? found : filtered([topic, paymentTopic], '0x0', 'latest');
    },
    async now() {
      const block = (await ask(node, 'eth_getBlockByNumber', ['latest', false])) as { timestamp?: unknown } | null;
      return BigInt(String(block?.timestamp));
    },
  };
  return callData(REFUND, await refundTerms(reader, paymentId));
}
