"""Paying on Tron: `pip install 'gateway-client[tron]'`."""

from .message import Deposit, check
from .transaction import Call
from .wallet import TronWallet

__all__ = ["Call", "Deposit", "TronWallet", "check"]
