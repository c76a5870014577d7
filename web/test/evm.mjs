// A wallet on EVM chains: viem's account and a node, announced by EIP-6963.
import { createPublicClient, createWalletClient, erc20Abi, http, parseEther } from 'viem';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';

const POLL_MS = 200;
const REJECTED = 4001;
const UNKNOWN_CHAIN = 4902;

const rejected = () => Object.assign(new Error('User rejected the request.'), { code: REJECTED });

/** A payer with coins, and with tokens of `token` out of the purse of `bank`. */
export async function newPayer(rpc, bankKey, token, units) {
  const bank = privateKeyToAccount(bankKey);
  const transport = http(rpc);
  const reader = createPublicClient({ transport, pollingInterval: POLL_MS });
  const chain = { id: await reader.getChainId(), name: 'dev', nativeCurrency: { name: 'E', symbol: 'E', decimals: 18 }, rpcUrls: { default: { http: [rpc] } } };
  const purse = createWalletClient({ account: bank, chain, transport });
  const key = generatePrivateKey();
  const { address } = privateKeyToAccount(key);
  for (const hash of [
    await purse.sendTransaction({ to: address, value: parseEther('0.01') }),
    await purse.writeContract({ address: token, abi: erc20Abi, functionName: 'transfer', args: [address, units] }),
  ]) {
    await reader.waitForTransactionReceipt({ hash });
  }
  return { key, address, reader };
}

/** `state` may be changed while the wallet is used: `chainId`, `known` chains, `rejects` the names of methods that are declined. */
export function evmWallet(rpc, key, state) {
  const account = privateKeyToAccount(key);
  const reader = createPublicClient({ transport: http(rpc), pollingInterval: POLL_MS });
  const asked = [];
  const handle = async (method, params = []) => {
    asked.push(method);
    if (state.rejects?.has(method)) throw rejected();
    switch (method) {
      case 'eth_requestAccounts':
      case 'eth_accounts':
        return [account.address];
      case 'eth_chainId':
        return `0x${state.chainId.toString(16)}`;
      case 'wallet_switchEthereumChain': {
        const id = Number(params[0].chainId);
        if (!state.known.has(id)) throw Object.assign(new Error('Unrecognized chain ID'), { code: UNKNOWN_CHAIN });
        state.chainId = id;
        return null;
      }
      case 'eth_signTypedData_v4': {
        const { domain, types, primaryType, message } = JSON.parse(params[1]);
        if (Number(domain.chainId) !== state.chainId) throw new Error('the chain of the data is not the active one');
        const { EIP712Domain: _, ...others } = types;
        return account.signTypedData({ domain, types: others, primaryType, message });
      }
      case 'eth_sendTransaction': {
        const [{ to, data, value }] = params;
        const chain = { id: state.chainId, name: 'dev', nativeCurrency: { name: 'E', symbol: 'E', decimals: 18 }, rpcUrls: { default: { http: [rpc] } } };
        return createWalletClient({ account, chain, transport: http(rpc) }).sendTransaction({ to, data, value: BigInt(value ?? 0) });
      }
      default:
        return reader.request({ method, params });
    }
  };
  const script = `(() => {
    const listeners = {};
    const provider = {
      async request({ method, params }) {
        const { value, error } = await window.__wallet_evm(method, params);
        if (error) throw Object.assign(new Error(error.message), { code: error.code });
        return value;
      },
      on: (event, listener) => (listeners[event] ??= []).push(listener),
      removeListener: (event, listener) => (listeners[event] = (listeners[event] ?? []).filter((it) => it !== listener)),
    };
    const info = { uuid: '350670db-19fa-4704-a166-e52e178b59d2', name: 'Test Wallet', icon: 'data:image/svg+xml;base64,${Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" rx="2" fill="#e2761b"/></svg>').toString('base64')}', rdns: 'example.wallet' };
    const announce = () => window.dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider }) }));
    window.__emit_evm = (event, ...values) => (listeners[event] ?? []).forEach((listener) => listener(...values));
    window.addEventListener('eip6963:requestProvider', announce);
    announce();
  })()`;
  return { name: 'evm', account: account.address, asked, handle, script };
}
