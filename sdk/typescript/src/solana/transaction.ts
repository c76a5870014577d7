// Transactions of Solana: instructions as a message of the first version, and its signatures.

import { base58 } from '@scure/base';

import { concatBytes } from '../bytes.js';

/** An account of an instruction. */
export interface AccountMeta {
  key: Uint8Array;
  signer?: boolean;
  writable?: boolean;
}

/** An instruction. */
export interface Instruction {
  program: Uint8Array;
  accounts: AccountMeta[];
  data: Uint8Array;
}

/** A length in seven bits a byte, lowest first. */
function compact(length: number): Uint8Array {
  const bytes: number[] = [];
  for (let rest = length; ; rest >>= 7) {
    if (rest < 0x80) return Uint8Array.of(...bytes, rest);
    bytes.push((rest & 0x7f) | 0x80);
  }
}

/** The bytes of a message, which is what its signers sign. The payer of the fee comes first, and signs. */
export function message(feePayer: Uint8Array, blockhash: string, instructions: Instruction[]): Uint8Array {
  const metas = new Map<string, Required<AccountMeta>>();
  const add = ({ key, signer = false, writable = false }: AccountMeta): void => {
    const name = base58.encode(key);
    const known = metas.get(name) ?? { key, signer: false, writable: false };
    metas.set(name, { key, signer: known.signer || signer, writable: known.writable || writable });
  };
  add({ key: feePayer, signer: true, writable: true });
  for (const { accounts } of instructions) accounts.forEach(add);
  for (const { program } of instructions) add({ key: program });
  const rank = ({ signer, writable }: Required<AccountMeta>): number => (signer ? 0 : 2) + (writable ? 0 : 1);
  // Sorting keeps the order of equals, so the payer of the fee stays first.
  const accounts = [...metas.entries()].sort(([, one], [, other]) => rank(one) - rank(other));
  const index = (key: Uint8Array): number => accounts.findIndex(([name]) => name === base58.encode(key));
  const count = (is: (meta: Required<AccountMeta>) => boolean): number => accounts.filter(([, meta]) => is(meta)).length;
  const header = Uint8Array.of(
    count(({ signer }) => signer),
    count(({ signer, writable }) => signer && !writable),
    count(({ signer, writable }) => !signer && !writable),
  );
  const bodies = instructions.map(({ program, accounts: used, data }) =>
    concatBytes(
      Uint8Array.of(index(program)),
      compact(used.length),
      Uint8Array.from(used, ({ key }) => index(key)),
      compact(data.length),
      data,
    ),
  );
  return concatBytes(
    header,
    compact(accounts.length),
    ...accounts.map(([, { key }]) => key),
    base58.decode(blockhash),
    compact(bodies.length),
    ...bodies,
  );
}

/** A transaction with one signer; zeros stand for a signature that the wallet makes. */
export function transaction(messageBytes: Uint8Array, signature: Uint8Array = new Uint8Array(64)): Uint8Array {
  return concatBytes(compact(1), signature, messageBytes);
}
