"""What a payer on Tron signs: Permit2's transfer where its allowance stands, else its own transactions, an approval where one is
needed and the escrow's `depositOwn`, rebuilt from the order and compared to the byte. docs/clients-tron.md has the rules."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data

from ..errors import LimitExceeded, NotSigned
from ..escrow_abi import APPROVE, DEPOSIT_OWN, WORD, deposit_of, number, opening, selector, word
from ..permit2 import Permit
from ..schemas import PreparedPayment, UnsignedMessage
from ..schemes import BY_PERMIT2_ON_TRON, BY_TRANSACTIONS
from ..trust import Terms
from ..wallet import insist_prepared, messages_of
from . import permit
from .address import address_bytes, token_of
from .transaction import Call

#: The network takes no transaction that expires later.
EXPIRATION_MS_MAX = 24 * 60 * 60 * 1000
_APPROVE = selector(APPROVE)
_DEPOSIT_OWN = selector(DEPOSIT_OWN)
#: `depositOwn`: nine words of the deposit, token, amount, where the signature begins, its length and its 65 bytes.
_DEPOSIT_WORDS = 16
_SIGNATURE_BYTES = 65


@dataclass(frozen=True)
class Deposit:
    """The transactions that have to be signed, as they were rebuilt, in the order in which they are sent."""

    transactions: list[Call]


def check(terms: Terms, prepared: PreparedPayment) -> Deposit | Permit:
    """What the gateway asks to be signed, where it is the payer's own: Permit2's transfer into the escrow, or transactions. Of
    what the gateway says only windows are taken, within limits; of transactions times, fee and the block that is named, too,
    and the reserver's signature, which is verified.

    Raises `NotSigned`.
    """
    scheme: str = prepared["message_scheme"]
    if scheme == BY_PERMIT2_ON_TRON:
        return permit.check(terms, prepared)
    insist_prepared(terms, prepared, BY_TRANSACTIONS)
    messages = messages_of(prepared, 2)
    own = _Own(terms)
    deposit, latest_ms = own.deposit(messages[-1])
    approvals = [own.rebuilt(messages[0], own.token, own.approval(), latest_ms, "approve")] if len(messages) == 2 else []
    return Deposit([*approvals, own.rebuilt(messages[-1], own.escrow, deposit, latest_ms, "depositOwn")])


class _Own:
    """What the order demands."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._chain_id, token = token_of(terms.order.source["asset_identifier"])
        self.token = _address(token)
        self.escrow = _address(terms.escrow)
        self._payer = _address(terms.order.account)

    def approval(self) -> bytes:
        """The call that lets the escrow take the cap and no more."""
        return _APPROVE + word(self.escrow) + word(self._terms.amount)

    def deposit(self, message: UnsignedMessage) -> tuple[bytes, int]:
        """The call of `depositOwn`, and when it may expire at the latest, UNIX milliseconds."""
        terms = self._terms
        data = Call.read(_bytes(message["message_prehash"])).data
        if data[:4] != _DEPOSIT_OWN or len(data) != 4 + _DEPOSIT_WORDS * WORD:
            raise NotSigned("the gateway asks for something else than depositOwn")
        given = [data[4 + at * WORD : 4 + (at + 1) * WORD] for at in range(_DEPOSIT_WORDS)]
        reserve_deadline, refund_after = number(given[6]), number(given[8])
        terms.check_windows(reserve_deadline, refund_after)
        signature = b"".join(given[13:])[:_SIGNATURE_BYTES]
        own = deposit_of(terms, reserve_deadline, refund_after)
        deposit: dict[str, Any] = {name: _address(value) if isinstance(value, str) else value for name, value in own.items()}
        call = b"".join([_DEPOSIT_OWN, *(word(value) for value in deposit.values()), word(self.token), word(terms.amount)])
        call += word(12 * WORD) + word(_SIGNATURE_BYTES) + signature.ljust(3 * WORD, b"\0")
        if call != data:
            raise NotSigned("the gateway asks for something else than depositOwn of this order")
        self._insist_opened(deposit, signature)
        # Later the contract refuses the deposit, and burnt energy would be all that comes of it.
        return call, min(reserve_deadline * 1000, int(time.time() * 1000) + EXPIRATION_MS_MAX)

    def _insist_opened(self, deposit: dict[str, Any], signature: bytes) -> None:
        """Whether the contract would take the reserver's signature."""
        shown = {
            name: "0x" + value.hex() if name in ("payer", "reserver", "releaser") else value for name, value in deposit.items()
        }
        escrow, token = "0x" + self.escrow.hex(), "0x" + self.token.hex()
        signable = encode_typed_data(full_message=opening(shown, token, self._terms.amount, self._chain_id, escrow))
        try:
            recovered = Account.recover_message(signable, signature=signature)
        except Exception:  # whatever the library says of a signature that is none
            recovered = ""
        if str(recovered).lower() != "0x" + _address(self._terms.reserver).hex():
            raise NotSigned("the contract would not take the deposit: the reserver did not sign it")

    def rebuilt(self, message: UnsignedMessage, contract: bytes, data: bytes, latest_ms: int, name: str) -> Call:
        """The transaction of a call, with the gateway's times, fee and block."""
        given = Call.read(_bytes(message["message_prehash"]))
        limit = self._terms.limits.fee_sun
        if given.fee_limit_sun > limit:
            rule = f"the transaction may burn {given.fee_limit_sun} sun, and {limit} are allowed"
            raise LimitExceeded(rule, "fee_sun", given.fee_limit_sun, limit)
        if given.expiration_ms > latest_ms:
            raise NotSigned("the transaction could be sent when nobody takes it any more")
        call = Call(
            owner=self._payer,
            contract=contract,
            data=data,
            value_sun=0,
            fee_limit_sun=given.fee_limit_sun,
            ref_block_bytes=given.ref_block_bytes,
            ref_block_hash=given.ref_block_hash,
            expiration_ms=given.expiration_ms,
            timestamp_ms=given.timestamp_ms,
        )
        if call.raw_data() != _bytes(message["message_prehash"]):
            raise NotSigned(f"the gateway asks for something else than {name}")
        if call.id != _bytes(message["message"]):
            raise NotSigned("the message is not the id of the transaction")
        return call


def _bytes(text: object) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x")) if isinstance(text, str) else b""
    except ValueError:
        raise NotSigned("the gateway says something that is not hex") from None


def _address(text: str) -> bytes:
    try:
        return address_bytes(text)
    except ValueError as fault:
        raise NotSigned(str(fault)) from None
