"""What a payer on an EVM chain signs where the token itself takes no signature for a transfer: Permit2's transfer into the
escrow."""

from __future__ import annotations

from ..permit2 import Permit, PermitFamily
from ..schemas import UnsignedMessage
from ..trust import Terms
from .address import address_bytes, token_of

_EVM = PermitFamily(address_bytes, token_of)


def rebuild(terms: Terms, deadline: int, reserve_deadline: int, refund_after: int) -> Permit:
    """The message of these terms and windows."""
    return _EVM.rebuild(terms, deadline, reserve_deadline, refund_after)


def compared(terms: Terms, message: UnsignedMessage) -> Permit:
    """The message that the gateway asks to be signed, where it is the payer's own. See `PermitFamily.compared`.

    Raises `NotSigned`.
    """
    return _EVM.compared(terms, message)
