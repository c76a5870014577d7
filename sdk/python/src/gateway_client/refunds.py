"""Refunds without the gateway: only a node of the source's chain is needed, and any account that can pay for a transaction.

The escrow gives what it holds of a payment back to its payer from the payment's `refundAfter` on, whoever calls. What a token
refused to hand over waits there as a claim, on EVM chains and Tron.
"""

from __future__ import annotations

from typing import Protocol

import httpx

from .flow import Flow
from .transport import arun, run
from .trust import Limits
from .wallet import Refund, Wallet

USUAL_LIMITS = Limits()


class Claiming(Protocol):
    """A wallet on a chain whose escrow has claims: `EvmWallet` and `TronWallet`."""

    def claim(self, escrow: str, token: str, owner: str, limits: Limits) -> Flow[Refund]:
        """Brings what waits to its owner."""


def refund(wallet: Wallet, payment_id: str, *, escrow: str, limits: Limits = USUAL_LIMITS) -> Refund:
    """Sends the overdue refund of a payment, and waits until it has had its effect. The money goes to the payment's payer, who
    may be another than the wallet, which pays for the transaction alone.

    `escrow` is the escrow contract, on Solana the program, of the source's chain, as you know it.

    Raises `NotDue` where there is nothing to be refunded, or not yet: its `refund_after` says when.
    """
    with httpx.Client() as client:
        return run(wallet.refund(escrow, payment_id, limits), client)


def claim(wallet: Claiming, *, escrow: str, token: str, owner: str, limits: Limits = USUAL_LIMITS) -> Refund:
    """Brings money that waits in the escrow as a claim of `owner` to it; `claims` of a payment's status shows such money.

    Raises `NotDue` where nothing waits.
    """
    with httpx.Client() as client:
        return run(wallet.claim(escrow, token, owner, limits), client)


async def async_refund(wallet: Wallet, payment_id: str, *, escrow: str, limits: Limits = USUAL_LIMITS) -> Refund:
    """As `refund`, on an event loop."""
    async with httpx.AsyncClient() as client:
        return await arun(wallet.refund(escrow, payment_id, limits), client)


async def async_claim(wallet: Claiming, *, escrow: str, token: str, owner: str, limits: Limits = USUAL_LIMITS) -> Refund:
    """As `claim`, on an event loop."""
    async with httpx.AsyncClient() as client:
        return await arun(wallet.claim(escrow, token, owner, limits), client)
