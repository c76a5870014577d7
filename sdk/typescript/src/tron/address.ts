// How Tron writes addresses where EVM chains have 0x and digits: Base58, of which contracts and typed data (TIP-712) take the twenty
// bytes behind the prefix.

import { hexWord } from '../abi.js';
import type { AddressForm } from '../abi.js';
import { hex } from '../bytes.js';
import { tronAddress } from '../caip.js';

/** The word that stands for an address. */
export const addressWord = (text: string, field?: string): Uint8Array => hexWord(hex(tronAddress(text, field)));

/** Base58, whose letters have a case; wallets and gateways may write the twenty bytes in hexadecimal, too. */
export const BASE58_ADDRESSES: AddressForm = {
  word: (address) => addressWord(address),
  normalized(text) {
    try {
      return hex(tronAddress(text));
    } catch {
      return text.toLowerCase();
    }
  },
};
