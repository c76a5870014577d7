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
from .messages import check, check_messages
from .permit import rebuild
from .tokens import Allowance, Authorization
from .wallet import EvmWallet

__all__ = [
    "ADDRESS_IMPLEMENTATION",
    "BATCH_IMPLEMENTATION",
    "DEPOSIT_ADDRESSES",
    "PAYMENT_BATCHES",
    "AddressTerms",
    "Addressed",
    "Allowance",
    "Authorization",
    "Batch",
    "BatchPermit",
    "CheckedAddress",
    "EvmWallet",
    "Message",
    "Permit",
    "address_terms",
    "check",
    "check_address",
    "check_batch",
    "check_messages",
    "give_back_batch_call",
    "give_back_call",
    "payment_leaf",
    "payment_root",
    "rebuild",
]
