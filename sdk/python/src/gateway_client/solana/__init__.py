"""Paying on Solana: `pip install 'gateway-client[solana]'`."""

from ..addresses import Addressed, CheckedAddress, address_terms, check_address
from .addresses import AddressTerms, give_back_call, give_back_lamports_call
from .message import Deposit, check, rebuild
from .wallet import SolanaWallet

__all__ = [
    "AddressTerms",
    "Addressed",
    "CheckedAddress",
    "Deposit",
    "SolanaWallet",
    "address_terms",
    "check",
    "check_address",
    "give_back_call",
    "give_back_lamports_call",
    "rebuild",
]
