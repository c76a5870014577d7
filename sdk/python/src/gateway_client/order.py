"""Orders: what is to be paid, and what of it is hashed and signed.

The rules of ids, terms and their canonical form are those of docs/clients.md.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, cast

from .amounts import amount_of, wire
from .schemas import OwnedAsset, PrepareRequest, QuoteRequest

VERSION = "1.0"
#: How long quotes are collected where the order does not say.
QUOTE_SECONDS = 10
#: By when the payment has to be there where the order does not say. On Tron three transactions land one after the other.
FULFILLMENT_SECONDS = 180
FULFILLMENT_SECONDS_TRON = 240
_OWN_MEMBERS = frozenset(
    [
        "version",
        "request_id",
        "source",
        "destination",
        "fulfillment_amount",
        "max_source_amount",
        "quote_deadline",
        "fulfillment_deadline",
    ]
)


def owned(asset_identifier: str, account: str) -> OwnedAsset:
    """An asset, by its CAIP-19 identifier, and the account that holds or receives it, in the form that is hashed: on EVM
    chains lower case. Raises `ValueError` where an EVM address is mistyped: one in mixed case has a checksum (EIP-55)."""
    if asset_identifier.startswith("eip155:"):
        for text in (asset_identifier.rpartition(":")[2], account):
            if _is_mistyped(text):
                raise ValueError(f"{text}: the checksum of the address is wrong (EIP-55)")
        asset_identifier, account = asset_identifier.lower(), account.lower()
    if asset_identifier.startswith("tron:0x"):
        reference, _, asset = asset_identifier.removeprefix("tron:").partition("/")
        asset_identifier = f"tron:{int(reference, 16)}/{asset}"
    return {"asset_identifier": asset_identifier, "account": account}


def _is_mistyped(text: str) -> bool:
    """Whether a text in mixed case is an EVM address whose letters are not those of its checksum."""
    digits = text.removeprefix("0x")
    if digits == text or digits in (digits.lower(), digits.upper()):
        return False
    from .keccak import keccak256

    marks = keccak256(digits.lower().encode()).hex()
    return any(digit.isalpha() and digit.isupper() != (int(mark, 16) >= 8) for digit, mark in zip(digits, marks, strict=False))


def chain_of(asset_identifier: str) -> str:
    """The CAIP-2 id of an asset's chain."""
    return asset_identifier.partition("/")[0]


def new_request_id() -> str:
    """A `request_id` that nobody else has."""
    return f"order-{uuid.uuid4()}"


