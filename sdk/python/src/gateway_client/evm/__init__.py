"""Paying on EVM chains: `pip install 'gateway-client[evm]'`."""

from ..addresses import Addressed, CheckedAddress, address_terms, check_address
from ..create2 import give_back_call
from ..permit2 import Permit
from ..typed import Message
from .addresses import ADDRESS_IMPLEMENTATION, DEPOSIT_ADDRESSES, AddressTerms
from .batches import (
    BATCH_IMPLEMENTATION,
    PAYMENT_BATCHES,
    Batch,
    BatchPermit,
    check_batch,
    give_back_batch_call,
    payment_leaf,
    payment_root,
)
from .mandates import (
    MANDATE_IMPLEMENTATION,
    MANDATES,
    Charge,
    ChargeMessage,
    Mandate,
    MandateCancellation,
    MandatePermit,
    allow_mandate_call,
    cancel_mandate_call,
    check_charge,
    check_mandate,
    give_back_mandate_call,
    rebuild_charge,
)
from .messages import check, check_messages
from .permit import rebuild
from .tokens import Allowance, Authorization
from .wallet import EvmWallet

__all__ = [
    "ADDRESS_IMPLEMENTATION",
    "BATCH_IMPLEMENTATION",
    "DEPOSIT_ADDRESSES",
    "MANDATES",
    "MANDATE_IMPLEMENTATION",
    "PAYMENT_BATCHES",
    "AddressTerms",
    "Addressed",
    "Allowance",
    "Authorization",
    "Batch",
    "BatchPermit",
    "Charge",
    "ChargeMessage",
    "CheckedAddress",
    "EvmWallet",
    "Mandate",
    "MandateCancellation",
    "MandatePermit",
    "Message",
    "Permit",
    "address_terms",
    "allow_mandate_call",
    "cancel_mandate_call",
    "check",
    "check_address",
    "check_batch",
    "check_charge",
    "check_mandate",
    "check_messages",
    "give_back_batch_call",
    "give_back_call",
    "give_back_mandate_call",
    "payment_leaf",
    "payment_root",
    "rebuild",
    "rebuild_charge",
]
