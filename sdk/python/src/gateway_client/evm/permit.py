"""What a payer on an EVM chain signs: Permit2's `PermitWitnessTransferFrom` with the escrow's terms as witness, rebuilt and
compared. docs/clients.md has the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eth_account.messages import SignableMessage, encode_typed_data

from ..errors import NotSigned
from ..escrow_abi import GATEWAY_DEPOSIT, typed_fields
from ..keccak import keccak256, on_chain
from ..schemas import PreparedPayment
from ..trust import Terms, json_object, whole_number
from ..wallet import insist_prepared, only_message

SCHEME = "EVM_PERMIT2_ESCROW"
_TYPES = {
    "EIP712Domain": typed_fields("string name,uint256 chainId,address verifyingContract"),
    "PermitWitnessTransferFrom": typed_fields(
        "TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,GatewayDeposit witness"
    ),
    "TokenPermissions": typed_fields("address token,uint256 amount"),
    "GatewayDeposit": GATEWAY_DEPOSIT,
}


@dataclass(frozen=True)
class Permit:
    """What has to be signed, as it was rebuilt."""

    #: For `eth_signTypedData_v4` of any wallet.
    typed_data: Mapping[str, Any]
    signable: SignableMessage

    @property
    def digest(self) -> bytes:
        """What the signature is over."""
        return keccak256(b"\x19" + self.signable.version + self.signable.header + self.signable.body)


def token_of(asset_identifier: str) -> tuple[int, str]:
    """Chain id and token of an ERC-20."""
    chain, found, token = asset_identifier.partition("/erc20:")
    if not found or not chain.startswith("eip155:"):
        raise ValueError(f"{asset_identifier} is not an ERC-20, eip155:…/erc20:0x…")
    return int(chain.removeprefix("eip155:")), token


def rebuild(terms: Terms, deadline: int, reserve_deadline: int, refund_after: int) -> Permit:
    """The message of these terms and windows."""
    order = terms.order
    chain_id, token = token_of(order.source["asset_identifier"])
    payment, terms_hash = on_chain(order.payment_id), order.terms_hash()
    typed_data = {
        "domain": {"name": "Permit2", "chainId": chain_id, "verifyingContract": terms.permit2},
        "types": _TYPES,
        "primaryType": "PermitWitnessTransferFrom",
        "message": {
            "permitted": {"token": token, "amount": terms.amount},
            "spender": terms.escrow,
            "nonce": int.from_bytes(keccak256(payment + terms_hash), "big"),
            "deadline": deadline,
            "witness": {
                "paymentId": payment,
                "termsHash": terms_hash,
                "quoteHash": terms.quote_hash,
                "payer": order.account,
                "reserver": terms.reserver,
                "releaser": terms.releaser,
                "reserveDeadline": reserve_deadline,
                "fulfillmentDeadline": terms.fulfillment_deadline,
                "refundAfter": refund_after,
            },
        },
    }
    return Permit(typed_data, encode_typed_data(full_message=typed_data))


def check(terms: Terms, prepared: PreparedPayment) -> Permit:
    """The message that the gateway asks to be signed, where it is the payer's own. Of what the gateway says only the windows are
    taken, within limits.

    Raises `NotSigned`.
    """
    insist_prepared(terms, prepared, SCHEME)
    message = only_message(prepared)
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
    if message["message"] != "0x" + rebuilt.digest.hex():
        raise NotSigned("the gateway asks for a signature over something else")
    return rebuilt