def new_caller_secret() -> str:
    """A `caller_secret` that nobody else has. It is part of a quote-request's id: keep it with the `request_id`."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Order:
    """What is to be paid. The recipient gets exactly `amount`; the payer spends `max_source_amount` at most.

    Under one `request_id` one payment is made, however often it is asked for: keep it until you know the outcome.
    """

    #: What is paid with, and by whom.
    source: OwnedAsset
    #: Where it may arrive; the settler chooses one.
    destination: Sequence[OwnedAsset]
    #: Smallest units of the destination's asset.
    amount: int
    #: Smallest units of the source's asset. A payment needs it; quotes may be asked for without.
    max_source_amount: int | None = None
    request_id: str = field(default_factory=new_request_id)
    #: RFC 3339. Where they are absent, `timed` sets them from the seconds below.
    quote_deadline: str | None = None
    fulfillment_deadline: str | None = None
    quote_seconds: int = QUOTE_SECONDS
    fulfillment_seconds: int | None = None
    #: Whatever else the request says, such as `settler_requirements`.
    members: Mapping[str, Any] = field(default_factory=dict)
    #: The DID that `members` proves to be the originator. The source's account where there is none.
    originator: str | None = None

    def __post_init__(self) -> None:
        wire(self.amount, "amount")
        if self.max_source_amount is not None:
            wire(self.max_source_amount, "max_source_amount")
        object.__setattr__(self, "source", owned(**self.source))
        destination = {(one["asset_identifier"], one["account"]) for one in (owned(**each) for each in self.destination)}
        object.__setattr__(self, "destination", tuple(owned(*one) for one in sorted(destination)))
        if clash := _OWN_MEMBERS & self.members.keys():
            raise ValueError(f"members of an order that it has itself: {', '.join(sorted(clash))}")

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Order:
        """The order of a request's body, such as one that was kept in a file."""
        cap = body.get("max_source_amount")
        return cls(
            source=_owned_of(body.get("source"), "source"),
            destination=tuple(_owned_of(one, "destination") for one in _list(body.get("destination"))),
            amount=amount_of(body.get("fulfillment_amount"), "fulfillment_amount"),
            max_source_amount=None if cap is None else amount_of(cap, "max_source_amount"),
            request_id=body.get("request_id") or new_request_id(),
            quote_deadline=body.get("quote_deadline"),
            fulfillment_deadline=body.get("fulfillment_deadline"),
            members={name: value for name, value in body.items() if name not in _OWN_MEMBERS},
        )

    @property
    def chain_id(self) -> str:
        """The source's chain, CAIP-2."""
        return chain_of(self.source["asset_identifier"])

    @property
    def account(self) -> str:
        """Who pays."""
        return self.source["account"]

    @property
    def chains(self) -> list[str]:
        """Every chain of the payment, the source's first."""
        chains = [self.chain_id, *(chain_of(one["asset_identifier"]) for one in self.destination)]
        return list(dict.fromkeys(chains))

    @property
    def payment_id(self) -> str:
        """The id that the payment has: anyone derives it."""
        return payment_id(self.originator or originator(self.source), self.request_id)

    def timed(self, now: float | None = None) -> Order:
        """The same with deadlines, from now on where it has none. Sent again it has to be this one."""
        now = time.time() if now is None else now
        seconds = self.fulfillment_seconds
        if seconds is None:
            seconds = FULFILLMENT_SECONDS_TRON if self.chain_id.startswith("tron:") else FULFILLMENT_SECONDS
        return replace(
            self,
            quote_deadline=self.quote_deadline or rfc3339(now + self.quote_seconds),
            fulfillment_deadline=self.fulfillment_deadline or rfc3339(now + seconds),
        )

    def terms(self) -> dict[str, Any]:
        """What must not change under one `request_id`."""
        terms: dict[str, Any] = {
            "destination": list(self.destination),
            "fulfillment_amount": str(self.amount),
            "source": self.source,
        }
        if self.max_source_amount is not None:
            terms["max_source_amount"] = str(self.max_source_amount)
        return terms

    def terms_hash(self) -> bytes:
        """SHA-256 of the terms' RFC 8785 form, which for these texts is sorted keys and no white space."""
        return sha256(_canonical(self.terms()).encode()).digest()

    def around_amounts(self) -> tuple[bytes, bytes]:
        """The terms' RFC 8785 form in two parts, up to the amount and from behind `max_source_amount`: all of the terms but these
        two. Between them stands `","max_source_amount":"`."""
        before = f'{{"destination":{_canonical(list(self.destination))},"fulfillment_amount":"'
        return before.encode(), f'","source":{_canonical(self.source)}}}'.encode()

    def body(self) -> PrepareRequest:
        """The request's body, as `prepare` and `quote` take it."""
        if self.quote_deadline is None or self.fulfillment_deadline is None:
            raise ValueError("the order has no deadlines: see Order.timed")
        times = {"quote_deadline": self.quote_deadline, "fulfillment_deadline": self.fulfillment_deadline}
        body = {"version": VERSION, "request_id": self.request_id, **self.terms(), **times, **self.members}
        return cast(PrepareRequest, body)

    def quote_body(self) -> QuoteRequest:
        """The same as a quote-request."""
        return cast(QuoteRequest, self.body())


def originator(source: OwnedAsset) -> str:
    """Who asks, where no DID is proven: the source's namespace and account."""
    return f"{source['asset_identifier'].partition(':')[0]}:{source['account']}"


def payment_id(originator: str, request_id: str) -> str:
    """`pay_` and base32 of SHA-256 over what the payment is known by, each part preceded by its length."""
    return _derived("pay_", "gw:payment:v1", originator, request_id)


def quote_request_id(originator: str, request_id: str, caller_secret: str | None = None) -> str:
    """`qrq_` and the same over what a quote-request is known by."""
    if caller_secret is None:
        return _derived("qrq_", "gw:quote-request:v1", originator, request_id)
    secret = "0x" + sha256(caller_secret.encode()).hexdigest()
    return _derived("qrq_", "gw:quote-request-with-secret:v1", originator, request_id, secret)


def _derived(prefix: str, *texts: str) -> str:
    parts = [text.encode() for text in texts]
    known = sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
    return prefix + base64.b32encode(known).decode().rstrip("=").lower()


def rfc3339(seconds: float) -> str:
    """A time as requests have it, in whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix(text: str | None) -> int:
    """UNIX seconds of a deadline, as chains count."""
    if text is None:
        raise ValueError("the order has no deadlines: see Order.timed")
    return int(datetime.fromisoformat(text).timestamp())


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _owned_of(value: object, name: str) -> OwnedAsset:
    texts = value if isinstance(value, Mapping) else {}
    asset, account = texts.get("asset_identifier"), texts.get("account")
    if not isinstance(asset, str) or not isinstance(account, str):
        raise ValueError(f"{name} has an asset_identifier and an account")
    return owned(asset, account)


def _list(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()
