"""What a payer on an EVM chain signs for the token itself, rebuilt and compared: a transfer into the escrow (ERC-3009), or an
allowance for Permit2 (ERC-2612). Neither needs a transaction of the payer's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eth_account.messages import encode_typed_data

from ..amounts import AMOUNT_MAX
from ..errors import NotSigned
from ..escrow_abi import deposit_of, typed_fields
from ..schemas import UnsignedMessage
from ..trust import Terms, whole_number
from ..typed import Message, Shown, deposit_hash, insist_digest, insist_same, shown_deposit
from .address import token_of

_DOMAIN = typed_fields("string name,string version,uint256 chainId,address verifyingContract")
_AUTHORIZATION = typed_fields(
    "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce",
)
_PERMIT = typed_fields("address owner,address spender,uint256 value,uint256 nonce,uint256 deadline")
#: An allowance that does not end: Permit2 draws nothing by it without a signature of the payer's for each transfer.
ENDLESS = AMOUNT_MAX


@dataclass(frozen=True)
class Authorization(Message):
    """A transfer into the escrow. Its nonce is the hash of `deposit`."""

    #: What the payer agrees to by it.
    deposit: Mapping[str, Any]
    #: Whether the amount is not the order's cap but named with the signature.
    names_amount: bool

    @property
    def payload(self) -> Mapping[str, Any]:
        message = self.typed_data["message"]
        amount = {"permitted_amount": str(message["value"])} if self.names_amount else {}
        return {
            "reserve_deadline": self.deposit["reserveDeadline"],
            "refund_after": self.deposit["refundAfter"],
            "valid_before": message["validBefore"],
            **amount,
            "deposit": shown_deposit(self.deposit),
        }


class Allowance(Message):
    """An endless allowance for Permit2."""

    @property
    def payload(self) -> Mapping[str, Any]:
        message = self.typed_data["message"]
        return {
            "function": "permit",
            "contract": self.typed_data["domain"]["verifyingContract"],
            "spender": message["spender"],
            "amount": str(message["value"]),
            "nonce": str(message["nonce"]),
            "deadline": str(message["deadline"]),
        }


def authorization(terms: Terms, message: UnsignedMessage) -> Authorization:
    """The transfer into the escrow that the gateway asks to be signed, where it is the payer's own. Taken of what it says are the
    token's name and version, the windows, within limits, and, where a quote is taken, how much from its price to the cap is
    deposited. Each member of the deposit is compared.

    Raises `NotSigned`.
    """
    shown = Shown.read(message["message_prehash"], "a token's")
    theirs = message["payload"].get("deposit")
    if not isinstance(theirs, dict):
        raise NotSigned("deposit is not shown, and its hash alone is not signed")
    reserve_deadline = whole_number(theirs.get("reserveDeadline"), "deposit.reserveDeadline")
    refund_after = whole_number(theirs.get("refundAfter"), "deposit.refundAfter")
    terms.check_windows(reserve_deadline, refund_after)
    deposit = deposit_of(terms, reserve_deadline, refund_after)
    for name, value in deposit.items():
        insist_same(f"deposit.{name}", value, theirs.get(name))
    valid_before = shown.number("validBefore")
    if not reserve_deadline < valid_before <= terms.fulfillment_deadline + 1:
        raise NotSigned(f"validBefore is {valid_before}, and the signature would hold for too long or not long enough")
    value = shown.number("value")
    least = terms.amount if terms.price is None else terms.price
    if not least <= value <= terms.amount:
        raise NotSigned(f"value is {value}, and from {least} to {terms.amount} may be deposited")
    typed_data = {
        "domain": _domain(terms, shown),
        "types": {"EIP712Domain": _DOMAIN, "ReceiveWithAuthorization": _AUTHORIZATION},
        "primaryType": "ReceiveWithAuthorization",
        "message": {
            "from": terms.order.account,
            "to": terms.escrow,
            "value": value,
            "validAfter": 0,
            "validBefore": valid_before,
            "nonce": deposit_hash(deposit),
        },
    }
    shown.insist_is(typed_data)
    names_amount = terms.price is not None or terms.order.max_source_amount is None
    rebuilt = Authorization(typed_data, encode_typed_data(full_message=typed_data), deposit, names_amount)
    insist_digest(rebuilt, message["message"])
    return rebuilt


def allowance(terms: Terms, message: UnsignedMessage) -> Allowance:
    """The endless allowance that the gateway asks to be signed, where it is for Permit2 and of the payer's token. Taken of what
    the gateway says are the token's name, version and nonce, and the deadline, within limits.

    Raises `NotSigned`.
    """
    shown = Shown.read(message["message_prehash"], "a token's")
    deadline = shown.number("deadline")
    if deadline > terms.fulfillment_deadline:
        raise NotSigned(f"deadline is {deadline}, and the allowance could be given too late")
    typed_data = {
        "domain": _domain(terms, shown),
        "types": {"EIP712Domain": _DOMAIN, "Permit": _PERMIT},
        "primaryType": "Permit",
        "message": {
            "owner": terms.order.account,
            "spender": terms.known_permit2(),
            "value": ENDLESS,
            "nonce": shown.number("nonce"),
            "deadline": deadline,
        },
    }
    shown.insist_is(typed_data)
    rebuilt = Allowance(typed_data, encode_typed_data(full_message=typed_data))
    insist_digest(rebuilt, message["message"])
    return rebuilt


def _domain(terms: Terms, shown: Shown) -> dict[str, Any]:
    chain_id, token = token_of(terms.order.source["asset_identifier"])
    return {"name": shown.text("name"), "version": shown.text("version"), "chainId": chain_id, "verifyingContract": token}
