"""What a payer on Tron signs who has given Permit2 an allowance: Permit2's transfer into the escrow, which is no transaction."""

from __future__ import annotations

from ..permit2 import Permit, PermitFamily
from ..schemas import PreparedPayment
from ..schemes import BY_PERMIT2_ON_TRON
from ..trust import Terms
from ..wallet import insist_prepared, only_message
from .address import address_bytes, token_of

_TRON = PermitFamily(address_bytes, token_of)


def rebuild(terms: Terms, deadline: int, reserve_deadline: int, refund_after: int) -> Permit:
    """The message of these terms and windows."""
    return _TRON.rebuild(terms, deadline, reserve_deadline, refund_after)


def check(terms: Terms, prepared: PreparedPayment) -> Permit:
    """The message that the gateway asks to be signed, where it is the payer's own. See `PermitFamily.compared`.

    Raises `NotSigned`.
    """
    insist_prepared(terms, prepared, BY_PERMIT2_ON_TRON)
    return _TRON.compared(terms, only_message(prepared))
