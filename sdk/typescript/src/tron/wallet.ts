// A payer on Tron: a browser's wallet or tronweb, or a key; and a node.

import { getPublicKey, signAsync, Point } from '@noble/secp256k1';

import { callData, keccak, word, wordAt } from '../abi.js';
import { bytesToHex, unhex } from '../bytes.js';
import { splitAsset, tronAddress, tronText } from '../caip.js';
import { UsageError, VerificationError, WalletError } from '../errors.js';
import { REFUND, claimCall, refundTerms } from '../escrow-abi.js';
import type { Log } from '../escrow-abi.js';
import { TRON } from '../schemes.js';
import type { TransferData } from '../typed.js';
import type { EscrowedClaim, EscrowedPayment, Funding, PreparedPayment, SignedMessage, Spend, Wallet } from '../types.js';
import { addressWord } from './address.js';
import { recover } from './deposit.js';
import { rebuild } from './messages.js';
import type { Rebuilt } from './messages.js';
import { broadcast, draftCall, httpNode, networkOf, now, read } from './node.js';
import type { TronNode } from './node.js';
import { permit2Of } from './permit2.js';
import { transactionOf } from './transaction.js';
import type { TronTransaction } from './transaction.js';

/** The most that `deposit()` of a wrapped coin may burn for energy, in sun: it takes far less. */
const WRAP_FEE_SUN = 30_000_000n;
/** The most that an allowance may burn, in sun: that of a token whose calls cost more the more it is used takes some of it. */
const APPROVE_FEE_SUN = 50_000_000n;
/**
 * The most that a refund or a claim may burn, in sun: the escrow keeps back 500,000 units of energy for a payout, and what is not used
 * of them is not paid.
 */
const ESCROW_FEE_SUN = 150_000_000n;

/** What a wallet says whose person said no (TIP-1193). */
const REJECTED = 4001;
/** What wallets say that lack a method, by TIP-1193 and by JSON-RPC. */
const UNSUPPORTED: readonly unknown[] = [4200, -32601];

/** What signs. */
export interface TronSigner {
  /** Base58. */
  address: string;
  /** A signature over the transaction's id, 65 bytes in hexadecimal; or the transaction with it. */
  sign(transaction: TronTransaction): Promise<string | { signature?: string[] }>;
  /**
   * A signature over typed data (TIP-712), whose digest comes along for what signs hashes: 65 bytes in hexadecimal. Without it the payer
   * pays by transactions alone.
   */
  signTypedData?(typedData: TransferData, digest: `0x${string}`): Promise<string>;
}

/** How a tronWeb signs typed data. Of the domain's own type it knows by itself. */
type TypedDataMethod = (domain: any, types: any, message: any) => Promise<any> | string;

/** As much of a tronWeb object as is used: `window.tron.tronWeb` of a browser's wallet, or one of tronweb's. */
export interface TronWebLike {
  defaultAddress: { base58: string | false };
  trx: { sign(transaction: any): Promise<any>; signTypedData?: TypedDataMethod; _signTypedData?: TypedDataMethod };
  fullNode: { request(url: string, payload?: any, method?: any): Promise<any> };
}

/** Who pays, and by which node. */
export interface TronWalletOptions {
  /** What signs; a tronWeb object is also the node. */
  signer: TronSigner | TronWebLike;
  /** The node's address, or what asks it. */
  node?: string | TronNode;
}

/** A payer on Tron. */
export function tronWallet({ signer, node }: TronWalletOptions): Wallet {
  const own = 'fullNode' in signer ? webSigner(signer) : signer;
  const asked = node ?? ('fullNode' in signer ? webNode(signer) : undefined);
  if (asked === undefined) throw new UsageError('a key needs the address of a node');
  return new TronWallet(own, typeof asked === 'string' ? httpNode(asked) : asked);
}

/** What signs with a private key, in hexadecimal. */
export function tronKey(privateKey: string): TronSigner {
  const secret = unhex(privateKey.trim());
  if (secret?.length !== 32) throw new UsageError('a private key of Tron has 32 bytes, in hexadecimal');
  const address = tronText(keccak(Point.fromBytes(getPublicKey(secret)).toBytes(false).slice(1)).slice(12));
  const signHash = async (hash: string): Promise<string> => {
    const [recovery, ...rest] = await signAsync(unhex(hash)!, secret, { prehash: false, format: 'recovered' });
    return bytesToHex(Uint8Array.of(...rest, 27 + recovery!));
  };
  return { address, sign: ({ txID }) => signHash(txID), signTypedData: (_, digest) => signHash(digest) };
}

