// Deposit addresses on Solana: addresses that the escrow's program derives (PDA) from the hash of a deposit's terms.

import { sha256 } from '@noble/hashes/sha2.js';
import { base58 } from '@scure/base';

import { checkBy, openBy } from '../addresses.js';
import type {
  AddressedPayment,
  AddressFamily,
  AddressOptions,
  AddressTerms,
  CheckedAddress,
  CheckOptions,
  OpenedAddress,
} from '../addresses.js';
import { concatBytes, hex, unhex, utf8ToBytes } from '../bytes.js';
import { solanaKey } from '../caip.js';
import type { Gateway } from '../gateway.js';
import type { Order, Spend } from '../types.js';
import { escrowAddress } from './escrow.js';
import { SYSTEM_PROGRAM, TOKEN_PROGRAM, derivedAddress, tokenAccount } from './keys.js';
import { DOMAIN_VERSION, depositBytes } from './message.js';
import type { Instruction } from './transaction.js';

/** In front of the bytes that are hashed for an address. */
const DOMAIN = utf8ToBytes('gw-address');
/** The first seed of an address. */
const SEED = utf8ToBytes('address');
/** Tags of the program's instructions. */
const GIVE_BACK = 11;
const GIVE_BACK_LAMPORTS = 12;

function addressBytes(terms: AddressTerms): Uint8Array {
  const hash = sha256(concatBytes(DOMAIN, Uint8Array.of(DOMAIN_VERSION), depositBytes(terms)));
  return derivedAddress(solanaKey(terms.escrow, 'escrow'), SEED, hash);
}

const SOLANA: AddressFamily = {
  family: 'solana',
  namespace: 'token',
  chain: 'Solana',
  // The escrow's program alone makes addresses, and commands them.
  factoryOf: ({ escrow }) => escrow,
  bytes: solanaKey,
  addressOf: (terms) => base58.encode(addressBytes(terms)),
  // Base58 has both cases of a letter, and each is another digit.
  normalized: (member) => member,
  uri: ({ address, token }) => `solana:${address}?spl-token=${token}`,
};

/**
 * The address of these terms. It is off the curve, so nobody has a key of it: the escrow's program alone moves what is there. The money
 * lies in its associated token account, which whoever sends it makes, as for any account that never had the token.
 */
export const addressOf = (terms: AddressTerms): string => SOLANA.addressOf({ ...terms, factory: terms.escrow });

/** An instruction, with its accounts in Base58. */
export interface ProgramCall {
  program: string;
  accounts: { key: string; signer: boolean; writable: boolean }[];
  data: `0x${string}`;
}

/** What is given back, and by whom. */
export interface GiveBackOptions {
  /** Who gets the rent of the emptied token account, such as the account that sends the transaction. */
  carrier: string;
  /** The mint; that of the terms where it is left out. */
  token?: string;
  /** Token-2022's program where the mint is of it; SPL Token's where it is left out. */
  tokenProgram?: string;
  /** Another token account of the address than its associated one. */
  from?: string;
  /** Another token account of the mint than the refund account's associated one. The refund account then has to sign. */
  to?: string;
  /**
   * Whether the emptied token account is closed; it is where this is left out. False where it cannot be, because Token-2022 withheld fees
   * in it or another account may close it: it stays open then, and the carrier gets no rent.
   * One of wrapped SOL stays open always.
   */
  closes?: boolean;
}

/**
 * The instruction by which anyone has sent to the refund account all that is in a token account of the address, and which closes
 * that account unless `closes` is false. The refund account's own has to be there; it may be made in the same transaction. Of the terms'
 * own token that is possible once no deposit can be made any more: after `reserveDeadline`, or when the payment has been deposited.
 */
export function giveBackCall(terms: AddressTerms, options: GiveBackOptions): ProgramCall {
  const { token = terms.token, from, to, closes = true } = options;
  const program = solanaKey(terms.escrow, 'escrow');
  const payer = solanaKey(terms.deposit.payer, 'payer');
  const address = addressBytes(terms);
  const mint = solanaKey(token, 'token');
  const tokenProgram = options.tokenProgram === undefined ? TOKEN_PROGRAM : solanaKey(options.tokenProgram, 'tokenProgram');
  const accountOf = (owner: Uint8Array, named: string | undefined, field: string): Uint8Array =>
    named === undefined ? tokenAccount(owner, mint, tokenProgram) : solanaKey(named, field);
  return callOf({
    program,
    accounts: [
      { key: solanaKey(options.carrier, 'carrier'), writable: true },
      { key: escrowAddress(program, unhex(terms.deposit.paymentId)!) },
      { key: address },
      { key: accountOf(address, from, 'from'), writable: true },
      { key: accountOf(payer, to, 'to'), writable: true },
      { key: payer, signer: to !== undefined },
      { key: mint },
      { key: tokenProgram },
    ],
    data: concatBytes(Uint8Array.of(GIVE_BACK), depositBytes(terms), Uint8Array.of(Number(closes))),
  });
}

/** The instruction by which anyone has sent to the refund account the SOL at the address, at any time. */
export function giveBackLamportsCall(terms: AddressTerms): ProgramCall {
  return callOf({
    program: solanaKey(terms.escrow, 'escrow'),
    accounts: [
      { key: addressBytes(terms), writable: true },
      { key: solanaKey(terms.deposit.payer, 'payer'), writable: true },
      { key: SYSTEM_PROGRAM },
    ],
    data: concatBytes(Uint8Array.of(GIVE_BACK_LAMPORTS), depositBytes(terms)),
  });
}

function callOf({ program, accounts, data }: Instruction): ProgramCall {
  const named = accounts.map(({ key, signer = false, writable = false }) => ({ key: base58.encode(key), signer, writable }));
  return { program: base58.encode(program), accounts: named, data: hex(data) };
}

/**
 * The address that a gateway gave, where it is that of the payer's own order and money can be sent there now. Every member is
 * compared; of what the gateway says only the windows are taken, which are bounded, and up to when it waits. `factory` has to be the
 * escrow's program.
 *
 * @param spend Of `addressSpend`.
 * @param options.payBy What was asked for, where it was.
 * @throws {VerificationError} where money that is sent there could end elsewhere than it should; `field` names the member.
 * @throws {StaleAddress} where it is, but was given before: the payment is not pending, its time is over or ends within 5 seconds, or is
 *   another than was asked for.
 */
export function checkAddress(spend: Spend, payment: AddressedPayment, options: CheckOptions = {}): CheckedAddress {
  return checkBy(SOLANA, spend, payment, options);
}

/**
 * Opens a payment by deposit address: a quote-request, its address, and the comparison. `order.source.account` is the refund account:
 * one of the payer's own whose associated token account of the mint is there, never one of an exchange. Nothing is signed and nothing
 * sent; once `amount` is at the address, the payment goes on by itself, as `gateway.wait` or `watch` tell. A wallet or an exchange that
 * refuses an address off the curve cannot pay to it.
 *
 * With the `requestId` of an earlier try, and its `callerSecret` where it had one, it is the same payment: keep both before the call.
 *
 * @throws {VerificationError} where the gateway gives another address than the order's.
 * @throws {StaleAddress} where the address is the order's, but was given before, and nothing may be sent there any more; its
 *   `paymentId` says how that payment stands.
 */
export function openAddress(gateway: Gateway, order: Order, options: AddressOptions = {}): Promise<OpenedAddress> {
  return openBy(SOLANA, gateway, order, options);
}
