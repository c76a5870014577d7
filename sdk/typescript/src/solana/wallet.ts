// A payer on Solana: a browser's wallet, or a keypair; and a node.

import { getPublicKeyAsync, signAsync } from '@noble/ed25519';
import { base58, base64 } from '@scure/base';

import { concatBytes, hex } from '../bytes.js';
import { solanaKey, splitAsset } from '../caip.js';
import { UsageError, VerificationError, WalletError } from '../errors.js';
import { pause } from '../time.js';
import type { EscrowedClaim, EscrowedPayment, Funding, PreparedPayment, SignedMessage, Spend, Wallet } from '../types.js';
import { refundInstructions } from './escrow.js';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  NATIVE_MINT,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  delegateAddress,
  tokenAccount,
} from './keys.js';
import { clusterOf, rebuild, u64 } from './message.js';
import { accountInfo, httpRpc, latestBlockhash } from './rpc.js';
import type { SolanaRpc } from './rpc.js';
import { message, transaction } from './transaction.js';
import type { Instruction } from './transaction.js';

const POLL_MS = 400;
/** Tags of instructions of the token programs. */
const APPROVE = 4;
const SYNC_NATIVE = 17;
/** Tag of the associated token program's `CreateIdempotent`, and of the system program's `Transfer`. */
const CREATE_IDEMPOTENT = 1;
const TRANSFER = 2;
/** Of a token account: where its amount, its delegate and the delegated amount are. */
const AMOUNT_AT = 64;
const DELEGATE_AT = 72;
const DELEGATED_AT = 121;
const TOKEN_ACCOUNT_BYTES = 165;

/** What signs: a keypair, or a browser's wallet. */
export interface SolanaSigner {
  /** Base58. */
  address: string;
  /** An Ed25519 signature over the bytes as they are (Wallet Standard's `solana:signMessage`). */
  signMessage(message: Uint8Array): Promise<Uint8Array>;
  /**
   * Signs and sends a transaction, given with zeros for its signature (`solana:signAndSendTransaction`); answers with its
   * signature, in Base58 or bytes.
   */
  signAndSendTransaction?(transaction: Uint8Array): Promise<string | Uint8Array>;
  /** Signs a transaction, given with zeros for its signature (`solana:signTransaction`); answers with the whole. */
  signTransaction?(transaction: Uint8Array): Promise<Uint8Array>;
}

/** Who pays, and by which node. */
export interface SolanaWalletOptions {
  signer: SolanaSigner;
  /** The node's address, or what asks it. */
  rpc: string | SolanaRpc;
}

/** A payer on Solana. */
export function solanaWallet({ signer, rpc }: SolanaWalletOptions): Wallet {
  solanaKey(signer.address, 'the address of the signer');
  return new SolanaWallet(signer, typeof rpc === 'string' ? httpRpc(rpc) : rpc);
}

/** What signs with a secret key: 64 bytes as `solana-keygen` writes them, or the 32 bytes of the seed. */
export async function solanaKeypair(secretKey: Uint8Array | readonly number[]): Promise<SolanaSigner> {
  const bytes = Uint8Array.from(secretKey);
  if (bytes.length !== 64 && bytes.length !== 32) throw new UsageError('a secret key of Solana has 64 bytes, or 32');
  const seed = bytes.slice(0, 32);
  const address = base58.encode(await getPublicKeyAsync(seed));
  if (bytes.length === 64 && base58.encode(bytes.slice(32)) !== address)
    throw new UsageError('the two halves of the secret key do not belong together');
  const sign = (text: Uint8Array): Promise<Uint8Array> => signAsync(text, seed);
  return {
    address,
    signMessage: sign,
    async signTransaction(unsigned) {
      const body = unsigned.slice(1 + 64);
      return transaction(body, await sign(body));
    },
  };
}

/** An account of Wallet Standard, with the features that its wallet has. */
export interface StandardWallet {
  accounts: readonly { address: string }[];
  features: Record<string, unknown>;
}

/**
 * What signs through a wallet of Wallet Standard, such as `getWallets().get()[0]`, after its `standard:connect`.
 *
 * @param chain Its name there: `solana:mainnet`, `solana:devnet` or `solana:testnet`.
 */
