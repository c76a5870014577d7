// The payer's own account on a network of gw-dev as an exchange has one: it sends a token by an ordinary transfer, and knows nothing of
// the payment. viem and tronweb do it, so that the SDK has no part in it.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { TronWeb } from 'tronweb';
import { createPublicClient, createWalletClient, erc20Abi, getAddress, http, toHex } from 'viem';
import { openAddress as openOnEvm } from 'gateway-client/evm';
import { openAddress as openOnTron } from 'gateway-client/tron';

const TRANSFER = 'transfer(address,uint256)';
const FEE_SUN = 100_000_000;
const PATIENCE_MS = 60_000;
const randomAddress = () => crypto.getRandomValues(new Uint8Array(20));

function onEvm({ env, evmKey }) {
  const transport = http(env.EVM_RPC_URL);
  const client = createPublicClient({ transport });
  return {
    openAddress: openOnEvm,
    newAccount: () => toHex(randomAddress()),
    held: (address, account) =>
      client.readContract({ address, abi: erc20Abi, functionName: 'balanceOf', args: [getAddress(account)] }),
    async send(address, to, amount) {
      const wallet = createWalletClient({ account: evmKey(), transport });
      const transfer = { address, abi: erc20Abi, functionName: 'transfer', args: [getAddress(to), amount], chain: null };
      const hash = await wallet.writeContract(transfer);
      const { status } = await client.waitForTransactionReceipt({ hash });
      assert.equal(status, 'success');
    },
  };
}

function onTron({ env, tronKey }) {
  const web = new TronWeb({ fullHost: env.TRON_API_URL, privateKey: tronKey().replace(/^0x/, '') });
  const { transactionBuilder: builder, trx } = web;
  const parameter = (type, value) => ({ type, value });
  return {
    openAddress: openOnTron,
    newAccount: () => TronWeb.address.fromHex(`41${toHex(randomAddress()).slice(2)}`),
    async held(token, account) {
      const answer = await builder.triggerConstantContract(token, 'balanceOf(address)', {}, [parameter('address', account)]);
      return BigInt(`0x${answer.constant_result[0]}`);
    },
    async send(token, to, amount) {
      const parameters = [parameter('address', to), parameter('uint256', String(amount))];
      const { transaction } = await builder.triggerSmartContract(token, TRANSFER, { feeLimit: FEE_SUN, txLocal: true }, parameters);
      const { txid, ...answer } = await trx.sendRawTransaction(await trx.sign(transaction));
      assert.equal(answer.result, true, JSON.stringify(answer));
      for (const end = Date.now() + PATIENCE_MS; ; await pause(500)) {
        const { receipt } = await trx.getUnconfirmedTransactionInfo(txid);
        if (receipt) return assert.equal(receipt.result, 'SUCCESS');
        assert.ok(Date.now() < end, `${txid} is in no block`);
      }
    },
  };
}

const EXCHANGES = { eip155: onEvm, tron: onTron };

/** The exchange on chains of a namespace: `openAddress` of the payer there, an account that nobody has the key of, transfers, balances. */
export function exchangeOf(namespace, net) {
  const exchange = EXCHANGES[namespace];
  if (!exchange) throw new Error(`nothing is paid by an address on ${namespace}`);
  return exchange(net);
}
