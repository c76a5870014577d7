"""Typed data of EVM chains (EIP-712) and Tron (TIP-712): what is signed, and what a gateway's says in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eth_account.messages import SignableMessage, encode_typed_data

from .amounts import AMOUNT_MAX
from .errors import NotSigned
from .escrow_abi import GATEWAY_DEPOSIT
from .keccak import keccak256
from .trust import json_object, whole_number

#: Characters of the longest name and version that a token's domain may have.
_DOMAIN_CHARS_MAX = 256


@dataclass(frozen=True)
class Message:
    """What has to be signed, as it was rebuilt."""

    #: For `eth_signTypedData_v4` of any wallet; on Tron, without `EIP712Domain` of its types, for `signTypedData` of tronweb.
    typed_data: Mapping[str, Any]
    signable: SignableMessage

    @property
    def digest(self) -> bytes:
        """What the signature is over."""
        return keccak256(b"\x19" + self.signable.version + self.signable.header + self.signable.body)

    @property
    def payload(self) -> Mapping[str, Any]:
        """What a submission says beside the signature, because it is not in what is signed."""
        return {}


@dataclass(frozen=True)
class Shown:
    """Typed data of a gateway, of which nothing is believed."""

    primary_type: object
    types: object
    domain: Mapping[str, Any]
    message: Mapping[str, Any]

    @classmethod
    def read(cls, text: object, name: str) -> Shown:
        """The typed data in a text. `name` is what an error says that it is not."""
        data = json_object(text, "message_prehash")
        domain, message = data.get("domain"), data.get("message")
        if not isinstance(domain, dict) or not isinstance(message, dict):
            raise NotSigned(f"message_prehash is not {name}")
        return cls(data.get("primaryType"), data.get("types"), domain, message)

    def text(self, member: str) -> str:
        """A text of the domain. The token alone knows it: with another a signature counts nowhere."""
        value = self.domain.get(member)
        if not isinstance(value, str) or len(value) > _DOMAIN_CHARS_MAX:
            raise NotSigned(f"domain.{member} is not a text")
        return value

    def number(self, member: str) -> int:
        """A number of the message, of 256 bits at most."""
        value = whole_number(self.message.get(member), member)
        if value > AMOUNT_MAX:
            raise NotSigned(f"{member} has more than 256 bits")
        return value

    def insist_is(self, typed_data: Mapping[str, Any]) -> None:
        """Raises `NotSigned` with the first member in which this differs from what was rebuilt."""
        insist_same("primaryType", typed_data["primaryType"], self.primary_type)
        for path, own, shown in (("domain.", typed_data["domain"], self.domain), ("", typed_data["message"], self.message)):
            for name, value in own.items():
                insist_same(path + name, value, shown.get(name))


@dataclass(frozen=True)
class Comparison:
    """What a gateway says against what was rebuilt, member by member. Nothing in it is the gateway's to choose. Addresses and
    hashes have no case."""

    #: The error of a member that differs, of its name, what it must be, and what it is.
    mismatch: Callable[[str, str, object], NotSigned]

    def insist(self, member: str, own: object, shown: object) -> None:
        """Raises the error where the gateway's is another."""
        expected, found = _text(own), _text(shown)
        if expected != found:
            raise self.mismatch(member, expected, found)

    def whole(self, path: str, own: object, shown: object) -> None:
        """Raises the error with the first member in which the gateway's is another."""
        if isinstance(own, dict):
            members = shown if isinstance(shown, Mapping) else {}
            self.insist(f"{path}.members", ",".join(sorted(own)), ",".join(sorted(map(str, members))))
            for name, value in own.items():
                self.whole(f"{path}.{name}", value, members[name])
        elif isinstance(own, list):
            items = shown if isinstance(shown, list) else []
            self.insist(f"{path}.length", len(own), len(items))
            for at, (mine, theirs) in enumerate(zip(own, items, strict=True)):
                self.whole(f"{path}[{at}]", mine, theirs)
        else:
            self.insist(path, own, shown)

    def typed_data(self, rebuilt: Message, asked: object, at: str, kind: str) -> None:
        """Raises the error where the message that the gateway asks to be signed is another than what was rebuilt, or a
        `NotSigned` where it is none. `at` is the message's place in the answer, and `kind` what an error says that it is not."""
        if not isinstance(asked, Mapping) or not all(isinstance(asked.get(name), str) for name in ("message", "message_prehash")):
            raise NotSigned("the gateway asks for a signature over nothing")
        own, shown = rebuilt.typed_data, Shown.read(asked["message_prehash"], kind)
        self.insist("primaryType", own["primaryType"], shown.primary_type)
        if shown.types != own["types"]:
            raise NotSigned(f"types are not those of {kind}")
        self.whole("domain", own["domain"], shown.domain)
        self.whole("message", own["message"], shown.message)
        self.insist(f"{at}.message", rebuilt.digest, asked["message"])


def insist_same(name: str, own: object, shown: object) -> None:
    """Raises `NotSigned` where the gateway says something else than what was rebuilt. Addresses and hashes have no case."""
    expected, found = (_text(value) for value in (own, shown))
    if expected != found:
        raise NotSigned(f"the gateway asks for a signature over something else: {name} must be {expected}, not {found[:100]}")


def insist_digest(message: Message, asked: str) -> None:
    """Raises `NotSigned` where the gateway asks for a signature over something else."""
    if asked != "0x" + message.digest.hex():
        raise NotSigned("the gateway asks for a signature over something else")


def deposit_hash(deposit: Mapping[str, Any]) -> bytes:
    """The EIP-712 hash of a deposit, as the escrow takes it."""
    types = {"GatewayDeposit": GATEWAY_DEPOSIT}
    return encode_typed_data(domain_data={}, message_types=types, message_data=dict(deposit)).body


def shown_deposit(deposit: Mapping[str, Any]) -> dict[str, str]:
    """A deposit as JSON has it: numbers are decimal texts, words hex."""
    return {name: _text(value) for name, value in deposit.items()}


def _text(value: object) -> str:
    text = "0x" + value.hex() if isinstance(value, bytes) else str(value)
    return text.lower() if text.startswith("0x") else text