/** How a tronWeb signs typed data; `undefined` where it cannot. */
export function typedDataSigner(trx: TronWebLike['trx']): ((typedData: TransferData) => Promise<string>) | undefined {
  const methods = (['signTypedData', '_signTypedData'] as const).filter((name) => typeof trx[name] === 'function');
  if (!methods.length) return undefined;
  return async ({ domain, types, message }) => {
    const { EIP712Domain: _, ...others } = types;
    let fault: unknown;
    // Of a browser's wallet one of the two may be the library's own, which asks nobody and fails without a key.
    for (const name of methods) {
      try {
        return String(await trx[name]!(domain, others, message));
      } catch (error) {
        if (isDeclined(error)) throw error;
        fault = error;
      }
    }
    throw fault;
  };
}

/** What wallets throw is not always an error. */
function messageOf(error: unknown): string {
  const message = (error as { message?: unknown } | null | undefined)?.message;
  return typeof message === 'string' ? message : String(error);
}

function isDeclined(error: unknown): boolean {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return code === REJECTED || (!UNSUPPORTED.includes(code) && /declin|reject|denied|cancel/i.test(messageOf(error)));
}

/** What a wallet threw, as one error; its words stay its own. */
export function walletError(cause: unknown): WalletError {
  if (cause instanceof WalletError) return cause;
  return new WalletError(isDeclined(cause) ? 'rejected' : 'failed', messageOf(cause), { cause });
}

/** What a wallet answers. */
export async function answered<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (cause) {
    throw walletError(cause);
  }
}

function webSigner({ defaultAddress, trx }: TronWebLike): TronSigner {
  const address = defaultAddress.base58;
  if (!address) throw new WalletError('rejected', 'the wallet does not give any account');
  const signTypedData = typedDataSigner(trx);
  return { address, sign: (transaction) => trx.sign(transaction), ...(signTypedData ? { signTypedData } : {}) };
}

const webNode =
  ({ fullNode }: TronWebLike): TronNode =>
  (path, body) =>
    fullNode.request(path.slice(1), body, 'post');

/** A call of the payer's own. */
interface OwnCall {
  /** What it is, for errors. */
  name: string;
  contract: Uint8Array;
  data: Uint8Array;
  /** In sun, as the fee is. */
  callValue: bigint;
  feeLimit: bigint;
}

class TronWallet implements Wallet {
  readonly family = 'tron';
  readonly account: string;
  readonly messageScheme?: typeof TRON;
  readonly #key: Uint8Array;

  constructor(
    private readonly signer: TronSigner,
    private readonly node: TronNode,
  ) {
    this.account = signer.address;
    this.#key = tronAddress(signer.address);
    if (!signer.signTypedData) this.messageScheme = TRON;
  }

  async connect(chainId: string): Promise<void> {
    const network = await networkOf(this.node);
    if (network !== chainId) throw new WalletError('chain', `the node is of another network, ${network}, and not of ${chainId}`);
  }

