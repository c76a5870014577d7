// CAIP-2 chains, CAIP-19 assets and accounts, and the one form in which each is hashed.

import { keccak_256 } from '@noble/hashes/sha3.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { base58, createBase58check } from '@scure/base';

import { bytesToHex, utf8ToBytes } from './bytes.js';
import { UsageError } from './errors.js';
import type { Family, OwnedAsset } from './types.js';

const FAMILIES: Record<string, Family> = { eip155: 'evm', solana: 'solana', tron: 'tron' };
const NAMESPACES: Record<Family, string> = { evm: 'eip155', solana: 'solana', tron: 'tron' };
const ASSET = /^([-a-z0-9]{3,8}):([-_a-zA-Z0-9]{1,32})\/([-a-z0-9]{3,8}):([-.%a-zA-Z0-9]{1,128})$/;
const EVM_ADDRESS = /^0x[0-9a-f]{40}$/i;
/** In front of the twenty bytes of an address of Tron. */
const TRON_PREFIX = 0x41;
const base58check = createBase58check(sha256);

/** The parts of a CAIP-19 asset. */
export interface AssetParts {
  family: Family;
  /** CAIP-2. */
  chainId: string;
  /** The chain's number or hash. */
  reference: string;
  /** `erc20`, `token`, `trc20` or `slip44`. */
  namespace: string;
  /** The token's address. */
  token: string;
}

/** The family of a CAIP-2 chain, or of a CAIP-19 asset. */
export function familyOf(id: string): Family {
  const family = FAMILIES[id.split(':')[0] ?? ''];
  if (!family) throw new UsageError(`${id} is not on a chain of a family that is known: eip155, solana, tron`);
  return family;
}

/** Takes a CAIP-19 asset apart. */
export function splitAsset(asset: string): AssetParts {
  const [, namespace, reference, kind, token] = ASSET.exec(asset) ?? [];
  if (!namespace || !reference || !kind || !token)
    throw new UsageError(`${asset} is not a CAIP-19 asset, such as eip155:1/erc20:0x…`);
  return { family: familyOf(asset), chainId: `${namespace}:${reference}`, reference, namespace: kind, token };
}

/** The twenty bytes of an EVM address; in mixed case its EIP-55 checksum has to hold. */
export function evmAddress(text: string, field = 'address'): string {
  if (!EVM_ADDRESS.test(text)) throw new UsageError(`${field} is not an EVM address: ${text}`);
  const lower = text.toLowerCase();
  const digits = text.slice(2);
  if (digits !== digits.toLowerCase() && digits !== digits.toUpperCase()) {
    const hash = bytesToHex(keccak_256(utf8ToBytes(lower.slice(2))));
    const checked = [...lower.slice(2)].map((digit, at) => (parseInt(hash[at]!, 16) > 7 ? digit.toUpperCase() : digit)).join('');
    if (checked !== digits) throw new UsageError(`${field} has a wrong checksum, so it is mistyped: ${text}`);
  }
  return lower;
}

/** The 32 bytes of a key of Solana. */
export function solanaKey(text: string, field = 'account'): Uint8Array {
  let bytes: Uint8Array | undefined;
  try {
    bytes = base58.decode(text);
  } catch {
    // Refused below, as a key of another length is.
  }
  if (bytes?.length !== 32) throw new UsageError(`${field} is not a key of Solana: ${text}`);
  return bytes;
}

/** The twenty bytes of an address of Tron, whose checksum has to hold. */
export function tronAddress(text: string, field = 'account'): Uint8Array {
  let bytes: Uint8Array | undefined;
  try {
    bytes = base58check.decode(text);
  } catch {
    // Refused below.
  }
  if (bytes?.length !== 21 || bytes[0] !== TRON_PREFIX) throw new UsageError(`${field} is not an address of Tron: ${text}`);
  return bytes.slice(1);
}

/** The Base58 form of twenty bytes on Tron. */
export function tronText(address: Uint8Array): string {
  return base58check.encode(Uint8Array.of(TRON_PREFIX, ...address));
}

/** An account in the form in which it is hashed and compared. */
export function normalAccount(family: Family, account: string, field = 'account'): string {
  switch (family) {
    case 'evm':
      return evmAddress(account, field);
    case 'solana':
      solanaKey(account, field);
      return account;
    case 'tron':
      tronAddress(account, field);
      return account;
  }
}

/** An asset in the form in which it is hashed: EVM in lower case, Tron's chain as a decimal number. */
export function normalAsset(asset: string): string {
  const { family, reference, namespace, token } = splitAsset(asset);
  switch (family) {
    case 'evm':
      return namespace === 'slip44' ? asset : asset.replace(token, evmAddress(token, asset));
    case 'solana':
      return asset;
    case 'tron':
      return /^0x[0-9a-f]{1,8}$/i.test(reference) ? asset.replace(reference, BigInt(reference).toString()) : asset;
  }
}

/** Asset and account in the form in which the terms are hashed. */
export function normalOwned({ asset_identifier, account }: OwnedAsset, field: string): OwnedAsset {
  const asset = normalAsset(asset_identifier);
  return { asset_identifier: asset, account: normalAccount(familyOf(asset), account, `${field}.account`) };
}

/** Whom a payment is of that comes without a DID: `eip155:0x…`, `solana:…` or `tron:T…`. */
export function originatorOf(family: Family, account: string): string {
  return `${NAMESPACES[family]}:${normalAccount(family, account)}`;
}
