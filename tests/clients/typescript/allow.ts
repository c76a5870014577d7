// Lets Permit2 take what a hundred payments of the order cost, so that no client needs to send a transaction.
import { createPublicClient, createWalletClient, erc20Abi, http, type Hex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { orderOf, place, POLL_MS } from './wallet.js';

interface Order {
  source: { asset_identifier: string };
  max_source_amount: string;
}

const here = place();
const { source, max_source_amount } = orderOf<Order>(here);
const [chain = '', token = ''] = source.asset_identifier.split('/erc20:');
const defaults = await fetch(`${here.gateway}/v1/defaults?chain_id=${chain}`);
const { permit2 } = (await defaults.json()) as { permit2: Hex };

const transport = http(here.node);
const wallet = createWalletClient({ account: privateKeyToAccount(here.key), transport });
const args = [permit2, 100n * BigInt(max_source_amount)] as const;
const hash = await wallet.writeContract({ address: token as Hex, abi: erc20Abi, functionName: 'approve', args, chain: null });
const { status } = await createPublicClient({ transport }).waitForTransactionReceipt({ hash, pollingInterval: POLL_MS });
if (status !== 'success') throw new Error(`${hash} reverted`);
