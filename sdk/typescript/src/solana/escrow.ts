// The program's own refund, through a node and nothing else.

import { base58 } from '@scure/base';

import { unhex, utf8ToBytes } from '../bytes.js';
import { solanaKey } from '../caip.js';
import { WalletError } from '../errors.js';
import { onChainId } from '../ids.js';
import { ASSOCIATED_TOKEN_PROGRAM, SYSTEM_PROGRAM, derivedAddress, tokenAccount } from './keys.js';
import { accountInfo } from './rpc.js';
import type { SolanaRpc } from './rpc.js';
import type { Instruction } from './transaction.js';

/** Tag and layout of an escrow account, and its bytes. */
const ESCROW_TAG = 2;
const LAYOUT = 1;
const ESCROW_BYTES = 389;
const RESERVED = 1;
/** Bits of the state; those above them count reassignments. */
const STATE_BITS = 0b11;
/** Where its members are. */
const AT = { state: 2, payer: 37, rentPayer: 69, mint: 165, tokenProgram: 197, refundAfter: 365 };
const REFUND = 4;
const CREATE_IDEMPOTENT = 1;

/**
 * What refunds a payment: the payer's token account where it is not there, and the refund. All it takes is in the escrow account.
 *
 * @throws {WalletError} where there is nothing to be refunded, or not yet.
 */
export async function refundInstructions(
  rpc: SolanaRpc,
  feePayer: Uint8Array,
  escrow: string,
  paymentId: string,
): Promise<Instruction[]> {
  const program = solanaKey(escrow, 'escrow');
  const id = unhex(onChainId(paymentId))!;
  const info = await accountInfo(rpc, base58.encode(escrowAddress(program, id)));
  if (info?.owner !== escrow) throw new WalletError('failed', `the program ${escrow} has no escrow of ${paymentId}`);
  const terms = readEscrow(info.data);
  if (!terms) throw new WalletError('failed', `the program ${escrow} keeps something else than an escrow of ${paymentId}`);
  if (!terms.isReserved) throw new WalletError('failed', `the escrow of ${paymentId} has ended`);
  if (terms.refundAfter > BigInt(Math.floor(Date.now() / 1000))) {
    throw new WalletError(
      'failed',
      `${paymentId} can be refunded from ${new Date(Number(terms.refundAfter) * 1000).toISOString()} on`,
    );
  }
  const { payer, mint, tokenProgram } = terms;
  const receiver = tokenAccount(payer, mint, tokenProgram);
  const refund = refundInstruction(program, id, terms);
  if (await accountInfo(rpc, base58.encode(receiver))) return [refund];
  const create: Instruction = {
    program: ASSOCIATED_TOKEN_PROGRAM,
    accounts: [
      { key: feePayer, signer: true, writable: true },
      { key: receiver, writable: true },
      { key: payer },
      { key: mint },
      { key: SYSTEM_PROGRAM },
      { key: tokenProgram },
    ],
    data: Uint8Array.of(CREATE_IDEMPOTENT),
  };
  return [create, refund];
}

/** The address of a payment's escrow. */
export const escrowAddress = (program: Uint8Array, id: Uint8Array): Uint8Array => derivedAddress(program, utf8ToBytes('escrow'), id);

/** What a refund takes of an escrow. */
export interface EscrowTerms {
  isReserved: boolean;
  payer: Uint8Array;
  rentPayer: Uint8Array;
  mint: Uint8Array;
  tokenProgram: Uint8Array;
  /** UNIX seconds. */
  refundAfter: bigint;
}

/** What an escrow account says; `undefined` where it is none, or of a layout that is not known. */
export function readEscrow(data: Uint8Array): EscrowTerms | undefined {
  if (data.length !== ESCROW_BYTES || data[0] !== ESCROW_TAG || data[1] !== LAYOUT) return undefined;
  const key = (at: number): Uint8Array => data.slice(at, at + 32);
  return {
    isReserved: (data[AT.state]! & STATE_BITS) === RESERVED,
    payer: key(AT.payer),
    rentPayer: key(AT.rentPayer),
    mint: key(AT.mint),
    tokenProgram: key(AT.tokenProgram),
    refundAfter: new DataView(data.buffer, data.byteOffset).getBigUint64(AT.refundAfter, true),
  };
}

/** The program's `refund` of the payment with this id on chain. */
export function refundInstruction(program: Uint8Array, id: Uint8Array, terms: EscrowTerms): Instruction {
  const { payer, rentPayer, mint, tokenProgram } = terms;
  return {
    program,
    accounts: [
      { key: escrowAddress(program, id), writable: true },
      { key: derivedAddress(program, utf8ToBytes('vault'), id), writable: true },
      { key: tokenAccount(payer, mint, tokenProgram), writable: true },
      { key: mint },
      { key: rentPayer, writable: true },
      { key: tokenProgram },
    ],
    data: Uint8Array.of(REFUND),
  };
}
