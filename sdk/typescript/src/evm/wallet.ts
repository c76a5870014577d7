// A payer on EVM chains: a browser's wallet, or a key and a node.

import { callData, hexWord, keccak, word, wordAt } from '../abi.js';
import { bytesToHex, hex, unhex } from '../bytes.js';
import { evmAddress, splitAsset } from '../caip.js';
import { UsageError, VerificationError, WalletError } from '../errors.js';
import { claimCall } from '../escrow-abi.js';
import { pause } from '../time.js';
import type { TypedData } from '../typed.js';
import type {
  BatchSpend,
  ChargeSpend,
  Drawn,
  EscrowedClaim,
  EscrowedPayment,
  Funding,
  MandateSpend,
  PreparedMandate,
  PreparedPayment,
  PreparedPaymentBatch,
  SignedMessage,
  Spend,
  Wallet,
} from '../types.js';
import { rebuildBatch } from './batches.js';
import type { BatchPermit } from './batches.js';
import { refundCall } from './escrow.js';
import { cancelMandateCall, mandateOf, rebuildCharge, rebuildMandate } from './mandates.js';
import type { Charge, MandatePermit } from './mandates.js';
import { rebuild } from './messages.js';
import type { Rebuilt } from './messages.js';
import { ask, askNumber, httpProvider, quantity } from './rpc.js';
import type { Eip1193Provider } from './rpc.js';

/** The most that one of the payer's own transactions may cost where nobody says so, in wei: a hundredth of a coin. */
const FEE_WEI_MAX = 10n ** 16n;
const POLL_MS = 500;
/** How long a transaction of the payer's own may take. */
const MINED_MS = 600_000;
/** What a provider says of a chain that it does not know (EIP-3326). */
const UNKNOWN_CHAIN = 4902;

/** An account that signs by itself, such as viem's `privateKeyToAccount(…)`. */
export interface EvmAccount {
  address: string;
  /** Over EIP-712 typed data. */
  signTypedData(typedData: any): Promise<string>;
  /** An EIP-1559 transaction, serialized; without it no allowance can be given and no coins wrapped. */
  signTransaction?(transaction: any): Promise<string>;
}

/** Who pays, and by which node. */
export type EvmWalletOptions =
  | {
      /** A browser's wallet (EIP-1193). */
      provider: Eip1193Provider;
      /** Which of its accounts; its first one where it is left out. */
      account?: string;
    }
  | {
      /** A key. */
      account: EvmAccount;
      /** The node's address, or a provider. */
      rpc: string | Eip1193Provider;
    };

/** A payer on EVM chains. A browser's wallet is asked to connect. */
export async function evmWallet(options: EvmWalletOptions): Promise<Wallet> {
  if ('rpc' in options) {
    const { account, rpc } = options;
    const node = typeof rpc === 'string' ? httpProvider(rpc) : rpc;
    return new EvmWallet(evmAddress(account.address, 'account'), node, keySigner(account, node));
  }
  const { provider } = options;
  const granted = await ask(provider, 'eth_requestAccounts');
  const accounts = Array.isArray(granted) ? granted.map((account) => evmAddress(String(account), 'account')) : [];
  const account = options.account === undefined ? accounts[0] : evmAddress(options.account, 'account');
  if (!account || !accounts.includes(account))
    throw new WalletError('rejected', `the wallet does not give ${account ?? 'any account'}`);
  return new EvmWallet(account, provider, providerSigner(provider, account));
}

/** A call of the payer's own. */
interface OwnCall {
  to: string;
  data: Uint8Array;
  value: bigint;
  /** What it is, for errors. */
  name: string;
}

/** Signs, and sends the payer's own transactions. */
interface Signer {
  signTypedData(typedData: TypedData): Promise<string>;
  send(chainId: string, call: OwnCall, feeMax: bigint): Promise<string>;
  /** Asks the wallet to change to a chain; absent where it cannot. */
  switchTo?(chainId: string): Promise<void>;
}

class EvmWallet implements Wallet {
  readonly family = 'evm';

  constructor(
    readonly account: string,
    private readonly node: Eip1193Provider,
    private readonly signer: Signer,
  ) {}

