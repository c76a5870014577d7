"""Addresses of Tron: Base58Check of 0x41 and the twenty bytes that contracts know."""

from __future__ import annotations

from hashlib import sha256

_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PREFIX = b"\x41"


def address_bytes(text: str) -> bytes:
    """The twenty bytes of `T…`. Raises `ValueError`."""
    value = 0
    for digit in text:
        at = _DIGITS.find(digit)
        if at < 0:
            raise ValueError(f"{text[:60]} is not an address of Tron")
        value = value * 58 + at
    if len(text) != 34 or value >= 1 << 200:
        raise ValueError(f"{text[:60]} is not an address of Tron")
    raw = value.to_bytes(25, "big")
    if raw[:1] != _PREFIX or raw[21:] != _checksum(raw[:21]):
        raise ValueError(f"{text[:60]} is not an address of Tron")
    return raw[1:21]


def address_text(address: bytes) -> str:
    """`T…` of twenty bytes."""
    raw = _PREFIX + address
    value, text = int.from_bytes(raw + _checksum(raw), "big"), ""
    while value:
        value, digit = divmod(value, 58)
        text = _DIGITS[digit] + text
    return text


def token_of(asset_identifier: str) -> tuple[int, str]:
    """Chain id and token of a TRC-20. Raises `ValueError`."""
    chain, found, token = asset_identifier.partition("/trc20:")
    if not found or not chain.startswith("tron:"):
        raise ValueError(f"{asset_identifier} is not a TRC-20, tron:…/trc20:T…")
    return int(chain.removeprefix("tron:")), token


def _checksum(raw: bytes) -> bytes:
    return sha256(sha256(raw).digest()).digest()[:4]
