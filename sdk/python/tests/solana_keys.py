"""Keys of Solana by the letter of their rules, in plain numbers and without the package that is tested or its libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P


def base58(key: bytes) -> str:
    """Base58, where each zero byte in front is a `1`."""
    rest, digits = int.from_bytes(key), ""
    while rest:
        rest, digit = divmod(rest, 58)
        digits = _DIGITS[digit] + digits
    return "1" * (len(key) - len(key.lstrip(b"\0"))) + digits


def from_base58(text: str) -> bytes:
    """The 32 bytes of a key."""
    value = 0
    for digit in text:
        value = value * 58 + _DIGITS.index(digit)
    return value.to_bytes(32)


def is_on_curve(key: bytes) -> bool:
    """Whether the bytes are a point of edwards25519 (RFC 8032, 5.1.3): x² = (y² - 1) / (d y² + 1) has a root."""
    y = int.from_bytes(key, "little") % 2**255 % _P
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    return square == 0 or pow(square, (_P - 1) // 2, _P) == 1


def program_addresses(program: bytes, seeds: Sequence[bytes]) -> Iterator[bytes]:
    """What the seeds lead to, by falling bump. The first is the canonical address, and the others are none of the program."""
    for bump in range(255, -1, -1):
        key = sha256(b"".join([*seeds, bytes([bump]), program, b"ProgramDerivedAddress"])).digest()
        if not is_on_curve(key):
            yield key