  async connect(chainId: string): Promise<void> {
    const isThere = async (): Promise<boolean> => chainId === `eip155:${await askNumber(this.node, 'eth_chainId')}`;
    if (await isThere()) return;
    await this.signer.switchTo?.(chainId);
    if (!(await isThere())) throw new WalletError('chain', `the node is not of ${chainId}`);
  }

  async fund(
    spend: Spend,
    { wrap, allowance, ...told }: Funding,
  ): Promise<{ what: 'wrap' | 'approve'; transaction: string }[]> {
    // Where the allowance is among what is signed, or none is needed, the chain is not asked for it.
    const isAllowed = allowance === 0n;
    if (isAllowed && !wrap) return [];
    const { token } = splitAsset(spend.terms.source.asset_identifier);
    const sent: { what: 'wrap' | 'approve'; transaction: string }[] = [];
    const balance = (): Promise<bigint> => this.#read(token, callData('balanceOf(address)', hexWord(this.account)));
    const held = await balance();
    if (held < spend.cap && wrap) {
      const missing = spend.cap - held;
      const call = { to: token, data: callData('deposit()'), value: missing, name: 'deposit' };
      const transaction = await this.#send(spend, { what: 'wrap', amount: missing, call }, told, async () => (await balance()) >= spend.cap);
      sent.push({ what: 'wrap', transaction });
    } else if (held < spend.cap) {
      // The gateway says what is missing; an allowance would be for nothing.
      return sent;
    }
    return isAllowed ? sent : [...sent, ...(await this.allow(spend, { allowance, ...told }))];
  }

  async allow(drawn: Drawn, { allowance, ...told }: Omit<Funding, 'wrap'>): Promise<{ what: 'approve'; transaction: string }[]> {
    const { token } = splitAsset(drawn.terms.source.asset_identifier);
    const permit2 = drawn.permit2!;
    const allowed = (): Promise<bigint> =>
      this.#read(token, callData('allowance(address,address)', hexWord(this.account), hexWord(permit2)));
    const stands = await allowed();
    const sent: { what: 'approve'; transaction: string }[] = [];
    if (stands >= drawn.cap) return sent;
    // A token like Tether refuses a new allowance while another one stands, so that is taken back first.
    for (const amount of stands > 0n ? [0n, allowance] : [allowance]) {
      const data = callData('approve(address,uint256)', hexWord(permit2), word(amount));
      const call = { to: token, data, value: 0n, name: 'approve' };
      const isDone = async (): Promise<boolean> => (amount === 0n ? (await allowed()) === 0n : (await allowed()) >= drawn.cap);
      sent.push({ what: 'approve', transaction: await this.#send(drawn, { what: 'approve', amount, call }, told, isDone) });
    }
    return sent;
  }

  /** Sends one of the payer's own transactions, told before and after it, and waits until it had its effect. */
  async #send(
    { chainId, feeMax = FEE_WEI_MAX }: Drawn,
    { what, amount, call }: { what: 'wrap' | 'approve'; amount: bigint; call: OwnCall },
    { onStep, signal }: Pick<Funding, 'onStep' | 'signal'>,
    done: () => Promise<boolean>,
  ): Promise<string> {
    await onStep({ step: 'sending', what, amount });
    signal?.throwIfAborted();
    const transaction = await this.signer.send(chainId, call, feeMax);
    await onStep({ step: 'sent', what, transaction });
    await mined(this.node, transaction, call.name, done, signal);
    return transaction;
  }

  verify(spend: Spend, prepared: PreparedPayment): void {
    this.#rebuilt(spend, prepared);
  }

  async sign(spend: Spend, prepared: PreparedPayment): Promise<SignedMessage[]> {
    const signed: SignedMessage[] = [];
    // One after the other: a wallet shows one question at a time.
    for (const rebuilt of this.#rebuilt(spend, prepared)) {
      const { typedData, digest } = rebuilt;
      const signature = await this.signer.signTypedData(typedData);
      const payload = 'payload' in rebuilt ? { payload: { ...rebuilt.payload } } : {};
      signed.push({ message: digest, message_prehash: JSON.stringify(typedData), signature, ...payload });
    }
    return signed;
  }

  verifyBatch(batch: BatchSpend, prepared: PreparedPaymentBatch): void {
    this.#rebuiltBatch(batch, prepared);
  }

  async signBatch(batch: BatchSpend, prepared: PreparedPaymentBatch): Promise<SignedMessage[]> {
    const { typedData, digest } = this.#rebuiltBatch(batch, prepared);
    // The gateway makes the typed data of the payments, and bodies have a limit.
    return [{ message: digest, signature: await this.signer.signTypedData(typedData) }];
  }

  verifyMandate(mandate: MandateSpend, prepared: PreparedMandate): void {
    this.#rebuiltMandate(mandate, prepared);
  }

  async signMandate(mandate: MandateSpend, prepared: PreparedMandate): Promise<string> {
    const { typedData } = this.#rebuiltMandate(mandate, prepared);
    const signature = await this.signer.signTypedData(typedData);
    const length = unhex(signature)?.length ?? 0;
    if (length === 65 || length === 64) return signature;
    const rule = 'a payer that is a contract gives the allowance by a call of Permit2, and signs nothing (signs: false)';
    throw new WalletError('failed', `what ${this.account} signed is not the signature of a key: ${rule}`);
  }

  verifyCharge(charge: ChargeSpend, prepared: PreparedPayment): void {
    this.#rebuiltCharge(charge, prepared);
  }

  async signCharge(charge: ChargeSpend, prepared: PreparedPayment): Promise<SignedMessage[]> {
    const { typedData, digest, payload } = this.#rebuiltCharge(charge, prepared);
    const signature = await this.signer.signTypedData(typedData);
    return [{ message: digest, message_prehash: JSON.stringify(typedData), signature, payload: { ...payload } }];
  }

  async cancelMandate(mandate: MandateSpend): Promise<string> {
    const of = mandateOf(mandate);
    if (this.account !== of.payer && this.account !== of.merchant)
      throw new UsageError(`the wallet is ${this.account}, and ${of.payer} or ${of.merchant} ends the mandate`);
    const { to, data } = cancelMandateCall(of);
    return this.#call(mandate.chainId, to, unhex(data)!, 'cancel');
  }

  #rebuiltMandate(mandate: MandateSpend, prepared: PreparedMandate): MandatePermit {
    const { account: payer } = mandate.terms.source;
    if (payer !== this.account) throw VerificationError.mismatch('payer', this.account, payer);
    return rebuildMandate(mandate, prepared);
  }

