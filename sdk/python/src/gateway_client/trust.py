"""Trust: what a payer knows by itself, what it allows, and what it believes of the gateway's defaults."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import bounded_json
from .amounts import amount_of
from .errors import LimitExceeded, NotSigned, PinMismatch
from .order import Order, unix
from .quotes import Quote
from .schemas import ChainDefaults
from .verifiers import check_verifier

if TYPE_CHECKING:
    from .addresses import CheckedAddress

#: Where Uniswap's Permit2 is on every chain but few. An allowance is given to nothing that a gateway alone names.
PERMIT2 = "0x000000000022d473030f116ddee9f6b43ac78ba3"


@dataclass(frozen=True)
class Pins:
    """Accounts that a payer knows without asking the gateway, on the source's chain. A gateway that names others is refused
    before anything is sent; where one is `None` the gateway's word is believed, and one that names an escrow of its own takes
    `max_source_amount`. `releaser` is a verifier's account, or what `releaser_of` makes of threshold and members of a set."""

    escrow: str | None = None
    reserver: str | None = None
    releaser: str | None = None
    permit2: str = PERMIT2
    #: On Tron, the contract that makes deposit addresses: each network has it elsewhere, and another one may do anything with
    #: what comes to its addresses. On EVM chains it is known without a pin.
    deposit_address_factory: str | None = None


@dataclass(frozen=True)
class Limits:
    """What a payer allows at most."""

    #: The longest that money may be locked, in seconds from now.
    lock_seconds: int = 7200
    #: What one transaction of the payer's own may cost: gas times fee per gas, in wei. A hundredth of a coin.
    fee_wei: int = 10**16
    #: TRX that one transaction of the payer's own may burn for energy, in sun.
    fee_sun: int = 500_000_000


@dataclass(frozen=True)
class Terms:
    """Everything that a payer's signature has to say, but for the windows that the gateway chooses within limits."""

    order: Order
    escrow: str
    reserver: str
    releaser: str
    permit2: str
    #: The most that may be drawn.
    amount: int
    #: Hash of the quote that is taken; zero where it is not known yet.
    quote_hash: bytes
    #: The most seconds between `fulfillment_deadline` and the refund.
    refund_delay_seconds: int
    limits: Limits
    #: Solana: the cluster's genesis hash, Base58.
    cluster_id: str | None = None
    #: What the quote that is taken costs; `None` where it is not known yet.
    price: int | None = None
    #: The contract that makes deposit addresses, where it is pinned.
    deposit_address_factory: str | None = None

    @property
    def fulfillment_deadline(self) -> int:
        """UNIX seconds."""
        return unix(self.order.fulfillment_deadline)

    def check_windows(self, reserve_deadline: int, refund_after: int) -> None:
        """Whether the windows that the gateway chose are within the payer's limits."""
        if reserve_deadline > self.fulfillment_deadline:
            raise NotSigned("the deposit would be taken too late")
        if refund_after <= self.fulfillment_deadline:
            raise NotSigned("the refund would come before the delivery is due")
        if refund_after - self.fulfillment_deadline > self.refund_delay_seconds:
            raise NotSigned("the refund would come too late")


def terms(
    order: Order,
    defaults: Mapping[str, ChainDefaults],
    pins: Pins,
    limits: Limits,
    quote: Quote | None = None,
) -> Terms:
    """The terms of an order with deadlines, from what the gateway says of each of its chains.

    Raises `PinMismatch` or `LimitExceeded`.
    """
    own = defaults[order.chain_id]
    escrow, reserver, releaser = named(order, own)
    for name, pin, found in (
        ("escrow", pins.escrow, escrow),
        ("reserver", pins.reserver, reserver),
        ("releaser", pins.releaser, releaser),
        ("permit2", pins.permit2, str(own.get("permit2", pins.permit2))),
    ):
        if pin is not None and not _is_same(order.chain_id, pin, found):
            raise PinMismatch(name, found)
    _check_shown(order, own, releaser)
    # The longest of the payment's chains counts.
    refund_delay = max(_seconds(defaults[chain].get("refund_delay_seconds")) for chain in order.chains)
    locked = unix(order.fulfillment_deadline) + refund_delay - int(time.time())
    if locked > limits.lock_seconds:
        message = f"the money could be locked for {locked} s, and {limits.lock_seconds} s are allowed"
        raise LimitExceeded(message, "lock_seconds", locked, limits.lock_seconds)
    amount = order.max_source_amount
    if amount is None:
        if quote is None:
            raise ValueError("the order lacks max_source_amount: a payer says what it pays at most")
        amount = quote.source_amount
    return Terms(
        order=order,
        escrow=escrow,
        reserver=reserver,
        releaser=releaser,
        permit2=pins.permit2,
        amount=amount,
        quote_hash=quote.hash if quote else bytes(32),
        refund_delay_seconds=refund_delay,
        limits=limits,
        cluster_id=own.get("signature_cluster_id"),
        price=quote.source_amount if quote else None,
        deposit_address_factory=pins.deposit_address_factory,
    )


def named(order: Order, defaults: ChainDefaults) -> tuple[str, str, str]:
    """Escrow, reserver and releaser of a payment: the order may name an escrow and a verifier of its own."""
    escrow = order.members.get("escrow_contract_address") or defaults["escrow_contract_address"]
    verifier = order.members.get("fulfillment_verifier") or {}
    return str(escrow), defaults["reserver"], str(verifier.get("account") or defaults["releaser"])


def _check_shown(order: Order, defaults: ChainDefaults, releaser: str) -> None:
    """Whether the gateway shows the verifiers whom the releaser stands for; those that an order names itself it may not know."""
    shown: object = defaults.get("fulfillment_verifier")
    if (order.members.get("fulfillment_verifier") or {}).get("account"):
        known = [one for one in defaults.get("fulfillment_verifiers") or [] if isinstance(one, Mapping)]
        shown = next((one for one in known if _is_same(order.chain_id, str(one.get("account")), releaser)), None)
    check_verifier(order.chain_id.partition(":")[0], releaser, shown)


def believed(defaults: ChainDefaults, pins: Pins, address: CheckedAddress | None = None) -> dict[str, str]:
    """What nothing but the gateway's word is behind; of a payment by deposit address on Tron with the contract that makes the
    address."""
    said = {"escrow": defaults["escrow_contract_address"], "reserver": defaults["reserver"], "releaser": defaults["releaser"]}
    if address is not None and address.terms.family.factory is None:
        said["deposit_address_factory"] = address.terms.factory
    return {name: account for name, account in said.items() if getattr(pins, name) is None}


def whole_number(value: object, name: str) -> int:
    """A number that the gateway chose."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    try:
        return amount_of(value, name)
    except ValueError as fault:
        raise NotSigned(str(fault)) from None


def json_object(text: object, name: str) -> dict[str, Any]:
    """An object in a text that the gateway wrote."""
    try:
        value = bounded_json.loads(text.encode()) if isinstance(text, str) else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise NotSigned(f"{name} is not a JSON object")
    return value


def _is_same(chain_id: str, one: str, other: str) -> bool:
    return one.lower() == other.lower() if chain_id.startswith("eip155:") else one == other


def _seconds(value: object) -> int:
    return whole_number(value, "refund_delay_seconds")
