"""Deposit addresses on EVM chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..create2 import Create2Family, Create2Terms
from ..keccak import keccak256
from .address import address_bytes, token_of

#: The contract that makes deposit addresses and alone moves what is there. It is at one address on every chain, which follows
#: from its code alone; another one may do anything with what comes to its addresses, so none is taken from the gateway.
DEPOSIT_ADDRESSES = "0x576dcf99e0a83e4fbbdf246e5a306a8677105d57"
#: What each of its addresses runs.
ADDRESS_IMPLEMENTATION = "0xbebda21c3d5a3f2efe05c1a55bf007232ddf6369"


def _written(account: bytes) -> str:
    return "0x" + account.hex()


def _implementation(factory: bytes) -> bytes:
    """The factory's first creation: RLP of its address and the number 1."""
    return keccak256(b"\xd6\x94" + factory + b"\x01")[12:]


def _uri(chain: int | str, token: str, address: str, amount: int) -> str:
    return f"ethereum:{token}@{chain}/transfer?address={address}&uint256={amount}"


EVM = Create2Family(
    factory=lambda _escrow: DEPOSIT_ADDRESSES,
    read=address_bytes,
    ignores_case=True,
    token_of=token_of,
    uri=_uri,
    prefix=b"\xff",
    implementation=_implementation,
    written=_written,
)


@dataclass(frozen=True)
class AddressTerms(Create2Terms):
    """All that an address on an EVM chain commits to."""

    family: ClassVar[Create2Family] = EVM

    factory: str = DEPOSIT_ADDRESSES
