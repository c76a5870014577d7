"""Deposit addresses that a contract makes with CREATE2 (EIP-1014), as on EVM chains and Tron."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from .addresses import AddressFamily, AddressTerms
from .escrow_abi import GIVE_BACK, selector, word
from .keccak import keccak256

#: The code that makes a minimal proxy (ERC-1167), before and behind the address of what it runs.
_PROXY = (bytes.fromhex("3d602d80600a3d3981f3363d3d373d3d3d363d73"), bytes.fromhex("5af43d82803e903d91602b57fd5bf3"))


@dataclass(frozen=True)
class Create2Family(AddressFamily):
    """A family whose accounts are twenty bytes."""

    #: The byte that CREATE2 hashes first.
    prefix: bytes
    #: What each of a factory's addresses runs.
    implementation: Callable[[bytes], bytes]
    #: Twenty bytes as accounts are written.
    written: Callable[[bytes], str]

    def placed(self, factory: bytes, salt: bytes, creation_hash: bytes) -> bytes:
        """Where CREATE2 puts what a contract makes by creation code of that hash."""
        return keccak256(self.prefix + factory + salt + creation_hash)[12:]


@dataclass(frozen=True)
class Create2Terms(AddressTerms):
    """The terms of an address whose salt is their hash."""

    family: ClassVar[Create2Family]

    @property
    def encoded(self) -> bytes:
        """The twelve words of Solidity's ABI."""
        read = self.family.read
        deposit = (read(value) if isinstance(value, str) else value for value in self.deposit.values())
        return b"".join(word(value) for value in (read(self.escrow), read(self.token), self.amount, *deposit))

    @property
    def address(self) -> str:
        """The address of these terms, whether its code is made or not."""
        return proxy_address(self.family, self.family.read(self.factory), keccak256(self.encoded))


def proxy_address(family: Create2Family, factory: bytes, salt: bytes) -> str:
    """The address of a factory's minimal proxy with this salt, whether its code is made or not."""
    creation = family.implementation(factory).join(_PROXY)
    return family.written(family.placed(factory, salt, keccak256(creation)))


def give_back_call(terms: Create2Terms, token: str | None = None) -> tuple[str, bytes]:
    """Receiver and data of the call by which anyone has sent to the refund account what is at the address: all of `token`, or of
    the chain's coin by the zero address. Of the terms' own token that is possible once no deposit can be made any more: after
    `reserveDeadline`, or when the payment has been deposited."""
    moved = terms.family.read(terms.token if token is None else token)
    return terms.factory, selector(GIVE_BACK) + terms.encoded + word(moved)
