"""What a payer on an EVM chain or Tron signs for Permit2: `PermitWitnessTransferFrom` with the escrow's terms as witness, rebuilt
and compared. docs/clients.md has the recipe.

What differs between EVM chains and Tron is a `PermitFamily`. An address is written in Base58Check on Tron, and hashed as its
twenty bytes (TIP-712), as on EVM chains (EIP-712): the digest of the same values is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eth_account.messages import encode_typed_data

from .errors import NotSigned
from .escrow_abi import GATEWAY_DEPOSIT, deposit_of, typed_fields
from .keccak import keccak256
from .schemas import UnsignedMessage
from .trust import Terms, whole_number
from .typed import Message, Shown, insist_digest, insist_same

_TYPES = {
    "EIP712Domain": typed_fields("string name,uint256 chainId,address verifyingContract"),
    "PermitWitnessTransferFrom": typed_fields(
        "TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,GatewayDeposit witness"
    ),
    "TokenPermissions": typed_fields("address token,uint256 amount"),
    "GatewayDeposit": GATEWAY_DEPOSIT,
}
_DOMAIN, _PRIMARY = "EIP712Domain", "PermitWitnessTransferFrom"


class Permit(Message):
    """Permit2's transfer into the escrow."""


@dataclass(frozen=True)
class PermitFamily:
    """What of Permit2's message is a family's own."""

    #: An account's twenty bytes. Raises `ValueError`.
    read: Callable[[str], bytes]
    #: Chain id and token of an asset. Raises `ValueError` where it is not a token.
    token_of: Callable[[str], tuple[int, str]]

    def rebuild(self, terms: Terms, deadline: int, reserve_deadline: int, refund_after: int) -> Permit:
        """The message of these terms and windows.

        Raises `NotSigned` where the payer does not know the gateway's Permit2, or an account is not one of the chain.
        """
        chain_id, token = self.token_of(terms.order.source["asset_identifier"])
        deposit = deposit_of(terms, reserve_deadline, refund_after)
        typed_data: dict[str, Any] = {
            "domain": {"name": "Permit2", "chainId": chain_id, "verifyingContract": terms.known_permit2()},
            "types": _TYPES,
            "primaryType": _PRIMARY,
            "message": {
                "permitted": {"token": token, "amount": terms.amount},
                "spender": terms.escrow,
                "nonce": int.from_bytes(keccak256(deposit["paymentId"] + deposit["termsHash"]), "big"),
                "deadline": deadline,
                "witness": deposit,
            },
        }
        try:
            domain, message = self._hashed(_DOMAIN, typed_data["domain"]), self._hashed(_PRIMARY, typed_data["message"])
        except ValueError as fault:
            raise NotSigned(str(fault)) from None
        return Permit(typed_data, encode_typed_data(full_message={**typed_data, "domain": domain, "message": message}))

    def compared(self, terms: Terms, message: UnsignedMessage) -> Permit:
        """The message that the gateway asks to be signed, where it is the payer's own: every member of it is compared. Of what
        the gateway says only the windows are taken, within limits.

        Raises `NotSigned`.
        """
        shown = Shown.read(message["message_prehash"], "Permit2's")
        witness = shown.message.get("witness")
        if not isinstance(witness, dict):
            raise NotSigned("message_prehash is not Permit2's")
        deadline = whole_number(shown.message.get("deadline"), "deadline")
        reserve_deadline = whole_number(witness.get("reserveDeadline"), "reserveDeadline")
        refund_after = whole_number(witness.get("refundAfter"), "refundAfter")
        terms.check_windows(reserve_deadline, refund_after)
        if deadline > terms.fulfillment_deadline:
            raise NotSigned("the signature would hold for too long")
        if deadline < reserve_deadline:
            raise NotSigned("the signature would not hold for as long as the deposit may be made")
        rebuilt = self.rebuild(terms, deadline, reserve_deadline, refund_after)
        insist_same("primaryType", _PRIMARY, shown.primary_type)
        if shown.types != _TYPES:
            raise NotSigned("types are not those of Permit2's transfer into an escrow")
        self._insist("domain", _DOMAIN, rebuilt.typed_data["domain"], shown.domain)
        self._insist("message", _PRIMARY, rebuilt.typed_data["message"], shown.message)
        insist_digest(rebuilt, message["message"])
        return rebuilt

    def _hashed(self, kind: str, value: Any) -> Any:
        """A value as EIP-712 hashes it: addresses are in hex."""
        if kind in _TYPES:
            return {member["name"]: self._hashed(member["type"], value[member["name"]]) for member in _TYPES[kind]}
        return "0x" + self.read(value).hex() if kind == "address" else value

    def _insist(self, path: str, kind: str, own: Any, shown: object) -> None:
        """Raises `NotSigned` with the first member in which the gateway's is another than what was rebuilt."""
        if kind not in _TYPES:
            if kind != "address" or self._shown(shown) != self.read(own):
                insist_same(path, own, shown)
            return
        if not isinstance(shown, dict) or shown.keys() != own.keys():
            raise NotSigned(f"{path} has other members than Permit2's transfer into an escrow has")
        for member in _TYPES[kind]:
            name = member["name"]
            self._insist(f"{path}.{name}", member["type"], own[name], shown[name])

    def _shown(self, account: object) -> bytes | None:
        """The twenty bytes of an account that a gateway writes, in the family's form or in hex."""
        text = account if isinstance(account, str) else ""
        if re.fullmatch("0x[0-9a-fA-F]{40}", text):
            return bytes.fromhex(text[2:])
        try:
            return self.read(text)
        except ValueError:
            return None