  #rebuiltCharge(charge: ChargeSpend, prepared: PreparedPayment): Charge {
    const { merchant } = charge.payload.mandate;
    if (merchant.toLowerCase() !== this.account) throw VerificationError.mismatch('merchant', this.account, merchant);
    return rebuildCharge(charge, prepared);
  }

  #rebuiltBatch(batch: BatchSpend, prepared: PreparedPaymentBatch): BatchPermit {
    const rebuilt = rebuildBatch(batch, prepared);
    const payer = batch.spends[0]?.terms.source.account;
    if (payer !== this.account) throw VerificationError.mismatch('payer', this.account, payer);
    return rebuilt;
  }

  #rebuilt(spend: Spend, prepared: PreparedPayment): Rebuilt[] {
    const payer = spend.terms.source.account;
    if (payer !== this.account) throw VerificationError.mismatch('payer', this.account, payer);
    return rebuild(spend, prepared);
  }

  async refund({ paymentId, chainId, escrow }: EscrowedPayment): Promise<string> {
    const data = await refundCall(this.node, evmAddress(escrow, 'escrow'), paymentId);
    return this.#call(chainId, escrow, data, 'refund');
  }

  async claim(claim: EscrowedClaim): Promise<string> {
    const data = claimCall(this.account, claim, (text, field) => hexWord(evmAddress(text, field)));
    return this.#call(claim.chainId, claim.escrow, data, 'claim');
  }

  async #call(chainId: string, contract: string, data: Uint8Array, name: string): Promise<string> {
    const transaction = await this.signer.send(chainId, { to: evmAddress(contract, 'escrow'), data, value: 0n, name }, FEE_WEI_MAX);
    await mined(this.node, transaction, name);
    return transaction;
  }

  async #read(to: string, data: Uint8Array): Promise<bigint> {
    const answer = unhex(await ask(this.node, 'eth_call', [{ to, data: hex(data) }, 'latest']));
    if (!answer || answer.length < 32) throw new WalletError('failed', `${to} is not a token on this chain`);
    return wordAt(answer, 0);
  }
}

