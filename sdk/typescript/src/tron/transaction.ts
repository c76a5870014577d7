// A transaction as wallets and nodes of Tron take it.

import { sha256 } from '@noble/hashes/sha2.js';

import { bytesToHex } from '../bytes.js';
import { rawData } from './protobuf.js';
import type { Draft } from './protobuf.js';

/** A transaction in the JSON form of nodes and of tronweb. */
export interface TronTransaction {
  visible: false;
  txID: string;
  raw_data: {
    contract: { parameter: { value: Record<string, string | number>; type_url: string }; type: 'TriggerSmartContract' }[];
    ref_block_bytes: string;
    ref_block_hash: string;
    expiration: number;
    timestamp: number;
    fee_limit: number;
  };
  raw_data_hex: string;
  signature?: string[];
}

/** The transaction of a draft; its id is the SHA-256 of its bytes. */
export function transactionOf(draft: Draft): TronTransaction {
  const raw = rawData(draft);
  const value: Record<string, string | number> = {
    data: bytesToHex(draft.data),
    owner_address: `41${bytesToHex(draft.owner)}`,
    contract_address: `41${bytesToHex(draft.contract)}`,
    ...(draft.callValue ? { call_value: Number(draft.callValue) } : {}),
  };
  return {
    visible: false,
    txID: bytesToHex(sha256(raw)),
    raw_data: {
      contract: [
        { parameter: { value, type_url: 'type.googleapis.com/protocol.TriggerSmartContract' }, type: 'TriggerSmartContract' },
      ],
      ref_block_bytes: bytesToHex(draft.refBlockBytes),
      ref_block_hash: bytesToHex(draft.refBlockHash),
      expiration: Number(draft.expiration),
      timestamp: Number(draft.timestamp),
      fee_limit: Number(draft.feeLimit),
    },
    raw_data_hex: bytesToHex(raw),
  };
}
