// The payer's own account on a network of gw-dev as an exchange has one: it sends a token by an ordinary transfer, and knows nothing of
// the payment. viem, tronweb and @solana/web3.js do it, so that the SDK has no part in it.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { Connection, Keypair, PublicKey, SystemProgram, Transaction, TransactionInstruction } from '@solana/web3.js';
import { TronWeb } from 'tronweb';
import { createPublicClient, createWalletClient, erc20Abi, getAddress, http, toHex } from 'viem';
import { openAddress as openOnEvm } from 'gateway-client/evm';
import { openAddress as openOnSolana } from 'gateway-client/solana';
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
    newAccount: async () => toHex(randomAddress()),
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

const ASSOCIATED_TOKEN_PROGRAM = new PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
/** Tags of the associated token program and of token programs. */
const CREATE_IDEMPOTENT = 1;
const TRANSFER_CHECKED = 12;
/** Where a token account has its amount, and a mint its decimals. */
const AMOUNT_AT = 64;
const DECIMALS_AT = 44;

function onSolana({ env, solanaKey }) {
  const connection = new Connection(env.SOLANA_RPC_URL, 'confirmed');
  const payer = Keypair.fromSecretKey(Uint8Array.from(JSON.parse(solanaKey())));
  const meta = (pubkey, roles = '') => ({ pubkey, isSigner: roles.includes('s'), isWritable: roles.includes('w') });
  async function mintOf(token) {
    const key = new PublicKey(token);
    const { owner: program, data } = await connection.getAccountInfo(key);
    const seeds = (owner) => [owner.toBuffer(), program.toBuffer(), key.toBuffer()];
    /** The associated token account of an account, also of one off the curve. */
    const of = (owner) => PublicKey.findProgramAddressSync(seeds(owner), ASSOCIATED_TOKEN_PROGRAM)[0];
    return { key, program, decimals: data[DECIMALS_AT], of };
  }
  function creation({ key, program, of }, owner) {
    const keys = [meta(payer.publicKey, 'sw'), meta(of(owner), 'w'), ...[owner, key, SystemProgram.programId, program].map((one) => meta(one))];
    return new TransactionInstruction({ programId: ASSOCIATED_TOKEN_PROGRAM, keys, data: Buffer.of(CREATE_IDEMPOTENT) });
  }
  async function confirm(...instructions) {
    const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: payer.publicKey, blockhash, lastValidBlockHeight }).add(...instructions);
    transaction.sign(payer);
    const id = await connection.sendRawTransaction(transaction.serialize());
    for (const end = Date.now() + PATIENCE_MS; ; await pause(200)) {
      const [status] = (await connection.getSignatureStatuses([id])).value;
      assert.equal(status?.err ?? null, null);
      if (status && status.confirmationStatus !== 'processed') return;
      assert.ok(Date.now() < end, `${id} is not confirmed`);
    }
  }
  return {
    openAddress: openOnSolana,
    /** With a token account, without which the gateway gives no address. */
    async newAccount(token) {
      const { publicKey } = Keypair.generate();
      await confirm(creation(await mintOf(token), publicKey));
      return publicKey.toBase58();
    },
    async held(token, account) {
      const found = await connection.getAccountInfo((await mintOf(token)).of(new PublicKey(account)));
      return found ? found.data.readBigUInt64LE(AMOUNT_AT) : 0n;
    },
    async send(token, to, amount) {
      const mint = await mintOf(token);
      const owner = new PublicKey(to);
      const data = Buffer.alloc(10);
      data.writeUInt8(TRANSFER_CHECKED, 0);
      data.writeBigUInt64LE(amount, 1);
      data.writeUInt8(mint.decimals, 9);
      const keys = [meta(mint.of(payer.publicKey), 'w'), meta(mint.key), meta(mint.of(owner), 'w'), meta(payer.publicKey, 's')];
      await confirm(creation(mint, owner), new TransactionInstruction({ programId: mint.program, keys, data }));
    },
  };
}

function onTron({ env, tronKey }) {
  const web = new TronWeb({ fullHost: env.TRON_API_URL, privateKey: tronKey().replace(/^0x/, '') });
  const { transactionBuilder: builder, trx } = web;
  const parameter = (type, value) => ({ type, value });
  return {
    openAddress: openOnTron,
    newAccount: async () => TronWeb.address.fromHex(`41${toHex(randomAddress()).slice(2)}`),
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

const EXCHANGES = { eip155: onEvm, solana: onSolana, tron: onTron };

/**
 * The exchange on chains of a namespace: `openAddress` of the payer there, an account that nobody has the key of and that can receive a
 * token, transfers, balances.
 */
export function exchangeOf(namespace, net) {
  const exchange = EXCHANGES[namespace];
  if (!exchange) throw new Error(`nothing is paid by an address on ${namespace}`);
  return exchange(net);
}
