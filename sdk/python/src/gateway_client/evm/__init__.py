"""Paying on EVM chains: `pip install 'gateway-client[evm]'`."""

from .messages import check, check_messages
from .permit import Permit, rebuild
from .tokens import Allowance, Authorization
from .typed import Message
from .wallet import EvmWallet

__all__ = ["Allowance", "Authorization", "EvmWallet", "Message", "Permit", "check", "check_messages", "rebuild"]
