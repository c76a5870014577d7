"""Addresses of EVM chains: 0x and the forty hex digits of twenty bytes."""

from __future__ import annotations

import re


def address_bytes(text: str) -> bytes:
    """The twenty bytes of `0x…`. Raises `ValueError`."""
    if not re.fullmatch("0x[0-9a-fA-F]{40}", text):
        raise ValueError(f"{text[:60]} is not an address of an EVM chain")
    return bytes.fromhex(text[2:])


def token_of(asset_identifier: str) -> tuple[int, str]:
    """Chain id and token of an ERC-20. Raises `ValueError`."""
    chain, found, token = asset_identifier.partition("/erc20:")
    if not found or not chain.startswith("eip155:"):
        raise ValueError(f"{asset_identifier} is not an ERC-20, eip155:…/erc20:0x…")
    return int(chain.removeprefix("eip155:")), token
