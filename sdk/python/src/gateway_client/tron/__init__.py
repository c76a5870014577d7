"""Paying on Tron: `pip install 'gateway-client[tron]'`."""

from ..addresses import Addressed, CheckedAddress, address_terms, check_address
from ..create2 import give_back_call
from ..permit2 import Permit
from .addresses import AddressTerms
from .message import Deposit, check
from .permit import rebuild
from .transaction import Call
from .wallet import TronWallet

__all__ = [
    "AddressTerms",
    "Addressed",
    "Call",
    "CheckedAddress",
    "Deposit",
    "Permit",
    "TronWallet",
    "address_terms",
    "check",
    "check_address",
    "give_back_call",
    "rebuild",
]
