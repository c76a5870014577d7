// A wallet on Tron: a key and tronweb, injected as `window.tron`.
import { createRequire } from 'node:module';

const require = createRequire(new URL('../../.tools/tronweb/node_modules/', import.meta.url));
const { TronWeb } = require('tronweb');

const REJECTED = 4001;

/** `state`: the `chainId` that the wallet is on, and `rejects`, the names of what is declined. */
export function tronWallet(node, key, state) {
  const web = new TronWeb({ fullHost: node, privateKey: key });
  const account = web.defaultAddress.base58;
  const asked = [];
  const handle = async (method, params) => {
    asked.push(method);
    if (state.rejects?.has(method)) throw Object.assign(new Error('Confirmation declined by user'), { code: REJECTED });
    switch (method) {
      case 'eth_requestAccounts':
        return [account];
      case 'eth_chainId':
        return `0x${state.chainId.toString(16)}`;
      case 'wallet_switchEthereumChain':
        state.chainId = Number(params[0].chainId);
        return null;
      case 'sign':
        return web.trx.sign(params, key);
      default:
        throw new Error(`the wallet has no ${method}`);
    }
  };
  const script = `(() => {
    const ask = async (method, params) => {
      const { value, error } = await window.__wallet_tron(method, params);
      if (error) throw Object.assign(new Error(error.message), { code: error.code });
      return value;
    };
    const tronWeb = { defaultAddress: { base58: false }, trx: { sign: (transaction) => ask('sign', transaction) } };
    window.tron = { isTronLink: true, tronWeb, on() {}, removeListener() {}, async request({ method, params }) {
      const value = await ask(method, params);
      if (method === 'eth_requestAccounts') tronWeb.defaultAddress.base58 = value[0];
      return value;
    } };
  })()`;
  return { name: 'tron', account, asked, handle, script };
}
