"""Transactions of Tron: one call of a contract, in the protobuf of `core/Tron.proto` (tron-protocol).

Only what such a transaction has is written and read; whatever else is in one is refused, because what is read is held against
the bytes that it is written as.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from ..errors import NotSigned

_TRIGGER_SMART_CONTRACT = 31
_TYPE_URL = b"type.googleapis.com/protocol.TriggerSmartContract"
_PREFIX = b"\x41"
_VARINT, _BYTES = 0, 2


@dataclass(frozen=True)
class Call:
    """A transaction that calls a contract. Addresses have twenty bytes."""

    owner: bytes
    contract: bytes
    data: bytes
    #: TRX that go along, in sun.
    value_sun: int
    #: Sun that energy may cost at most.
    fee_limit_sun: int
    #: The last two bytes of the number of the block that it names.
    ref_block_bytes: bytes
    #: Bytes 8 to 16 of that block's id.
    ref_block_hash: bytes
    #: UNIX milliseconds.
    expiration_ms: int
    timestamp_ms: int

    def raw_data(self) -> bytes:
        """What is signed, encoded."""
        trigger = _field(1, _PREFIX + self.owner) + _field(2, _PREFIX + self.contract) + _number(3, self.value_sun)
        parameter = _field(1, _TYPE_URL) + _field(2, trigger + _field(4, self.data))
        return b"".join(
            [
                _field(1, self.ref_block_bytes),
                _field(4, self.ref_block_hash),
                _number(8, self.expiration_ms),
                _field(11, _number(1, _TRIGGER_SMART_CONTRACT) + _field(2, parameter)),
                _number(14, self.timestamp_ms),
                _number(18, self.fee_limit_sun),
            ]
        )

    @property
    def id(self) -> bytes:
        """The transaction's id, which the signature is over."""
        return sha256(self.raw_data()).digest()

    def signed(self, signature: bytes) -> bytes:
        """The whole transaction, encoded."""
        return _field(1, self.raw_data()) + _field(2, signature)

    @classmethod
    def read(cls, raw_data: bytes) -> Call:
        """Reads `raw_data`. Raises `NotSigned` where it is anything but one call of a contract in its one encoding."""
        raw = _members(raw_data)
        contract = _members(_bytes_of(raw, 11))
        parameter = _members(_bytes_of(contract, 2))
        trigger = _members(_bytes_of(parameter, 2))
        read = cls(
            owner=_bytes_of(trigger, 1)[1:],
            contract=_bytes_of(trigger, 2)[1:],
            data=_bytes_of(trigger, 4),
            value_sun=_number_of(trigger, 3),
            fee_limit_sun=_number_of(raw, 18),
            ref_block_bytes=_bytes_of(raw, 1),
            ref_block_hash=_bytes_of(raw, 4),
            expiration_ms=_number_of(raw, 8),
            timestamp_ms=_number_of(raw, 14),
        )
        sizes = (len(read.owner), len(read.contract), len(read.ref_block_bytes), len(read.ref_block_hash))
        if sizes != (20, 20, 2, 8) or read.raw_data() != raw_data:
            raise NotSigned("the transaction is not one call of a contract")
        return read


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _field(tag: int, value: bytes) -> bytes:
    return _varint(tag << 3 | _BYTES) + _varint(len(value)) + value if value else b""


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3 | _VARINT) + _varint(value) if value else b""


def _members(message: bytes) -> dict[int, int | bytes]:
    return dict(_read(message))


def _read(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if key & 7 == _VARINT:
            yield key >> 3, value
        elif key & 7 == _BYTES and at + value <= len(message):
            yield key >> 3, message[at : at + value]
            at += value
        else:
            raise NotSigned("the transaction is not one call of a contract")


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 63, 7):
        if at >= len(message):
            break
        byte = message[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
    raise NotSigned("the transaction is not one call of a contract")


def _bytes_of(members: dict[int, int | bytes], tag: int) -> bytes:
    value = members.get(tag, b"")
    return value if isinstance(value, bytes) else b""


def _number_of(members: dict[int, int | bytes], tag: int) -> int:
    value = members.get(tag, 0)
    return value if isinstance(value, int) else 0
