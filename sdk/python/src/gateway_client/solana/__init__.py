"""Paying on Solana: `pip install 'gateway-client[solana]'`."""

from .message import Deposit, check, rebuild
from .wallet import SolanaWallet

__all__ = ["Deposit", "SolanaWallet", "check", "rebuild"]
