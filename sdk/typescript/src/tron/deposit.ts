// What a payer without an allowance for Permit2 signs on Tron: its own transactions, an allowance for the escrow where it lacks one,
// and the deposit, rebuilt from the payer's own request.

import { recoverPublicKey, Point } from '@noble/secp256k1';

import { callData, digest, hashStruct, hexWord, keccak, WORD, word, wordAt } from '../abi.js';
import { concatBytes, hex, isEqual, unhex } from '../bytes.js';
import { splitAsset, tronAddress } from '../caip.js';
import { DEPOSIT_TYPE } from '../deposit.js';
import { VerificationError } from '../errors.js';
import { onChainId, termsHash } from '../ids.js';
import { TRON } from '../schemes.js';
import type { PreparedPayment, Spend } from '../types.js';
import { checkVerifier } from '../verifiers.js';
import { checkWindows, quoteHashOf } from '../windows.js';
import { addressWord } from './address.js';
import { isDraft, read } from './protobuf.js';
import type { Draft } from './protobuf.js';
import { transactionOf } from './transaction.js';
import type { TronTransaction } from './transaction.js';

const APPROVE = 'approve(address,uint256)';
const DEPOSIT_OWN = 'depositOwn((bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48),address,uint256,bytes)';
const OPENING_TYPE = `Opening(GatewayDeposit deposit,address token,uint256 amount)${DEPOSIT_TYPE}`;
const DOMAIN_TYPE = 'EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)';
/** Words in front of the signature among the arguments of `depositOwn`: the deposit's nine, token, amount, offset and length. */
const HEAD_WORDS = 13;
const SIGNATURE_BYTES = 65;
/** The network takes no transaction that expires later. */
const EXPIRATION_MS_MAX = 24 * 60 * 60 * 1000;
/** The most that energy of one transaction may cost where nobody says so, in sun: 500 TRX. */
const FEE_SUN_MAX = 500_000_000n;

/**
 * The payer's transactions, in the order of the messages: an allowance of exactly the cap where there is none yet, the deposit.
 * Only reference block, times, fee limit, windows and the reserver's signature are read from what the gateway prepared; the former
 * are bounded, and the signature is verified.
 *
 * @throws {VerificationError} where the gateway asks for a signature over something else.
 */
export function rebuild(spend: Spend, prepared: PreparedPayment, nowMs = Date.now()): TronTransaction[] {
  const messages = prepared.signed_messages;
  const last = messages.at(-1);
  if (prepared.message_scheme !== TRON || !last || messages.length > 2) {
    throw new VerificationError(
      'signed_messages',
      `the gateway asks for a number of signatures that makes no sense: ${messages.length} of ${prepared.message_scheme}`,
    );
  }
  checkVerifier('tron', spend.releaser, prepared.fulfillment_verifier);
  const payer = tronAddress(spend.terms.source.account);
  const token = tronAddress(splitAsset(spend.terms.source.asset_identifier).token, 'token');
  const escrow = tronAddress(spend.escrow, 'escrow');
  const deposit = depositCall(spend, drafted(last.message_prehash, 'depositOwn').data, token);
  // Later the contract refuses the deposit, and burnt energy would be all that comes of it.
  const latest = Math.min(deposit.reserveDeadline * 1000, nowMs + EXPIRATION_MS_MAX);
  const own = (
    message: { message: string; message_prehash: string },
    name: string,
    contract: Uint8Array,
    data: Uint8Array,
  ): TronTransaction => {
    const asked = drafted(message.message_prehash, name);
    const feeMax = spend.feeMax ?? FEE_SUN_MAX;
    if (asked.feeLimit > feeMax)
      throw new VerificationError(
        'fee_limit',
        `${name} may burn too much: ${asked.feeLimit} sun, and ${feeMax} is allowed`,
        `at most ${feeMax}`,
        String(asked.feeLimit),
      );
    if (asked.expiration > BigInt(latest)) {
      throw new VerificationError(
        'expiration',
        `${name} could be sent when nobody takes it any more`,
        `at most ${latest}`,
        String(asked.expiration),
      );
    }
    const draft: Draft = { ...asked, owner: payer, contract, data, callValue: 0n };
    if (!isDraft(unhex(message.message_prehash)!, draft)) {
      throw new VerificationError(
        'message_prehash',
        `the gateway asks for something else than ${name}`,
        undefined,
        message.message_prehash,
      );
    }
    const transaction = transactionOf(draft);
    if (message.message.replace(/^0x/, '').toLowerCase() !== transaction.txID) {
      throw new VerificationError('message', 'the message is not the id of the transaction', transaction.txID, message.message);
    }
    return transaction;
  };
  const [first] = messages;
  const transactions: TronTransaction[] = [];
  if (first && first !== last)
    transactions.push(own(first, 'approve', token, callData(APPROVE, hexWord(hex(escrow)), word(spend.cap))));
  transactions.push(own(last, 'depositOwn', escrow, deposit.data));
  if (!deposit.isSigned()) {
    throw new VerificationError('reserverSignature', 'the contract would not take the deposit: the reserver did not sign it');
  }
  return transactions;
}

