// Bytes and hexadecimal.

import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';

export { bytesToHex, concatBytes, utf8ToBytes } from '@noble/hashes/utils.js';

/** 0x and the digits of these bytes. */
export const hex = (bytes: Uint8Array): `0x${string}` => `0x${bytesToHex(bytes)}`;

/** Hexadecimal digits in lower case, without 0x. */
export const bare = (text: string): string => text.replace(/^0x/i, '').toLowerCase();

/** The bytes that hexadecimal digits stand for, with or without 0x; `undefined` where they are not any. */
export function unhex(text: unknown): Uint8Array | undefined {
  if (typeof text !== 'string' || !/^(?:0x)?(?:[0-9a-f]{2})*$/i.test(text)) return undefined;
  return hexToBytes(bare(text));
}

/** Whether both are the same bytes. */
export function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}
