// Addresses that programs derive (PDA), and the accounts of tokens.

import { Point } from '@noble/ed25519';
import { sha256 } from '@noble/hashes/sha2.js';

import { concatBytes, utf8ToBytes } from '../bytes.js';
import { solanaKey } from '../caip.js';

const MARKER = utf8ToBytes('ProgramDerivedAddress');

export const TOKEN_PROGRAM = solanaKey('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA');
export const TOKEN_2022_PROGRAM = solanaKey('TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb');
export const ASSOCIATED_TOKEN_PROGRAM = solanaKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
export const SYSTEM_PROGRAM = new Uint8Array(32);
/** The mint whose tokens are wrapped lamports. */
export const NATIVE_MINT = solanaKey('So11111111111111111111111111111111111111112');

/** Whether it is a key that somebody could hold. */
function isOnCurve(bytes: Uint8Array): boolean {
  try {
    Point.fromBytes(bytes);
    return true;
  } catch {
    return false;
  }
}

/** The first address off the curve for these seeds. */
export function derivedAddress(program: Uint8Array, ...seeds: Uint8Array[]): Uint8Array {
  for (let bump = 255; bump >= 0; bump -= 1) {
    const address = sha256(concatBytes(...seeds, Uint8Array.of(bump), program, MARKER));
    if (!isOnCurve(address)) return address;
  }
  throw new Error('no bump gives an address off the curve');
}

/** The associated token account of a wallet. */
export function tokenAccount(owner: Uint8Array, mint: Uint8Array, tokenProgram: Uint8Array): Uint8Array {
  return derivedAddress(ASSOCIATED_TOKEN_PROGRAM, owner, tokenProgram, mint);
}

/** The address to which a payer gives its allowance, for deposits that `signer` signs. */
export function delegateAddress(program: Uint8Array, signer: Uint8Array): Uint8Array {
  return derivedAddress(program, utf8ToBytes('delegate'), signer);
}
