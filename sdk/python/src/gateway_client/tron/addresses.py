"""Deposit addresses on Tron, whose accounts are the EVM's twenty bytes, written in Base58Check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..create2 import Create2Family, Create2Terms
from .address import address_bytes, address_text, token_of

#: Hash of the code that makes what every address runs, `bytecode` of contracts/artifacts/DepositAddress.json. The factory makes
#: it by CREATE2, so whoever knows where the factory is knows its addresses.
IMPLEMENTATION_CREATION_HASH = bytes.fromhex("919b03039e89ffbd64629d45685300dc7d0333c7d1b16720b2fd5347d79c83e5")
_IMPLEMENTATION_SALT = bytes(32)


def _implementation(factory: bytes) -> bytes:
    return TRON.placed(factory, _IMPLEMENTATION_SALT, IMPLEMENTATION_CREATION_HASH)


def _uri(_chain: int | str, _token: str, address: str, _amount: int) -> str:
    return f"tron:{address}"


#: Nothing deploys a contract at the same place on every network of Tron: the payer pins the factory, or believes the gateway.
TRON = Create2Family(
    factory=None,
    read=address_bytes,
    ignores_case=False,
    token_of=token_of,
    uri=_uri,
    prefix=b"\x41",
    implementation=_implementation,
    written=address_text,
)


@dataclass(frozen=True)
class AddressTerms(Create2Terms):
    """All that an address on Tron commits to."""

    family: ClassVar[Create2Family] = TRON
