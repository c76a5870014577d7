// As much of Solidity's ABI and of EIP-712 as the escrow, Permit2, mandates and tokens need: arguments of one word each, and bytes.

import { keccak_256 } from '@noble/hashes/sha3.js';

import { concatBytes, hex, unhex, utf8ToBytes } from './bytes.js';

/** Bytes of a word. */
export const WORD = 32;

/** keccak-256 of a text, or of bytes. */
export const keccak = (data: string | Uint8Array): Uint8Array => keccak_256(typeof data === 'string' ? utf8ToBytes(data) : data);

/** A number as a word, big endian. */
export function word(value: bigint | number): Uint8Array {
  const digits = BigInt(value).toString(16);
  if (digits.startsWith('-') || digits.length > 2 * WORD) throw new RangeError(`${value} is not a word`);
  return unhex(digits.padStart(2 * WORD, '0'))!;
}

/** Hexadecimal digits as a word: an address on the right, 32 bytes as they are. */
export function hexWord(text: string): Uint8Array {
  const bytes = unhex(text);
  if (!bytes || bytes.length > WORD) throw new RangeError(`${text} is not a word`);
  const padded = new Uint8Array(WORD);
  padded.set(bytes, WORD - bytes.length);
  return padded;
}

/** Bytes of any length, as they stand among the arguments: their number, and as many words as they fill. */
export function bytesWords(bytes: Uint8Array): Uint8Array {
  const padded = new Uint8Array(WORD * (1 + Math.ceil(bytes.length / WORD)));
  padded.set(word(bytes.length));
  padded.set(bytes, WORD);
  return padded;
}

/** How a family of chains writes addresses. */
export interface AddressForm {
  /** The word that stands for an address. */
  word(address: string): Uint8Array;
  /** A text as it is compared with another: whatever stands for one address is the same. */
  normalized(text: string): string;
}

/** 0x and digits, which have no case. */
export const HEX_ADDRESSES: AddressForm = { word: hexWord, normalized: (text) => text.toLowerCase() };

/** The bytes of a call: the selector of `signature`, such as `approve(address,uint256)`, and its arguments. */
export function callData(signature: string, ...words: Uint8Array[]): Uint8Array {
  return concatBytes(keccak(signature).slice(0, 4), ...words);
}

/** The word at this place, as a number. */
export function wordAt(data: Uint8Array, index: number): bigint {
  const bytes = data.slice(index * WORD, (index + 1) * WORD);
  if (bytes.length !== WORD) throw new RangeError('an answer is shorter than it has to be');
  return BigInt(hex(bytes));
}

/** EIP-712's hash of a struct whose members are words, by its whole type string. */
export function hashStruct(type: string, ...words: Uint8Array[]): Uint8Array {
  return keccak(concatBytes(keccak(type), ...words));
}

/** EIP-712's digest. */
export function digest(domainSeparator: Uint8Array, structHash: Uint8Array): Uint8Array {
  return keccak(concatBytes(Uint8Array.of(0x19, 0x01), domainSeparator, structHash));
}
