// What a payer signs on EVM chains: Permit2's witness transfer into the escrow, rebuilt from the payer's own request.

import { concatBytes, hex } from '../bytes.js';
import { splitAsset } from '../caip.js';
import { VerificationError } from '../errors.js';
import { onChainId, termsHash } from '../ids.js';
import type { PreparedPayment, Spend } from '../types.js';
import { checkVerifier } from '../verifiers.js';
import { checkWindows, quoteHashOf } from '../windows.js';
import { digest, hashStruct, hexWord, keccak, word } from './abi.js';

const DEPOSIT_TYPE =
  'GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,' +
  'uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)';
const TOKEN_TYPE = 'TokenPermissions(address token,uint256 amount)';
const TRANSFER_TYPE =
  `PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,GatewayDeposit witness)` +
  DEPOSIT_TYPE +
  TOKEN_TYPE;
const DOMAIN_TYPE = 'EIP712Domain(string name,uint256 chainId,address verifyingContract)';

/** The members of a type string, `Name(type name,…)`. */
const members = (type: string): { name: string; type: string }[] =>
  type
    .slice(type.indexOf('(') + 1, type.indexOf(')'))
    .split(',')
    .map((member) => {
      const [kind = '', name = ''] = member.split(' ');
      return { name, type: kind };
    });

const TYPES = {
  EIP712Domain: members(DOMAIN_TYPE),
  TokenPermissions: members(TOKEN_TYPE),
  GatewayDeposit: members(DEPOSIT_TYPE),
  PermitWitnessTransferFrom: members(TRANSFER_TYPE),
};

/** EIP-712 typed data, as `eth_signTypedData_v4` takes it; every number but the chain's is a decimal text. */
export interface TypedData {
  types: Record<string, { name: string; type: string }[]>;
  primaryType: 'PermitWitnessTransferFrom';
  domain: { name: string; chainId: number; verifyingContract: string };
  message: {
    permitted: { token: string; amount: string };
    spender: string;
    nonce: string;
    deadline: string;
    witness: {
      paymentId: string;
      termsHash: string;
      quoteHash: string;
      payer: string;
      reserver: string;
      releaser: string;
      reserveDeadline: string;
      fulfillmentDeadline: string;
      refundAfter: string;
    };
  };
}

/** What is signed, and its digest. */
export interface Permit {
  typedData: TypedData;
  digest: `0x${string}`;
}

/** The windows that are the gateway's to choose, within the payer's limits; UNIX seconds. */
interface Windows {
  deadline: number;
  reserveDeadline: number;
  refundAfter: number;
  quoteHash: string;
}

/**
 * The typed data of a deposit, from the payer's request and the accounts that it trusts; only the windows are read from what the
 * gateway prepared, and bounded.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else.
 */
export function rebuild(spend: Spend, prepared: PreparedPayment): Permit {
  const [message, ...others] = prepared.signed_messages;
  if (prepared.message_scheme !== 'EVM_PERMIT2_ESCROW' || !message || others.length) {
    throw new VerificationError(
      'message_scheme',
      `the gateway asks for ${others.length + 1} signatures of ${prepared.message_scheme}`,
    );
  }
  checkVerifier('evm', spend.releaser, prepared.fulfillment_verifier);
  const windows = readWindows(message.message_prehash);
  checkWindows(spend, windows);
  const permit = build(spend, windows);
  if (message.message !== permit.digest) {
    const rule = `the gateway asks for a signature over something else${difference(message.message_prehash, permit.typedData)}`;
    throw new VerificationError('message', rule, permit.digest, message.message);
  }
  return permit;
}

