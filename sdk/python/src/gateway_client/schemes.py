"""Message schemes, and the allowances that they need or spare a payer."""

from __future__ import annotations

from collections.abc import Sequence

from .schemas import ChainDefaults, PreparedPayment

#: The scheme of EVM chains by which a token itself takes a signature for a transfer (ERC-3009).
BY_TOKEN = "EVM_EIP3009"
#: The scheme of EVM chains by which Permit2 draws for a batch of payments.
BY_BATCH = "EVM_PERMIT2_BATCH"
#: The scheme of EVM chains by which a merchant asks for payments that a payer has signed for once.
BY_MANDATE = "EVM_PERMIT2_MANDATE"
#: The scheme of Tron by which Permit2 draws what the payer has allowed it.
BY_PERMIT2_ON_TRON = "TRON_PERMIT2_ESCROW"
#: The scheme of Tron by which the payer signs transactions of its own, and needs no Permit2.
BY_TRANSACTIONS = "TRON"


def takes_token_signatures(defaults: ChainDefaults) -> bool:
    """Whether the gateway takes signatures for tokens, in which case it says before anything is sent what is to be signed."""
    schemes: Sequence[str] = defaults.get("message_schemes") or ()
    return BY_TOKEN in schemes


def is_allowed_by_signature(prepared: PreparedPayment) -> bool:
    """Whether what is to be signed needs no allowance, or has it among its messages, which a wallet compares before it signs."""
    scheme: str = prepared["message_scheme"]
    return scheme == BY_TOKEN or len(prepared["signed_messages"]) > 1


def may_lack_allowance(family: str, scheme: str | None) -> bool:
    """Whether an allowance may have to be given by a transaction before this scheme is signed for, or the one that a gateway
    chooses. On Tron it chooses one that needs no more: Permit2's where its allowance stands, else transactions that hold it."""
    return family != "tron" or scheme == BY_PERMIT2_ON_TRON
