// Deposit addresses that a contract makes: minimal proxies (ERC-1167), each where CREATE2 puts it by the hash of its terms.

import { callData, hexWord, keccak, word } from './abi.js';
import type { AddressTerms, PlacedTerms } from './addresses.js';
import { concatBytes, hex, unhex } from './bytes.js';

/** The code that makes a minimal proxy, before and behind the address of what it runs. */
const PROXY = ['3d602d80600a3d3981f3363d3d373d3d3d363d73', '5af43d82803e903d91602b57fd5bf3'] as const;
const TERMS = '(address,address,uint256,(bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48))';
const GIVE_BACK = `giveBack(${TERMS},address)`;

/** How a family of chains makes proxies. */
export interface ProxyRules {
  /** The first byte of what CREATE2 hashes. */
  prefix: number;
  /** What each address of a factory runs; both are twenty bytes. */
  implementation(factory: Uint8Array): Uint8Array;
  /** The twenty bytes of an account. */
  bytes(account: string, field: string): Uint8Array;
  /** The account of twenty bytes. */
  text(bytes: Uint8Array): string;
}

/** A call of a contract. */
export interface ContractCall {
  to: string;
  data: `0x${string}`;
}

/** Where CREATE2 puts what `from` makes. */
export function create2(prefix: number, from: Uint8Array, salt: Uint8Array, creationHash: Uint8Array): Uint8Array {
  return keccak(concatBytes(Uint8Array.of(prefix), from, salt, creationHash)).slice(-20);
}

/** The words of `DepositAddresses.Terms`, as Solidity's ABI has them. */
export function termsWords(by: ProxyRules, { escrow, token, amount, deposit }: AddressTerms): Uint8Array[] {
  const account = (text: string, field: string): Uint8Array => hexWord(hex(by.bytes(text, field)));
  return [
    account(escrow, 'escrow'),
    account(token, 'token'),
    word(amount),
    ...[deposit.paymentId, deposit.termsHash, deposit.quoteHash].map(hexWord),
    account(deposit.payer, 'payer'),
    account(deposit.reserver, 'reserver'),
    account(deposit.releaser, 'releaser'),
    ...[deposit.reserveDeadline, deposit.fulfillmentDeadline, deposit.refundAfter].map((time) => word(BigInt(time))),
  ];
}

/** The address of a factory's proxy with this salt, whether its code is made or not. */
export function proxyAt(by: ProxyRules, factory: string, salt: Uint8Array): string {
  const from = by.bytes(factory, 'factory');
  const creation = concatBytes(unhex(PROXY[0])!, by.implementation(from), unhex(PROXY[1])!);
  return by.text(create2(by.prefix, from, salt, keccak(creation)));
}

/** The address of these terms: that of the proxy whose salt is their hash. */
export function proxyAddress(by: ProxyRules, terms: PlacedTerms): string {
  return proxyAt(by, terms.factory, keccak(concatBytes(...termsWords(by, terms))));
}

/** The factory's `giveBack` of a token. */
export function giveBackBy(by: ProxyRules, terms: PlacedTerms, token: string): ContractCall {
  return { to: terms.factory, data: hex(callData(GIVE_BACK, ...termsWords(by, terms), hexWord(hex(by.bytes(token, 'token'))))) };
}