function build(spend: Spend, windows: Windows): Permit {
  const { reference, token } = splitAsset(spend.terms.source.asset_identifier);
  const id = onChainId(spend.paymentId);
  const terms = termsHash(spend.terms);
  const nonce = hex(keccak(concatBytes(hexWord(id), hexWord(terms))));
  const permit2 = spend.permit2!;
  const payer = spend.terms.source.account;
  const witness = {
    paymentId: id,
    termsHash: terms,
    quoteHash: quoteHashOf(spend, windows.quoteHash),
    payer,
    reserver: spend.reserver,
    releaser: spend.releaser,
    reserveDeadline: String(windows.reserveDeadline),
    fulfillmentDeadline: String(spend.fulfillmentDeadline),
    refundAfter: String(windows.refundAfter),
  };
  const typedData: TypedData = {
    types: TYPES,
    primaryType: 'PermitWitnessTransferFrom',
    domain: { name: 'Permit2', chainId: Number(reference), verifyingContract: permit2 },
    message: {
      permitted: { token, amount: spend.cap.toString() },
      spender: spend.escrow,
      nonce: BigInt(nonce).toString(),
      deadline: String(windows.deadline),
      witness,
    },
  };
  const domain = hashStruct(DOMAIN_TYPE, keccak('Permit2'), word(BigInt(reference)), hexWord(permit2));
  const struct = hashStruct(
    TRANSFER_TYPE,
    hashStruct(TOKEN_TYPE, hexWord(token), word(spend.cap)),
    hexWord(spend.escrow),
    hexWord(nonce),
    word(windows.deadline),
    depositHash(witness),
  );
  return { typedData, digest: hex(digest(domain, struct)) };
}

/** EIP-712's hash of a deposit, as both the escrow and Permit2 take it. */
export function depositHash(deposit: TypedData['message']['witness']): Uint8Array {
  const { paymentId, termsHash: terms, quoteHash, payer, reserver, releaser } = deposit;
  const times = [deposit.reserveDeadline, deposit.fulfillmentDeadline, deposit.refundAfter];
  const accounts = [paymentId, terms, quoteHash, payer, reserver, releaser];
  return hashStruct(DEPOSIT_TYPE, ...accounts.map(hexWord), ...times.map((time) => word(BigInt(time))));
}

/** The type string of a deposit. */
export { DEPOSIT_TYPE };

function readWindows(text: string): Windows {
  let message: Partial<Record<string, unknown>> | undefined;
  try {
    message = (JSON.parse(text) as { message?: Record<string, unknown> } | null)?.message;
  } catch {
    // Refused below.
  }
  const witness = (message?.['witness'] ?? {}) as Record<string, unknown>;
  return {
    deadline: seconds('deadline', message?.['deadline']),
    reserveDeadline: seconds('witness.reserveDeadline', witness['reserveDeadline']),
    refundAfter: seconds('witness.refundAfter', witness['refundAfter']),
    quoteHash: String(witness['quoteHash']),
  };
}

function seconds(field: string, value: unknown): number {
  const number = typeof value === 'number' || (typeof value === 'string' && /^\d{1,15}$/.test(value)) ? Number(value) : NaN;
  if (!Number.isSafeInteger(number) || number < 0) throw new VerificationError(field, `${field} is not a time: ${String(value)}`);
  return number;
}

/** Where the gateway's typed data differs first, to be shown. */
function difference(text: string, own: TypedData): string {
  let message: unknown;
  try {
    message = (JSON.parse(text) as { message?: unknown }).message;
  } catch {
    return '';
  }
  const walk = (mine: unknown, theirs: unknown, path: string): string => {
    if (typeof mine !== 'object' || mine === null) {
      return String(theirs).toLowerCase() === String(mine).toLowerCase()
        ? ''
        : `: ${path} is ${String(theirs).slice(0, 100)}, and not ${String(mine)}`;
    }
    for (const [name, value] of Object.entries(mine)) {
      const found = walk(value, (theirs as Record<string, unknown> | null | undefined)?.[name], path ? `${path}.${name}` : name);
      if (found) return found;
    }
    return '';
  };
  return walk(own.message, message, '');
}
