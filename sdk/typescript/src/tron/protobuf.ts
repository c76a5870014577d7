// Transactions of Tron: the one encoding of a contract call, and its JSON form.

import { concatBytes, isEqual, utf8ToBytes } from '../bytes.js';

const TYPE_URL = 'type.googleapis.com/protocol.TriggerSmartContract';
const TRIGGER_SMART_CONTRACT = 31n;
/** In front of the twenty bytes of an address. */
const PREFIX = 0x41;
/** Numbers of members. */
const RAW = { refBlockBytes: 1, refBlockHash: 4, expiration: 8, contract: 11, timestamp: 14, feeLimit: 18 };
const CONTRACT = { type: 1, parameter: 2 };
const ANY = { typeUrl: 1, value: 2 };
const TRIGGER = { owner: 1, contract: 2, callValue: 3, data: 4 };

/** A call of a contract, and the envelope that it is signed in. */
export interface Draft {
  /** Twenty bytes each. */
  owner: Uint8Array;
  contract: Uint8Array;
  data: Uint8Array;
  /** TRX that go along, in sun. */
  callValue: bigint;
  refBlockBytes: Uint8Array;
  refBlockHash: Uint8Array;
  /** UNIX milliseconds. */
  expiration: bigint;
  timestamp: bigint;
  /** Sun that energy may cost at most. */
  feeLimit: bigint;
}

function varint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>= 7n) {
    if (rest < 0x80n) return Uint8Array.of(...bytes, Number(rest));
    bytes.push(Number(rest & 0x7fn) | 0x80);
  }
}

/** A number; one that is zero is not written. */
const number = (field: number, value: bigint): Uint8Array =>
  value === 0n ? new Uint8Array() : concatBytes(varint(BigInt(field << 3)), varint(value));

/** Bytes; none are not written. */
const bytes = (field: number, value: Uint8Array): Uint8Array =>
  value.length ? concatBytes(varint(BigInt((field << 3) | 2)), varint(BigInt(value.length)), value) : value;

/** The encoded `raw_data`. */
export function rawData(draft: Draft): Uint8Array {
  const trigger = concatBytes(
    bytes(TRIGGER.owner, Uint8Array.of(PREFIX, ...draft.owner)),
    bytes(TRIGGER.contract, Uint8Array.of(PREFIX, ...draft.contract)),
    number(TRIGGER.callValue, draft.callValue),
    bytes(TRIGGER.data, draft.data),
  );
  const any = concatBytes(bytes(ANY.typeUrl, utf8ToBytes(TYPE_URL)), bytes(ANY.value, trigger));
  const contract = concatBytes(number(CONTRACT.type, TRIGGER_SMART_CONTRACT), bytes(CONTRACT.parameter, any));
  return concatBytes(
    bytes(RAW.refBlockBytes, draft.refBlockBytes),
    bytes(RAW.refBlockHash, draft.refBlockHash),
    number(RAW.expiration, draft.expiration),
    bytes(RAW.contract, contract),
    number(RAW.timestamp, draft.timestamp),
    number(RAW.feeLimit, draft.feeLimit),
  );
}

/** The members of a message, the last of each number; `undefined` where it cannot be read. */
function members(message: Uint8Array): Map<number, bigint | Uint8Array> | undefined {
  const found = new Map<number, bigint | Uint8Array>();
  let at = 0;
  const read = (): bigint | undefined => {
    let value = 0n;
    for (let shift = 0n; shift < 64n && at < message.length; shift += 7n) {
      const byte = message[at++]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return undefined;
  };
  while (at < message.length) {
    const key = read();
    if (key === undefined) return undefined;
    const value = read();
    if (value === undefined) return undefined;
    const field = Number(key >> 3n);
    if ((key & 7n) === 0n) found.set(field, value);
    else if ((key & 7n) === 2n && at + Number(value) <= message.length) {
      found.set(field, message.slice(at, at + Number(value)));
      at += Number(value);
    } else return undefined;
  }
  return found;
}

const asBytes = (value: bigint | Uint8Array | undefined): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array());
const asNumber = (value: bigint | Uint8Array | undefined): bigint => (typeof value === 'bigint' ? value : 0n);

/**
 * What `raw_data` says, as far as it is a call of a contract; `undefined` where it cannot be read at all. It is not to be believed
 * before {@link rawData} has given the very same bytes again.
 */
export function read(raw: Uint8Array): Draft | undefined {
  const outer = members(raw);
  const contract = members(asBytes(outer?.get(RAW.contract)));
  const any = members(asBytes(contract?.get(CONTRACT.parameter)));
  const trigger = members(asBytes(any?.get(ANY.value)));
  if (!outer || !trigger) return undefined;
  return {
    owner: asBytes(trigger.get(TRIGGER.owner)).slice(1),
    contract: asBytes(trigger.get(TRIGGER.contract)).slice(1),
    data: asBytes(trigger.get(TRIGGER.data)),
    callValue: asNumber(trigger.get(TRIGGER.callValue)),
    refBlockBytes: asBytes(outer.get(RAW.refBlockBytes)),
    refBlockHash: asBytes(outer.get(RAW.refBlockHash)),
    expiration: asNumber(outer.get(RAW.expiration)),
    timestamp: asNumber(outer.get(RAW.timestamp)),
    feeLimit: asNumber(outer.get(RAW.feeLimit)),
  };
}

/** Whether the bytes are these, and nothing else. */
export const isDraft = (raw: Uint8Array, draft: Draft): boolean => isEqual(raw, rawData(draft));
