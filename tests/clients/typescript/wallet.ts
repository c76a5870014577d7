// What a wallet does for a client, with viem: it signs.
import { readFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { hashTypedData, type Hex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';

const QUOTE_SECONDS = 10;
const FULFILLMENT_SECONDS = 180;
export const POLL_MS = 250;

/** Where everything is: the arguments of each program. */
export interface Place {
  gateway: string;
  node: string;
  key: Hex;
  order: string;
}

export function place(): Place {
  const [gateway, node, key, order] = process.argv.slice(2);
  if (!gateway || !node || !key || !order) throw new Error('usage: GATEWAY RPC KEY_FILE ORDER_FILE');
  const text = readFileSync(key, 'utf8').trim();
  return { gateway, node, key: text.startsWith('0x') ? (text as Hex) : `0x${text}`, order };
}

/** The order in the file, with an id and times of its own. */
export function orderOf<Order>({ order }: Place): Order {
  const at = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();
  return {
    ...JSON.parse(readFileSync(order, 'utf8')),
    request_id: `client-${randomUUID()}`,
    quote_deadline: at(QUOTE_SECONDS),
    fulfillment_deadline: at(FULFILLMENT_SECONDS),
  };
}

/** Signs typed data whose digest is `message`. On a network of one's own; examples/evm rebuilds what it signs. */
export async function sign({ key }: Place, { message, message_prehash }: { message: string; message_prehash: string }): Promise<Hex> {
  const { domain, types, primaryType, message: value } = JSON.parse(message_prehash);
  delete types.EIP712Domain;
  const typed = { domain, types, primaryType, message: value };
  if (hashTypedData(typed) !== message) throw new Error('message is not the digest of message_prehash');
  return privateKeyToAccount(key).signTypedData(typed);
}

/** Ends the program: with 0 where the payment completed. */
export function tell(client: string, status: { payment_id: string; status: string }): void {
  console.log(JSON.stringify({ client, payment_id: status.payment_id, status: status.status }));
  process.exitCode = status.status === 'completed' ? 0 : 1;
}
