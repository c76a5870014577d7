// What a payer signs where the token itself takes no signature for a transfer: Permit2's witness transfer into the escrow, rebuilt
// from the payer's own request. On Tron it is the same but for how addresses are written.

import { digest, HEX_ADDRESSES, hashStruct, hexWord, keccak, word } from './abi.js';
import type { AddressForm } from './abi.js';
import { concatBytes, hex } from './bytes.js';
import { splitAsset } from './caip.js';
import { DEPOSIT_TYPE, depositHash, depositOf } from './deposit.js';
import { VerificationError } from './errors.js';
import { difference, members, object, read, seconds } from './typed.js';
import type { TransferData } from './typed.js';
import type { Spend } from './types.js';
import { checkWindows } from './windows.js';

/** A token and how much of it Permit2 may draw. */
export const TOKEN_TYPE = 'TokenPermissions(address token,uint256 amount)';
const TRANSFER_TYPE =
  `PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,GatewayDeposit witness)` +
  DEPOSIT_TYPE +
  TOKEN_TYPE;
/** The domain of Permit2. */
export const DOMAIN_TYPE = 'EIP712Domain(string name,uint256 chainId,address verifyingContract)';

const TYPES = {
  EIP712Domain: members(DOMAIN_TYPE),
  TokenPermissions: members(TOKEN_TYPE),
  GatewayDeposit: members(DEPOSIT_TYPE),
  PermitWitnessTransferFrom: members(TRANSFER_TYPE),
};

/** What is signed, and its digest. */
export interface Permit {
  typedData: TransferData;
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
 * @param spend With its `permit2`.
 * @param form How the source's chain writes addresses.
 * @throws {VerificationError} where the gateway asks for a signature over something else.
 */
export function rebuildTransfer(
  spend: Spend,
  message: { message: string; message_prehash: string },
  form: AddressForm = HEX_ADDRESSES,
): Permit {
  const shown = read(message.message_prehash);
  const windows = readWindows(shown.message);
  checkWindows(spend, windows);
  checkDeadline(windows);
  const permit = build(spend, windows, form);
  if (message.message !== permit.digest) {
    const { domain, message: own } = permit.typedData;
    const { field, expected, found } =
      difference(domain, shown.domain, 'domain', form) ?? difference(own, shown.message, '', form) ?? {};
    const where = field === undefined ? '' : `: ${field} is ${found}, and not ${expected}`;
    const rule = `the gateway asks for a signature over something else${where}`;
    throw new VerificationError('message', rule, permit.digest, message.message);
  }
  return permit;
}

function build(spend: Spend, windows: Windows, form: AddressForm): Permit {
  const { reference, token } = splitAsset(spend.terms.source.asset_identifier);
  const witness = depositOf(spend, windows);
  const nonce = hex(keccak(concatBytes(hexWord(witness.paymentId), hexWord(witness.termsHash))));
  const permit2 = spend.permit2!;
  const typedData: TransferData = {
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
  const domain = hashStruct(DOMAIN_TYPE, keccak('Permit2'), word(BigInt(reference)), form.word(permit2));
  const struct = hashStruct(
    TRANSFER_TYPE,
    hashStruct(TOKEN_TYPE, form.word(token), word(spend.cap)),
    form.word(spend.escrow),
    hexWord(nonce),
    word(windows.deadline),
    depositHash(witness, form),
  );
  return { typedData, digest: hex(digest(domain, struct)) };
}

/** @throws {VerificationError} where Permit2 would not take the signature any more while the escrow still takes the deposit. */
function checkDeadline({ deadline, reserveDeadline }: Windows): void {
  if (deadline >= reserveDeadline) return;
  const rule = `the signature would end before the deposit has to be made: ${deadline}`;
  throw new VerificationError('deadline', rule, `at least ${reserveDeadline}`, String(deadline));
}

function readWindows(message: Record<string, unknown>): Windows {
  const witness = object(message['witness']);
  return {
    deadline: seconds('deadline', message['deadline']),
    reserveDeadline: seconds('witness.reserveDeadline', witness['reserveDeadline']),
    refundAfter: seconds('witness.refundAfter', witness['refundAfter']),
    quoteHash: String(witness['quoteHash']),
  };
}