  /** Wraps coins, and gives Permit2 its allowance; that for the escrow is one of the transactions that are signed. */
  async fund(
    spend: Spend,
    { wrap, allowance, onStep, signal }: Funding,
  ): Promise<{ what: 'wrap' | 'approve'; transaction: string }[]> {
    const isAllowed = allowance === 0n;
    if (isAllowed && !wrap) return [];
    const permit2 = isAllowed ? undefined : addressWord(permit2Of(spend), 'permit2');
    const contract = tronAddress(splitAsset(spend.terms.source.asset_identifier).token, 'token');
    const atMost = (sun: bigint): bigint => (spend.feeMax !== undefined && spend.feeMax < sun ? spend.feeMax : sun);
    const own = addressWord(this.account);
    const asked = async (data: Uint8Array): Promise<bigint> => wordAt(await read(this.node, this.#key, contract, data), 0);
    const sent: { what: 'wrap' | 'approve'; transaction: string }[] = [];
    const send = async (what: 'wrap' | 'approve', amount: bigint, data: Uint8Array): Promise<void> => {
      await onStep({ step: 'sending', what, amount });
      const call =
        what === 'wrap'
          ? { name: 'deposit', callValue: amount, feeLimit: atMost(WRAP_FEE_SUN) }
          : { name: 'approve', callValue: 0n, feeLimit: atMost(APPROVE_FEE_SUN) };
      const transaction = await this.#send({ ...call, contract, data }, signal);
      await onStep({ step: 'sent', what, transaction });
      sent.push({ what, transaction });
    };
    const missing = spend.cap - (await asked(callData('balanceOf(address)', own)));
    if (missing > 0n && wrap) await send('wrap', missing, callData('deposit()'));
    // Otherwise the gateway says what is missing; an allowance would be for nothing.
    else if (missing > 0n) return sent;
    if (!permit2) return sent;
    const stands = await asked(callData('allowance(address,address)', own, permit2));
    if (stands >= spend.cap) return sent;
    // A token like Tether refuses a new allowance while another one stands, so that is taken back first.
    for (const amount of stands > 0n ? [0n, allowance] : [allowance])
      await send('approve', amount, callData('approve(address,uint256)', permit2, word(amount)));
    return sent;
  }

  verify(spend: Spend, prepared: PreparedPayment): void {
    this.#rebuilt(spend, prepared);
  }

  async sign(spend: Spend, prepared: PreparedPayment): Promise<SignedMessage[]> {
    const messages: SignedMessage[] = [];
    for (const rebuilt of this.#rebuilt(spend, prepared)) {
      if ('typedData' in rebuilt) {
        const { typedData, digest, payload } = rebuilt;
        const signature = this.#own(await this.#typedDataSignature(typedData, digest), digest);
        messages.push({
          message: digest,
          message_prehash: JSON.stringify(typedData),
          signature: `0x${signature}`,
          payload: { ...payload },
        });
      } else {
        const signature = await this.#signature(rebuilt);
        messages.push({
          message: `0x${rebuilt.txID}`,
          message_prehash: `0x${rebuilt.raw_data_hex}`,
          signature: `0x${signature}`,
        });
      }
    }
    return messages;
  }

  async refund({ paymentId, escrow }: EscrowedPayment): Promise<string> {
    const contract = tronAddress(escrow, 'escrow');
    const terms = await refundTerms(
      {
        call: (data) => read(this.node, this.#key, contract, data),
        now: () => now(this.node),
        logs: async (topic, paymentTopic, block) => {
          const infos = await this.node('/wallet/gettransactioninfobyblocknum', { num: Number(block) });
          const logs = (Array.isArray(infos) ? infos : []).flatMap(
            (info: { log?: { address: string; topics: string[]; data?: string }[] }) => info.log ?? [],
          );
          const mine = logs.filter(
            ({ address, topics }) =>
              address === bytesToHex(contract) && `0x${topics[0]}` === topic && `0x${topics[1]}` === paymentTopic,
          );
          return mine.map(({ topics, data }): Log => ({ topics: topics.map((text) => `0x${text}`), data: `0x${data ?? ''}` }));
        },
      },
      paymentId,
    );
    return this.#sendToEscrow('refund', contract, callData(REFUND, terms));
  }

  async claim(claim: EscrowedClaim): Promise<string> {
    const data = claimCall(this.account, claim, addressWord);
    return this.#sendToEscrow('claim', tronAddress(claim.escrow, 'escrow'), data);
  }

  #rebuilt(spend: Spend, prepared: PreparedPayment): Rebuilt[] {
    const payer = spend.terms.source.account;
    if (payer !== this.account) throw VerificationError.mismatch('payer', this.account, payer);
    return rebuild(spend, prepared);
  }

  #sendToEscrow(name: string, contract: Uint8Array, data: Uint8Array): Promise<string> {
    return this.#send({ name, contract, data, callValue: 0n, feeLimit: ESCROW_FEE_SUN });
  }

  async #send({ name, ...call }: OwnCall, signal?: AbortSignal): Promise<string> {
    if (call.callValue > BigInt(Number.MAX_SAFE_INTEGER)) throw new UsageError('that is more TRX than there is');
    const transaction = transactionOf(await draftCall(this.node, { owner: this.#key, ...call }));
    signal?.throwIfAborted();
    const signature = await this.#signature(transaction);
    return broadcast(this.node, { ...transaction, signature: [signature] }, name, signal);
  }

  /** The payer's signature over the transaction's id. */
  async #signature(transaction: TronTransaction): Promise<string> {
    const answer = await answered(() => this.signer.sign(transaction));
    return this.#own(typeof answer === 'string' ? answer : answer.signature?.[0], transaction.txID);
  }

  async #typedDataSignature(typedData: TransferData, digest: `0x${string}`): Promise<string> {
    const { signer } = this;
    if (!signer.signTypedData) throw new WalletError('failed', `${this.account} signs no typed data`);
    return answered(async () => signer.signTypedData!(typedData, digest));
  }

  /** The signature, where it is the payer's over this hash, and nobody else's. */
  #own(signature: string | undefined, hash: string): string {
    const bytes = unhex(signature);
    const v = bytes?.[64];
    // Some wallets write the parity alone.
    if (bytes?.length === 65 && v !== undefined && v < 27) bytes[64] = v + 27;
    const signer = bytes && recover(unhex(hash)!, bytes);
    if (!bytes || !signer || tronText(signer) !== this.account) {
      throw new WalletError('failed', `the wallet gave a signature that is not ${this.account}'s over ${hash}`);
    }
    return bytesToHex(bytes);
  }
}