export function standardSigner(wallet: StandardWallet, chain: string, address?: string): SolanaSigner {
  const account = wallet.accounts.find((one) => address === undefined || one.address === address);
  if (!account) throw new WalletError('rejected', `the wallet does not give ${address ?? 'any account'}`);
  const feature = <In, Out>(name: string, method: string): ((input: In) => Promise<Out[]>) | undefined => {
    const found = wallet.features[name] as Record<string, (input: In) => Promise<Out[]>> | undefined;
    return found?.[method]?.bind(found);
  };
  const signMessage = feature<object, { signature: Uint8Array; signedMessage: Uint8Array }>('solana:signMessage', 'signMessage');
  const sendTransaction = feature<object, { signature: Uint8Array }>('solana:signAndSendTransaction', 'signAndSendTransaction');
  const signTransaction = feature<object, { signedTransaction: Uint8Array }>('solana:signTransaction', 'signTransaction');
  if (!signMessage) throw new WalletError('failed', 'the wallet signs no messages');
  return {
    address: account.address,
    async signMessage(text) {
      const [signed] = await asked(signMessage({ account, message: text }));
      if (signed && hex(signed.signedMessage) !== hex(text)) throw new WalletError('failed', 'the wallet signed another message');
      return signed!.signature;
    },
    ...(sendTransaction && {
      async signAndSendTransaction(bytes: Uint8Array) {
        const [sent] = await asked(sendTransaction({ account, chain, transaction: bytes }));
        return sent!.signature;
      },
    }),
    ...(signTransaction && {
      async signTransaction(bytes: Uint8Array) {
        const [signed] = await asked(signTransaction({ account, chain, transaction: bytes }));
        return signed!.signedTransaction;
      },
    }),
  };
}

/** Wallets tell in words that the person said no. */
async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    const { code, message: text = String(cause) } = (cause ?? {}) as { code?: unknown; message?: string };
    const isRejected = code === 4001 || /reject|declin|denied|cancel/i.test(text);
    throw new WalletError(isRejected ? 'rejected' : 'failed', text, { cause });
  }
}

class SolanaWallet implements Wallet {
  readonly family = 'solana';
  readonly account: string;
  readonly #key: Uint8Array;
  #genesis: string | undefined;

  constructor(
    private readonly signer: SolanaSigner,
    private readonly rpc: SolanaRpc,
  ) {
    this.account = signer.address;
    this.#key = solanaKey(signer.address);
  }

  async connect(chainId: string): Promise<void> {
    this.#genesis = String(await this.rpc('getGenesisHash', []));
    if (`solana:${this.#genesis.slice(0, 32)}` !== chainId) throw new WalletError('chain', `the node is not of ${chainId}`);
  }

