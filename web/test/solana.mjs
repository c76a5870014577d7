// A wallet on Solana: a keypair of @solana/web3.js and a node, registered by Wallet Standard.
import { createPrivateKey, sign } from 'node:crypto';
import { createRequire } from 'node:module';

const require = createRequire(new URL('../../.tools/solana-client/node_modules/', import.meta.url));
const web3 = require('@solana/web3.js');

const TOKEN_PROGRAM = new web3.PublicKey('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA');
const ASSOCIATED_TOKEN_PROGRAM = new web3.PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
const APPROVE = 4;
const REVOKE = 5;
const POLL_MS = 200;

const keypairOf = (text) => web3.Keypair.fromSecretKey(Uint8Array.from(JSON.parse(text)));

function signBytes(keypair, bytes) {
  const part = (slice) => Buffer.from(slice).toString('base64url');
  const [d, x] = [keypair.secretKey.slice(0, 32), keypair.secretKey.slice(32)];
  return sign(null, bytes, createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d: part(d), x: part(x) }, format: 'jwk' }));
}

async function confirmed(connection, signature) {
  for (;;) {
    const [status] = (await connection.getSignatureStatuses([signature])).value;
    if (status?.err) throw new Error(`the transaction failed: ${JSON.stringify(status.err)}`);
    if (status && status.confirmationStatus !== 'processed') return signature;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** What the payer lets the escrow draw, set beforehand: `undefined` takes every allowance back. */
export async function setAllowance(rpc, key, mint, escrow, units) {
  const connection = new web3.Connection(rpc, 'confirmed');
  const payer = keypairOf(key);
  const mintKey = new web3.PublicKey(mint);
  const seeds = [payer.publicKey.toBuffer(), TOKEN_PROGRAM.toBuffer(), mintKey.toBuffer()];
  const [account] = web3.PublicKey.findProgramAddressSync(seeds, ASSOCIATED_TOKEN_PROGRAM);
  const [delegate] = web3.PublicKey.findProgramAddressSync([Buffer.from('delegate'), payer.publicKey.toBuffer()], new web3.PublicKey(escrow));
  const owner = { pubkey: payer.publicKey, isSigner: true, isWritable: false };
  const amount = Buffer.alloc(8);
  amount.writeBigUInt64LE(units ?? 0n);
  const keys = [{ pubkey: account, isSigner: false, isWritable: true }, ...(units === undefined ? [] : [{ pubkey: delegate, isSigner: false, isWritable: false }]), owner];
  const data = units === undefined ? Buffer.from([REVOKE]) : Buffer.concat([Buffer.from([APPROVE]), amount]);
  const latest = await connection.getLatestBlockhash();
  const transaction = new web3.Transaction({ feePayer: payer.publicKey, ...latest });
  transaction.add(new web3.TransactionInstruction({ programId: TOKEN_PROGRAM, keys, data }));
  transaction.sign(payer);
  await confirmed(connection, await connection.sendRawTransaction(transaction.serialize()));
}

/** `state.rejects` holds the names of features that are declined. */
export function solanaWallet(rpc, key, state = {}) {
  const keypair = keypairOf(key);
  const connection = new web3.Connection(rpc, 'confirmed');
  const account = keypair.publicKey.toBase58();
  const asked = [];
  const handle = async (method, params) => {
    asked.push(method);
    if (state.rejects?.has(method)) throw new Error('User rejected the request.');
    const bytes = params && Buffer.from(params, 'base64');
    switch (method) {
      case 'connect':
        return { address: account, publicKey: [...keypair.publicKey.toBytes()] };
      case 'signMessage':
        return signBytes(keypair, bytes).toString('base64');
      case 'signAndSendTransaction': {
        const transaction = web3.VersionedTransaction.deserialize(bytes);
        transaction.sign([keypair]);
        await connection.sendRawTransaction(transaction.serialize());
        return Buffer.from(transaction.signatures[0]).toString('base64');
      }
      default:
        throw new Error(`the wallet has no ${method}`);
    }
  };
  const script = `(() => {
    const ask = async (method, bytes) => {
      const { value, error } = await window.__wallet_solana(method, bytes && btoa(String.fromCharCode(...bytes)));
      if (error) throw new Error(error.message);
      return value;
    };
    const read = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const wallet = {
      version: '1.0.0',
      name: 'Test Sun',
      icon: 'data:image/svg+xml;base64,${Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4" fill="#9945ff"/></svg>').toString('base64')}',
      chains: ['solana:mainnet', 'solana:devnet', 'solana:localnet'],
      accounts: [],
      features: {
        'standard:connect': { version: '1.0.0', async connect() {
          const { address, publicKey } = await ask('connect');
          wallet.accounts = [{ address, publicKey: Uint8Array.from(publicKey), chains: wallet.chains, features: ['solana:signMessage'] }];
          return { accounts: wallet.accounts };
        } },
        'solana:signMessage': { version: '1.0.0', signMessage: (...inputs) => Promise.all(inputs.map(async ({ message }) =>
          ({ signedMessage: message, signature: read(await ask('signMessage', message)) }))) },
        'solana:signAndSendTransaction': { version: '1.0.0', supportedTransactionVersions: ['legacy', 0], signAndSendTransaction: (...inputs) =>
          Promise.all(inputs.map(async ({ transaction }) => ({ signature: read(await ask('signAndSendTransaction', transaction)) }))) },
      },
    };
    const callback = ({ register }) => register(wallet);
    window.addEventListener('wallet-standard:app-ready', ({ detail }) => callback(detail));
    window.dispatchEvent(new CustomEvent('wallet-standard:register-wallet', { detail: callback }));
  })()`;
  return { name: 'solana', account, asked, handle, script };
}
