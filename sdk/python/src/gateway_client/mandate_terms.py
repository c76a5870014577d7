"""Mandates as a payer gives them, and all that their signatures have to say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NotRequired, TypedDict, cast

from .amounts import amount_of, wire
from .order import VERSION, Order, owned
from .schemas import (
    Mandate,
    OwnedAsset,
    PrepareMandateRequest,
)
from .trust import Terms

#: What Permit2 counts with is less than this: for it that is an allowance without a bound.
ALLOWANCE_ENDLESS = 2**160 - 1
#: The last second that contracts hold, UNIX.
TIME_MAX = 2**48 - 1
_SECONDS_MAX = 2**32 - 1
#: What of an order a mandate commits to, besides what `MandateOrder` has itself.
_MEMBERS = frozenset(["escrow_contract_address", "fulfillment_verifier"])


class MandatePayload(TypedDict):
    """What a payer gives its merchant, who shows it with each payment."""

    mandate: Mandate
    #: The payer's signature for Permit2. Absent where the payer has given the allowance by its own call.
    permit: NotRequired[str]


@dataclass(frozen=True)
class MandateOrder:
    """What a payer allows a merchant to ask for: up to `amount` in each of `periods` periods, delivered to one of these
    destinations. What is left of a period is not carried over.

    Raises `ValueError` where the contract keeps no such mandate.
    """

    #: An ERC-20 of an EVM chain, and who pays.
    source: OwnedAsset
    #: Where payments may arrive. A mandate commits to all of these and to their accounts, so an order under it has the same.
    destination: Sequence[OwnedAsset]
    #: Who signs for each payment, by a key on the source's chain.
    merchant: str
    #: The most that is drawn in a period, smallest unit of the source's asset, with what settlers ask.
    amount: int
    period_seconds: int
    periods: int
    #: What is delivered at least where all of `amount` is drawn for it, and so in proportion, smallest unit of the destination's
    #: asset. **Without it the merchant alone says how much arrives for what is drawn.**
    least: int | None = None
    #: First second of the first period, UNIX. Now where it is absent.
    begins: int | None = None
    #: The most time from the deposit of a payment to its refund, seconds. `Limits.lock_seconds` where it is absent, and no more.
    lock_seconds: int | None = None
    #: `escrow_contract_address` and `fulfillment_verifier`, where others than the gateway's are wanted. Orders have the same.
    members: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unbound := self.members.keys() - _MEMBERS:
            raise ValueError(f"a mandate does not commit to {', '.join(sorted(unbound))}")
        wire(self.amount, "amount")
        if self.least is not None:
            wire(self.least, "least")
        for name in ("period_seconds", "periods", "lock_seconds"):
            value = getattr(self, name)
            if not _is_within(value, 1, _SECONDS_MAX) and not (value is None and name == "lock_seconds"):
                raise ValueError(f"{name} is from 1 to {_SECONDS_MAX}, not {value!r}")
        if self.begins is not None and not _is_within(self.begins, 0, TIME_MAX):
            raise ValueError(f"begins is a time in UNIX seconds, not {self.begins!r}")
        if self.all >= ALLOWANCE_ENDLESS:
            raise ValueError("amount times periods is more than Permit2 counts, which is less than 160 bits hold")
        if self.begins is not None and self.ends > TIME_MAX:
            raise ValueError("the last period ends after the times that contracts hold")
        order = self.payment
        asset = order.source["asset_identifier"]
        if not order.chain_id.startswith("eip155:") or not asset.partition("/")[2].startswith("erc20:"):
            raise ValueError(f"{asset} is not an ERC-20 of an EVM chain, eip155:…/erc20:0x…")
        merchant = owned(asset, self.merchant)["account"]
        if not re.fullmatch("0x[0-9a-f]{40}", merchant) or not int(merchant, 16):
            raise ValueError(f"merchant is {self.merchant[:60]}, which is not an account of an EVM chain")
        object.__setattr__(self, "source", order.source)
        object.__setattr__(self, "destination", order.destination)
        object.__setattr__(self, "merchant", merchant)

    @property
    def account(self) -> str:
        """Who pays."""
        return self.source["account"]

    @property
    def all(self) -> int:
        """All periods together, smallest unit."""
        return self.amount * self.periods

    @property
    def ends(self) -> int:
        """First second behind the last period, UNIX. Raises `ValueError` where it is not said when the first begins."""
        if self.begins is None:
            raise ValueError("the mandate does not say when it begins")
        return self.begins + self.period_seconds * self.periods

    @property
    def payment(self) -> Order:
        """A payment under it that is due at once. Of its amounts and times a mandate knows nothing."""
        known: dict[str, Any] = {"request_id": "of-a-mandate", "quote_seconds": 0, "fulfillment_seconds": 0}
        return Order(self.source, self.destination, 1, self.all, members=self.members, **known)

    def delivers_enough(self, delivered: int, drawn: int) -> bool:
        """Whether so much is not less than `least` says for what is drawn."""
        return delivered * self.amount >= (self.least or 0) * drawn


@dataclass(frozen=True)
class MandateTerms:
    """Everything that the signatures for a mandate have to say: the payer's, and its merchant's for a payment."""

    #: With nothing left out but `least`.
    order: MandateOrder
    #: Who pays, to whom it is delivered, escrow and verifier: those of a payment under it, of whose amounts and times a mandate
    #: knows nothing.
    payment: Terms
    #: Tells mandates apart that are alike in all else, 32 bytes. The payer draws it at random when all else is settled.
    salt: bytes
    #: The payer's signature, where there is one.
    permit: str | None = None

    @classmethod
    def of(cls, payment: Terms, payload: Mapping[str, Any]) -> MandateTerms:
        """Those of a payment under the mandate of a payload. Raises `ValueError` where that is none."""
        order, salt, permit = read_payload(payment.order, payload)
        return cls(order, payment, salt, permit)

    @property
    def body(self) -> Mandate:
        """The mandate, as requests have it."""
        order = self.order
        if order.begins is None or order.lock_seconds is None:
            raise ValueError("the mandate lacks begins or lock_seconds")
        mandate: Mandate = {
            "merchant": order.merchant,
            "amount": str(order.amount),
            "begins": order.begins,
            "period_seconds": order.period_seconds,
            "periods": order.periods,
            "lock_seconds": order.lock_seconds,
            "salt": "0x" + self.salt.hex(),
        }
        return mandate if order.least is None else {**mandate, "least": str(order.least)}

    @property
    def payload(self) -> MandatePayload:
        """What the merchant shows with each payment."""
        return {"mandate": self.body} if self.permit is None else {"mandate": self.body, "permit": self.permit}

    def request(self) -> PrepareMandateRequest:
        """What is asked for of the gateway before the payer signs."""
        order = self.order
        assets = {"source": order.source, "destination": list(order.destination)}
        return cast(PrepareMandateRequest, {"version": VERSION, **assets, **order.members, "mandate": self.body})


def read_payload(order: Order, payload: Mapping[str, Any]) -> tuple[MandateOrder, bytes, str | None]:
    """The mandate of a payload that is to pay an order, its salt, and the payer's signature where there is one.

    Raises `ValueError` where it is none.
    """
    mandate, permit = payload.get("mandate"), payload.get("permit")
    if not isinstance(mandate, Mapping) or not isinstance(permit, str | None):
        raise ValueError("payload has a mandate, and the payer's signature as permit where there is one")
    merchant, salt, least = mandate.get("merchant"), mandate.get("salt"), mandate.get("least")
    if not isinstance(merchant, str):
        raise ValueError("payload.mandate.merchant is missing")
    if not isinstance(salt, str) or not re.fullmatch("0x[0-9a-fA-F]{64}", salt):
        raise ValueError("payload.mandate.salt is not 0x and 64 hex digits")
    numbers = {name: mandate.get(name) for name in ("begins", "period_seconds", "periods", "lock_seconds")}
    for name, value in numbers.items():
        if not _is_within(value, 0, TIME_MAX):
            raise ValueError(f"payload.mandate.{name} is {value!r}, which is not a whole number")
    granted = MandateOrder(
        order.source,
        order.destination,
        merchant,
        amount_of(mandate.get("amount"), "payload.mandate.amount"),
        least=None if least is None else amount_of(least, "payload.mandate.least"),
        members={name: value for name, value in order.members.items() if name in _MEMBERS},
        **cast(dict[str, Any], numbers),
    )
    return granted, bytes.fromhex(salt[2:]), permit


def fixed(order: MandateOrder, now: float, lock_seconds: int) -> MandateOrder:
    """The same with nothing left out: from now on, and with so much time to the refund, where it does not say."""
    begins = int(now) if order.begins is None else order.begins
    return replace(order, begins=begins, lock_seconds=lock_seconds if order.lock_seconds is None else order.lock_seconds)


def _is_within(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