function drafted(text: string, name: string): Draft {
  const bytes = unhex(text);
  const draft = bytes && read(bytes);
  if (!draft)
    throw new VerificationError('message_prehash', `the gateway asks for something else than ${name}: no transaction of Tron`);
  return draft;
}

interface DepositCall {
  data: Uint8Array;
  /** UNIX seconds. */
  reserveDeadline: number;
  /** Whether the reserver signed it: without that the contract takes nothing. */
  isSigned(): boolean;
}

function depositCall(spend: Spend, given: Uint8Array, token: Uint8Array): DepositCall {
  const selector = callData(DEPOSIT_OWN);
  const body = given.slice(selector.length);
  if (!isEqual(given.slice(0, selector.length), selector) || body.length !== (HEAD_WORDS + 3) * WORD) {
    throw new VerificationError('message_prehash', 'the gateway asks for something else than depositOwn');
  }
  const time = (index: number): number => Number(wordAt(body, index));
  const [reserveDeadline, refundAfter] = [time(6), time(8)];
  checkWindows(spend, { reserveDeadline, refundAfter });
  const quoteHash = quoteHashOf(spend, hex(body.slice(2 * WORD, 3 * WORD)));
  const signature = body.slice(HEAD_WORDS * WORD, HEAD_WORDS * WORD + SIGNATURE_BYTES);
  const deposit = [
    hexWord(onChainId(spend.paymentId)),
    hexWord(termsHash(spend.terms)),
    hexWord(quoteHash),
    addressWord(spend.terms.source.account, 'payer'),
    addressWord(spend.reserver, 'reserver'),
    addressWord(spend.releaser, 'releaser'),
    word(reserveDeadline),
    word(spend.fulfillmentDeadline),
    word(refundAfter),
  ];
  const [tokenWord, amount] = [hexWord(hex(token)), word(spend.cap)];
  const tail = new Uint8Array(3 * WORD);
  tail.set(signature);
  const data = concatBytes(selector, ...deposit, tokenWord, amount, word((HEAD_WORDS - 1) * WORD), word(SIGNATURE_BYTES), tail);
  return {
    data,
    reserveDeadline,
    isSigned() {
      const chain = BigInt(spend.chainId.split(':')[1] ?? '');
      const domain = hashStruct(DOMAIN_TYPE, keccak('GatewayEscrow'), keccak('1'), word(chain), addressWord(spend.escrow, 'escrow'));
      const opening = hashStruct(OPENING_TYPE, hashStruct(DEPOSIT_TYPE, ...deposit), tokenWord, amount);
      const signer = recover(digest(domain, opening), signature);
      return signer !== undefined && isEqual(signer, tronAddress(spend.reserver));
    },
  };
}

/** Whose signature it is: the twenty bytes of the address; `undefined` where it is nobody's. */
export function recover(hash: Uint8Array, signature: Uint8Array): Uint8Array | undefined {
  const v = signature[SIGNATURE_BYTES - 1];
  if (signature.length !== SIGNATURE_BYTES || (v !== 27 && v !== 28)) return undefined;
  try {
    const key = recoverPublicKey(Uint8Array.of(v - 27, ...signature.slice(0, 64)), hash, { prehash: false });
    return keccak(Point.fromBytes(key).toBytes(false).slice(1)).slice(12);
  } catch {
    return undefined;
  }
}
