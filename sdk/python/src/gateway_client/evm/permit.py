"""What a payer on an EVM chain signs where the token itself takes no signature for a transfer: Permit2's
`PermitWitnessTransferFrom` with the escrow's terms as witness, rebuilt and compared. docs/clients.md has the recipe."""

from __future__ import annotations

from typing import Any

from eth_account.messages import encode_typed_data

from ..errors import NotSigned
from ..escrow_abi import GATEWAY_DEPOSIT, deposit_of, typed_fields
from ..keccak import keccak256
from ..schemas import UnsignedMessage
from ..trust import Terms, json_object, whole_number
from .typed import Message, insist_digest, token_of

_TYPES = {
    "EIP712Domain": typed_fields("string name,uint256 chainId,address verifyingContract"),
    "PermitWitnessTransferFrom": typed_fields(
        "TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,GatewayDeposit witness"
    ),
    "TokenPermissions": typed_fields("address token,uint256 amount"),
    "GatewayDeposit": GATEWAY_DEPOSIT,
}


class Permit(Message):
    """Permit2's transfer into the escrow."""


def rebuild(terms: Terms, deadline: int, reserve_deadline: int, refund_after: int) -> Permit:
    """The message of these terms and windows."""
    chain_id, token = token_of(terms.order.source["asset_identifier"])
    deposit = deposit_of(terms, reserve_deadline, refund_after)
    typed_data: dict[str, Any] = {
        "domain": {"name": "Permit2", "chainId": chain_id, "verifyingContract": terms.permit2},
        "types": _TYPES,
        "primaryType": "PermitWitnessTransferFrom",
        "message": {
            "permitted": {"token": token, "amount": terms.amount},
            "spender": terms.escrow,
            "nonce": int.from_bytes(keccak256(deposit["paymentId"] + deposit["termsHash"]), "big"),
            "deadline": deadline,
            "witness": deposit,
        },
    }
    return Permit(typed_data, encode_typed_data(full_message=typed_data))


def compared(terms: Terms, message: UnsignedMessage) -> Permit:
    """The message that the gateway asks to be signed, where it is the payer's own. Of what the gateway says only the windows are
    taken, within limits.

    Raises `NotSigned`.
    """
    given = json_object(message["message_prehash"], "message_prehash").get("message")
    witness = given.get("witness") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(witness, dict):
        raise NotSigned("message_prehash is not Permit2's")
    deadline = whole_number(given.get("deadline"), "deadline")
    reserve_deadline = whole_number(witness.get("reserveDeadline"), "reserveDeadline")
    refund_after = whole_number(witness.get("refundAfter"), "refundAfter")
    terms.check_windows(reserve_deadline, refund_after)
    if deadline > terms.fulfillment_deadline:
        raise NotSigned("the signature would hold for too long")
    rebuilt = rebuild(terms, deadline, reserve_deadline, refund_after)
    insist_digest(rebuilt, message["message"])
    return rebuilt