  async fund(
    spend: Spend,
    { wrap, allowance, onStep, signal }: Funding,
  ): Promise<{ what: 'wrap' | 'approve'; transaction: string }[]> {
    if (clusterOf(spend) !== this.#genesis)
      throw new WalletError('chain', 'the node is of another cluster than the signature would be for');
    const mint = solanaKey(splitAsset(spend.terms.source.asset_identifier).token);
    const isNative = base58.encode(mint) === base58.encode(NATIVE_MINT);
    if (wrap && !isNative) throw new VerificationError('wrap', `${base58.encode(mint)} is not wrapped SOL`);
    const program = await this.#tokenProgram(mint);
    const account = tokenAccount(this.#key, mint, program);
    const delegate = delegateAddress(solanaKey(spend.escrow), this.#key);
    const state = await this.#tokenState(account);
    const steps: { what: 'wrap' | 'approve'; amount: bigint; instructions: Instruction[] }[] = [];
    const missing = spend.cap - state.amount;
    if (missing > 0n && !wrap) return [];
    if (missing > 0n) steps.push({ what: 'wrap', amount: missing, instructions: this.#wrapping(account, missing) });
    const allowed = state.delegate === base58.encode(delegate) ? state.delegated : 0n;
    if (allowed < spend.cap)
      steps.push({ what: 'approve', amount: allowance, instructions: [this.#approval(program, account, delegate, allowance)] });
    if (!steps.length) return [];
    for (const { what, amount } of steps) await onStep({ step: 'sending', what, amount });
    // One transaction: coins are wrapped and lent out, or neither.
    const sent = await this.#send(
      steps.flatMap(({ instructions }) => instructions),
      signal,
    );
    for (const { what } of steps) await onStep({ step: 'sent', what, transaction: sent });
    return steps.map(({ what }) => ({ what, transaction: sent }));
  }

  verify(spend: Spend, prepared: PreparedPayment): void {
    const payer = spend.terms.source.account;
    if (payer !== this.account) throw VerificationError.mismatch('payer', this.account, payer);
    rebuild(spend, prepared);
  }

  async sign(spend: Spend, prepared: PreparedPayment): Promise<SignedMessage[]> {
    this.verify(spend, prepared);
    const { preimage, digest, payload } = rebuild(spend, prepared);
    const signature = await this.signer.signMessage(digest);
    return [{ message: hex(digest), message_prehash: hex(preimage), signature: hex(signature), payload }];
  }

  async refund({ paymentId, escrow }: EscrowedPayment): Promise<string> {
    return this.#send(await refundInstructions(this.rpc, this.#key, escrow, paymentId));
  }

  claim(_claim: EscrowedClaim): Promise<string> {
    return Promise.reject(new UsageError('there are no claims on Solana: a refund goes to the payer’s token account'));
  }

  async #tokenProgram(mint: Uint8Array): Promise<Uint8Array> {
    const name = base58.encode(mint);
    const owner = (await accountInfo(this.rpc, name))?.owner;
    const program = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM].find((known) => base58.encode(known) === owner);
    if (!program) throw new WalletError('failed', `${name} is not a mint`);
    return program;
  }

  async #tokenState(account: Uint8Array): Promise<{ amount: bigint; delegate: string | undefined; delegated: bigint }> {
    const data = (await accountInfo(this.rpc, base58.encode(account)))?.data;
    if (!data || data.length < TOKEN_ACCOUNT_BYTES) return { amount: 0n, delegate: undefined, delegated: 0n };
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    const hasDelegate = view.getUint32(DELEGATE_AT, true) === 1;
    return {
      amount: view.getBigUint64(AMOUNT_AT, true),
      delegate: hasDelegate ? base58.encode(data.slice(DELEGATE_AT + 4, DELEGATE_AT + 36)) : undefined,
      delegated: view.getBigUint64(DELEGATED_AT, true),
    };
  }

  /** The account where there is none, the lamports, their count. */
  #wrapping(account: Uint8Array, lamports: bigint): Instruction[] {
    const owner = { key: this.#key, signer: true, writable: true };
    return [
      {
        program: ASSOCIATED_TOKEN_PROGRAM,
        accounts: [
          owner,
          { key: account, writable: true },
          { key: this.#key },
          { key: NATIVE_MINT },
          { key: SYSTEM_PROGRAM },
          { key: TOKEN_PROGRAM },
        ],
        data: Uint8Array.of(CREATE_IDEMPOTENT),
      },
      {
        program: SYSTEM_PROGRAM,
        accounts: [owner, { key: account, writable: true }],
        data: concatBytes(Uint8Array.of(TRANSFER, 0, 0, 0), u64(lamports)),
      },
      { program: TOKEN_PROGRAM, accounts: [{ key: account, writable: true }], data: Uint8Array.of(SYNC_NATIVE) },
    ];
  }

  /** Lets the program's address for this signer take up to `amount` out of the payer's token account. */
  #approval(program: Uint8Array, account: Uint8Array, delegate: Uint8Array, amount: bigint): Instruction {
    return {
      program,
      accounts: [{ key: account, writable: true }, { key: delegate }, { key: this.#key, signer: true }],
      data: concatBytes(Uint8Array.of(APPROVE), u64(amount)),
    };
  }

  /** Sends the payer's own transaction, and waits until it is confirmed. */
  async #send(instructions: Instruction[], signal?: AbortSignal): Promise<string> {
    const { blockhash, lastValidBlockHeight } = await latestBlockhash(this.rpc);
    const unsigned = transaction(message(this.#key, blockhash, instructions));
    signal?.throwIfAborted();
    const id = await this.#hand(unsigned);
    for (;;) {
      const answer = (await this.rpc('getSignatureStatuses', [[id]])) as {
        value?: ({ err?: unknown; confirmationStatus?: string } | null)[];
      } | null;
      const status = answer?.value?.[0];
      if (status?.err) throw new WalletError('failed', `the payer's transaction failed: ${JSON.stringify(status.err)}`);
      if (status && status.confirmationStatus !== 'processed') return id;
      if (Number(await this.rpc('getBlockHeight', [{ commitment: 'confirmed' }])) > lastValidBlockHeight) {
        throw new WalletError('failed', `the payer's transaction ${id} was dropped`);
      }
      await pause(POLL_MS, signal);
    }
  }

  async #hand(unsigned: Uint8Array): Promise<string> {
    const { signer } = this;
    if (signer.signAndSendTransaction) {
      const id = await signer.signAndSendTransaction(unsigned);
      return typeof id === 'string' ? id : base58.encode(id);
    }
    if (!signer.signTransaction) throw new WalletError('failed', `${this.account} signs no transactions`);
    const signed = await signer.signTransaction(unsigned);
    return String(
      await this.rpc('sendTransaction', [base64.encode(signed), { encoding: 'base64', preflightCommitment: 'confirmed' }]),
    );
  }
}
