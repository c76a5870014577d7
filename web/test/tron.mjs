// A wallet on Tron: a key and tronweb, injected as `window.tron`.
import { createRequire } from 'node:module';
import { setTimeout as pause } from 'node:timers/promises';

const require = createRequire(new URL('../../.tools/tronweb/node_modules/', import.meta.url));
const { TronWeb } = require('tronweb');

const REJECTED = 4001;
const FEE_SUN = 100_000_000;
const POLL_MS = 200;
const PATIENCE_MS = 60_000;

/** What the payer lets Permit2 draw, set beforehand by a transaction of its own. */
export async function setTronAllowance(node, key, token, permit2, units) {
  const { transactionBuilder: builder, trx } = new TronWeb({ fullHost: node, privateKey: key });
  const parameters = [{ type: 'address', value: permit2 }, { type: 'uint256', value: String(units) }];
  const options = { feeLimit: FEE_SUN, txLocal: true };
  const { transaction } = await builder.triggerSmartContract(token, 'approve(address,uint256)', options, parameters);
  const { txid, ...answer } = await trx.sendRawTransaction(await trx.sign(transaction));
  if (!answer.result) throw new Error(`the allowance was not taken: ${JSON.stringify(answer)}`);
  for (const end = Date.now() + PATIENCE_MS; ; await pause(POLL_MS)) {
    // Of a block that no fork takes away, as the gateway may ask for no other.
    const { receipt } = await trx.getTransactionInfo(txid);
    if (receipt?.result === 'SUCCESS') return;
    if (receipt || Date.now() > end) throw new Error(`${txid}: ${JSON.stringify(receipt)}`);
  }
}

/** The TRX of an account, in sun. */
export const sunOf = (node, account) => new TronWeb({ fullHost: node }).trx.getUnconfirmedBalance(account);

/**
 * `state`: the `chainId` that the wallet is on, `rejects`, the names of what is declined, `typed`, the names of its functions that sign
 * typed data, none, where it is left out, and `fails`, what they say in a signature's place. `signed` has the typed data.
 */
export function tronWallet(node, key, state) {
  const web = new TronWeb({ fullHost: node, privateKey: key });
  const account = web.defaultAddress.base58;
  const asked = [];
  const signed = [];
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
      case 'signTypedData':
      case '_signTypedData': {
        const [domain, types, message] = params;
        if (state.fails) throw new Error(state.fails);
        if (Number(domain.chainId) !== state.chainId) throw new Error('the chain of the data is not the active one');
        if (types.EIP712Domain) throw new Error('types must not contain EIP712Domain type');
        signed.push({ domain, types, message });
        return web.trx[method](domain, types, message);
      }
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
    const trx = { sign: (transaction) => ask('sign', transaction) };
    for (const name of ${JSON.stringify(state.typed ?? [])}) trx[name] = (...data) => ask(name, data);
    const tronWeb = { defaultAddress: { base58: false }, trx };
    window.tron = { isTronLink: true, tronWeb, on() {}, removeListener() {}, async request({ method, params }) {
      const value = await ask(method, params);
      if (method === 'eth_requestAccounts') tronWeb.defaultAddress.base58 = value[0];
      return value;
    } };
  })()`;
  return { name: 'tron', account, asked, signed, handle, script };
}
