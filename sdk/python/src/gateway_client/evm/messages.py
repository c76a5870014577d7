"""All that a payer on an EVM chain signs for one payment, by the scheme that the gateway prepared it for."""

from __future__ import annotations

from ..errors import NotSigned
from ..permit2 import Permit
from ..schemas import PreparedPayment
from ..schemes import BY_TOKEN
from ..trust import Terms
from ..typed import Message
from ..wallet import insist_prepared, messages_of
from . import permit, tokens

SCHEME = "EVM_PERMIT2_ESCROW"


def check_messages(terms: Terms, prepared: PreparedPayment) -> list[Message]:
    """What the gateway asks to be signed, where it is the payer's own, in the order in which it is signed and submitted: the
    token's own transfer into the escrow, or Permit2's, in front of which the token's allowance for Permit2 may stand.

    Raises `NotSigned`.
    """
    scheme: str = prepared["message_scheme"]
    by_token = scheme == BY_TOKEN
    insist_prepared(terms, prepared, BY_TOKEN if by_token else SCHEME)
    *before, last = messages_of(prepared, 1 if by_token else 2)
    if by_token:
        return [tokens.authorization(terms, last)]
    return [*(tokens.allowance(terms, message) for message in before), permit.compared(terms, last)]


def check(terms: Terms, prepared: PreparedPayment) -> Permit:
    """Permit2's transfer into the escrow, where that is all that the gateway asks to be signed, and the payer's own.

    Raises `NotSigned`.
    """
    message, *others = check_messages(terms, prepared)
    if others or not isinstance(message, Permit):
        raise NotSigned("the gateway asks for other signatures than Permit2's: see check_messages")
    return message
