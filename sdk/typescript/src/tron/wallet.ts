// A payer on Tron: a browser's wallet or tronweb, or a key; and a node.

import { getPublicKey, signAsync, Point } from '@noble/secp256k1';

import { bytesToHex, hex, unhex } from '../bytes.js';
import { splitAsset, tronAddress, tronText } from '../caip.js';
import { UsageError, VerificationError, WalletError } from '../errors.js';
import { callData, hexWord, keccak, wordAt } from '../evm/abi.js';
import { REFUND, claimCall, refundTerms } from '../evm/escrow.js';
import type { Log } from '../evm/escrow.js';
import type { EscrowedClaim, EscrowedPayment, Funding, PreparedPayment, SignedMessage, Spend, Wallet } from '../types.js';
import { recover, rebuild } from './deposit.js';
import { broadcast, draftCall, httpNode, networkOf, now, read } from './node.js';
import type { TronNode } from './node.js';
import { transactionOf } from './transaction.js';
import type { TronTransaction } from './transaction.js';

/** The most that wrapping may burn for energy, in sun: `deposit()` of a wrapped coin takes far less. */
const WRAP_FEE_SUN = 30_000_000n;
/**
 * The most that a refund or a claim may burn, in sun: the escrow keeps back 500,000 units of energy for a payout, and what is not used
 * of them is not paid.
 */
const ESCROW_FEE_SUN = 150_000_000n;

/** What signs. */
export interface TronSigner {
  /** Base58. */
  address: string;
  /** A signature over the transaction's id, 65 bytes in hexadecimal; or the transaction with it. */
  sign(transaction: TronTransaction): Promise<string | { signature?: string[] }>;
}

/** As much of a tronWeb object as is used: `window.tron.tronWeb` of a browser's wallet, or one of tronweb's. */
export interface TronWebLike {
  defaultAddress: { base58: string | false };
  trx: { sign(transaction: any): Promise<any> };
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
  return {
    address,
    async sign({ txID }) {
      const [recovery, ...rest] = await signAsync(unhex(txID)!, secret, { prehash: false, format: 'recovered' });
      return bytesToHex(Uint8Array.of(...rest, 27 + recovery!));
    },
  };
}

function webSigner({ defaultAddress, trx }: TronWebLike): TronSigner {
  const address = defaultAddress.base58;
  if (!address) throw new WalletError('rejected', 'the wallet does not give any account');
  return {
    address,
    async sign(transaction) {
      try {
        return (await trx.sign(transaction)) as { signature?: string[] };
      } catch (cause) {
        const text = cause instanceof Error ? cause.message : String(cause);
        throw new WalletError(/declin|reject|denied|cancel/i.test(text) ? 'rejected' : 'failed', text, { cause });
      }
    },
  };
}

const webNode =
  ({ fullNode }: TronWebLike): TronNode =>
  (path, body) =>
    fullNode.request(path.slice(1), body, 'post');

class TronWallet implements Wallet {
  readonly family = 'tron';
  readonly account: string;
  readonly #key: Uint8Array;

  constructor(
    private readonly signer: TronSigner,
    private readonly node: TronNode,
  ) {
    this.account = signer.address;
    this.#key = tronAddress(signer.address);
  }

  async connect(chainId: string): Promise<void> {
    const network = await networkOf(this.node);
    if (network !== chainId) throw new WalletError('chain', `the node is of another network, ${network}, and not of ${chainId}`);
  }

  /** Wraps coins; the allowance is one of the transactions that are signed. */
  async fund(spend: Spend, { wrap, onStep, signal }: Funding): Promise<{ what: 'wrap' | 'approve'; transaction: string }[]> {
    if (!wrap) return [];
    const token = tronAddress(splitAsset(spend.terms.source.asset_identifier).token, 'token');
    const missing =
      spend.cap - wordAt(await read(this.node, this.#key, token, callData('balanceOf(address)', hexWord(hex(this.#key)))), 0);
    if (missing <= 0n) return [];
    const feeLimit = spend.feeMax !== undefined && spend.feeMax < WRAP_FEE_SUN ? spend.feeMax : WRAP_FEE_SUN;
    await onStep({ step: 'sending', what: 'wrap', amount: missing });
    const transaction = await this.#send(
      'deposit',
      { contract: token, data: callData('deposit()'), callValue: missing, feeLimit },
      signal,
    );
    await onStep({ step: 'sent', what: 'wrap', transaction });
    return [{ what: 'wrap', transaction }];
  }

  verify(spend: Spend, prepared: PreparedPayment): void {
    this.#rebuilt(spend, prepared);
  }

  async sign(spend: Spend, prepared: PreparedPayment): Promise<SignedMessage[]> {
    const messages: SignedMessage[] = [];
    for (const transaction of this.#rebuilt(spend, prepared)) {
      const signature = await this.#signature(transaction);
      messages.push({
        message: `0x${transaction.txID}`,
        message_prehash: `0x${transaction.raw_data_hex}`,
        signature: `0x${signature}`,
      });
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
    return this.#send('refund', { contract, data: callData(REFUND, terms), callValue: 0n, feeLimit: ESCROW_FEE_SUN });
  }

  async claim(claim: EscrowedClaim): Promise<string> {
    const data = claimCall(this.account, claim, (text, field) => hexWord(hex(tronAddress(text, field))));
    return this.#send('claim', { contract: tronAddress(claim.escrow, 'escrow'), data, callValue: 0n, feeLimit: ESCROW_FEE_SUN });
  }

  #rebuilt(spend: Spend, prepared: PreparedPayment): TronTransaction[] {
    const payer = spend.terms.source.account;
    if (payer !== this.account) throw VerificationError.mismatch('payer', this.account, payer);
    return rebuild(spend, prepared);
  }

  async #send(
    name: string,
    call: { contract: Uint8Array; data: Uint8Array; callValue: bigint; feeLimit: bigint },
    signal?: AbortSignal,
  ): Promise<string> {
    if (call.callValue > BigInt(Number.MAX_SAFE_INTEGER)) throw new UsageError('that is more TRX than there is');
    const transaction = transactionOf(await draftCall(this.node, { owner: this.#key, ...call }));
    signal?.throwIfAborted();
    const signature = await this.#signature(transaction);
    return broadcast(this.node, { ...transaction, signature: [signature] }, name, signal);
  }

  /** The payer's signature over the transaction's id, and nobody else's. */
  async #signature(transaction: TronTransaction): Promise<string> {
    const answer = await this.signer.sign(transaction);
    const text = (typeof answer === 'string' ? answer : answer.signature?.[0])?.replace(/^0x/, '').toLowerCase() ?? '';
    const bytes = unhex(text);
    const v = bytes?.[64];
    // Some wallets write the parity alone.
    if (bytes?.length === 65 && v !== undefined && v < 27) bytes[64] = v + 27;
    const signer = bytes && recover(unhex(transaction.txID)!, bytes);
    if (!bytes || !signer || tronText(signer) !== this.account) {
      throw new WalletError('failed', `the wallet gave a signature that is not ${this.account}'s over ${transaction.txID}`);
    }
    return bytesToHex(bytes);
  }
}