/** The number of a chain as wallets write it. */
const chainNumber = (chainId: string): string => `0x${BigInt(chainId.split(':')[1] ?? '').toString(16)}`;

function providerSigner(provider: Eip1193Provider, account: string): Signer {
  return {
    async signTypedData(typedData) {
      return String(await ask(provider, 'eth_signTypedData_v4', [account, JSON.stringify(typedData)]));
    },
    // The wallet chooses nonce and fees, and shows them. It may have changed its chain since it was connected, and not every
    // wallet looks at the transaction's.
    async send(chainId, { to, data, value, name }) {
      const current = await askNumber(provider, 'eth_chainId');
      if (chainId !== `eip155:${current}`)
        throw new WalletError('chain', `the wallet is on eip155:${current}, and ${name} is for ${chainId}`);
      const number = chainNumber(chainId);
      const call = { from: account, to, data: hex(data), value: `0x${value.toString(16)}`, chainId: number };
      return String(await ask(provider, 'eth_sendTransaction', [call]));
    },
    async switchTo(chainId) {
      const number = chainNumber(chainId);
      try {
        await ask(provider, 'wallet_switchEthereumChain', [{ chainId: number }]);
      } catch (error) {
        const code = ((error as Error).cause as { code?: unknown } | undefined)?.code;
        if (code !== UNKNOWN_CHAIN) throw error;
        throw new WalletError('chain', `the wallet does not know ${chainId}: add it there`, { cause: error });
      }
    },
  };
}

function keySigner(account: EvmAccount, node: Eip1193Provider): Signer {
  return {
    signTypedData: (typedData) => account.signTypedData(typedData),
    // Made and signed here: the node says its nonce, its gas and its fees alone, and what these come to is bounded.
    async send(chainId, { to, data, value, name }, feeMax) {
      if (!account.signTransaction)
        throw new WalletError('failed', `${account.address} signs no transactions, so ${name} cannot be sent`);
      const call = { from: account.address, to, data: hex(data), value: `0x${value.toString(16)}` };
      const gas = ((await askNumber(node, 'eth_estimateGas', [call])) * 5n) / 4n;
      const block = (await ask(node, 'eth_getBlockByNumber', ['latest', false])) as { baseFeePerGas?: unknown } | null;
      const maxPriorityFeePerGas = await askNumber(node, 'eth_maxPriorityFeePerGas');
      const maxFeePerGas = (quantity(block?.baseFeePerGas, 'baseFeePerGas') * 6n) / 5n + maxPriorityFeePerGas;
      const fee = gas * maxFeePerGas;
      if (fee > feeMax)
        throw new WalletError('fee', `${name} could cost ${fee} wei by what the node says, and ${feeMax} is allowed`);
      const nonce = Number(await askNumber(node, 'eth_getTransactionCount', [account.address, 'pending']));
      const id = Number(chainId.split(':')[1]);
      const transaction = {
        type: 'eip1559',
        chainId: id,
        nonce,
        to,
        data: hex(data),
        value,
        gas,
        maxFeePerGas,
        maxPriorityFeePerGas,
      };
      const raw = await account.signTransaction(transaction);
      const bytes = unhex(raw);
      if (!bytes) throw new WalletError('failed', 'what signs transactions gave something that is not one');
      await ask(node, 'eth_sendRawTransaction', [raw]);
      return `0x${bytesToHex(keccak(bytes))}`;
    },
  };
}

/** Waits until the transaction is in a block and had its effect, or until its effect is there by another that took its place. */
async function mined(
  node: Eip1193Provider,
  transaction: string,
  name: string,
  done?: () => Promise<boolean>,
  signal?: AbortSignal,
): Promise<void> {
  const end = Date.now() + MINED_MS;
  for (;;) {
    const receipt = (await ask(node, 'eth_getTransactionReceipt', [transaction])) as { status?: unknown } | null;
    if (receipt) {
      if (receipt.status !== '0x1') throw new WalletError('failed', `${name}, ${transaction}, reverted`);
      return;
    }
    if (await done?.()) return;
    if (Date.now() > end) throw new WalletError('failed', `${name}, ${transaction}, is in no block yet`);
    await pause(POLL_MS, signal);
  }
}
