"""Paying on EVM chains: `pip install 'gateway-client[evm]'`."""

from .permit import Permit, check, rebuild
from .wallet import EvmWallet

__all__ = ["EvmWallet", "Permit", "check", "rebuild"]
