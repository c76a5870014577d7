"""Trust: what a payer knows by itself, what it allows, and what it believes of the gateway's defaults."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import bounded_json
from .amounts import amount_of
from .errors import LimitExceeded, NotSigned, PinMismatch
from .order import Order, unix
from .quotes import Quote
from .schemas import ChainDefaults
from .schemes import BY_PERMIT2_ON_TRON, BY_TRANSACTIONS
from .verifiers import account_bytes, check_verifier

if TYPE_CHECKING:
    from .addresses import CheckedAddress

#: Where Uniswap's Permit2 is on every EVM chain but few. An allowance is given to nothing that a gateway alone names.
PERMIT2 = "0x000000000022d473030f116ddee9f6b43ac78ba3"
#: Where Permit2 is on networks of Tron, by their CAIP-2 id: SUN.io's on the main network.
PERMIT2_ON_TRON = {"tron:728126428": "TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9"}


@dataclass(frozen=True)
class Pins:
    """Accounts that a payer knows without asking the gateway, on the source's chain. A gateway that names others is refused
    before anything is sent; where one is `None` the gateway's word is believed, and one that names an escrow of its own takes
    `max_source_amount`. `releaser` is a verifier's account, or what `releaser_of` makes of threshold and members of a set."""

    escrow: str | None = None
    reserver: str | None = None
    releaser: str | None = None
    #: Permit2, where it is not the one that is known: `PERMIT2` on EVM chains, `PERMIT2_ON_TRON`. `0x…` counts on EVM chains
    #: alone, `T…` on Tron alone, on whose other networks nothing is signed for a Permit2 that is not named here.
    permit2: str | None = None
    #: On Tron, the contract that makes deposit addresses: each network has it elsewhere, and another one may do anything with
    #: what comes to its addresses. On EVM chains it is known without a pin, and on Solana it is the escrow program.
    deposit_address_factory: str | None = None

    def permit2_on(self, chain_id: str) -> str | None:
        """Permit2 on a chain (CAIP-2) as the payer knows it; `None` where it does not.

        Raises `ValueError` where the pin is not an account.
        """
        namespace, pin = chain_id.partition(":")[0], self.permit2
        if pin is not None and namespace == ("eip155" if pin.startswith("0x") else "tron"):
            _account_bytes(namespace, "permit2", pin)
            return pin
        return PERMIT2 if namespace == "eip155" else PERMIT2_ON_TRON.get(chain_id)


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
    #: Permit2 as the payer knows it; `None` where it does not.
    permit2: str | None
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
    #: Permit2 as the gateway names it; `None` where it names none.
    named_permit2: str | None = None

    @property
    def fulfillment_deadline(self) -> int:
        """UNIX seconds."""
        return unix(self.order.fulfillment_deadline)

    def known_permit2(self) -> str:
        """Permit2 as the payer knows it, where the gateway names no other.

        Raises `NotSigned` where the payer knows none, or a gateway names none on Tron, and `PinMismatch` where they differ.
        """
        chain = self.order.chain_id
        if self.permit2 is None:
            rule = f"name it, Pins(permit2=…), or pay by {BY_TRANSACTIONS}"
            raise NotSigned(f"where Permit2 is on {chain} the payer has to know by itself: {rule}")
        if self.named_permit2 is not None and not _is_same(chain, self.permit2, self.named_permit2):
            raise PinMismatch("permit2", self.named_permit2)
        if self.named_permit2 is None and chain.startswith("tron:"):
            raise NotSigned(f"the gateway has no Permit2 on {chain}")
        return self.permit2

    def message_scheme(self, wanted: str | None = None) -> str | None:
        """The message scheme that the gateway has to be asked for, `wanted` where that is given; `None` where its own choice will
        do. On Tron it will not where it might be for a Permit2 that the payer does not know: then it is the payer's own
        transactions, which need none.

        Raises as `known_permit2` where Permit2's transfer on Tron is wanted by its name.
        """
        if not self.order.chain_id.startswith("tron:") or wanted not in (None, BY_PERMIT2_ON_TRON):
            return wanted
        try:
            self.known_permit2()
        except NotSigned:
            if wanted is not None:
                raise
            return BY_TRANSACTIONS
        return wanted

    def check_windows(self, reserve_deadline: int, refund_after: int) -> None:
        """Whether the windows that the gateway chose are within the payer's limits."""
        if reserve_deadline > self.fulfillment_deadline:
            raise NotSigned("the deposit would be taken too late")
        if refund_after <= self.fulfillment_deadline:
            raise NotSigned("the refund would come before the delivery is due")
        if refund_after - self.fulfillment_deadline > self.refund_delay_seconds:
            raise NotSigned("the refund would come too late")


@dataclass(frozen=True)
class BatchTerms:
    """Everything that a payer's signature for a batch has to say."""

    #: Of each payment, in the order of the request.
    payments: Sequence[Terms]
    #: The last second in which payments of the batch are deposited, UNIX.
    reserve_deadline: int


def terms(
    order: Order,
    defaults: Mapping[str, ChainDefaults],
    pins: Pins,
    limits: Limits,
    quote: Quote | None = None,
) -> Terms:
    """The terms of an order with deadlines, from what the gateway says of each of its chains. On Tron they hold whichever Permit2
    the gateway names, since not every payment needs it: see `Terms.message_scheme`.

    Raises `PinMismatch`, `LimitExceeded` or another `NotSigned`, and `ValueError` where a pin is not an account of the chain.
    """
    own, namespace = defaults[order.chain_id], order.chain_id.partition(":")[0]
    escrow, reserver, releaser = named(order, own)
    permit2, named_permit2 = pins.permit2_on(order.chain_id), own.get("permit2")
    for name, pin, found in (
        ("escrow", pins.escrow, escrow),
        ("reserver", pins.reserver, reserver),
        ("releaser", pins.releaser, releaser),
    ):
        _insist_named(namespace, name, pin, found)
    if namespace == "eip155" and named_permit2 is not None:
        _insist_named(namespace, "permit2", permit2, str(named_permit2))
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
        permit2=permit2,
        amount=amount,
        quote_hash=quote.hash if quote else bytes(32),
        refund_delay_seconds=refund_delay,
        limits=limits,
        cluster_id=own.get("signature_cluster_id"),
        price=quote.source_amount if quote else None,
        deposit_address_factory=pins.deposit_address_factory,
        named_permit2=None if named_permit2 is None else str(named_permit2),
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


def _insist_named(namespace: str, name: str, pin: str | None, found: str) -> None:
    """Raises `PinMismatch` where another account is named than is pinned, another `NotSigned` where it is none."""
    known = None if pin is None else _account_bytes(namespace, name, pin)
    try:
        named = account_bytes(namespace, found)
    except ValueError as fault:
        raise NotSigned(f"{name}: {fault}") from None
    if known is not None and known != named:
        raise PinMismatch(name, found)


def _account_bytes(namespace: str, name: str, pin: str) -> bytes:
    """The bytes of a pin. Raises `ValueError`."""
    try:
        return account_bytes(namespace, pin)
    except ValueError as fault:
        raise ValueError(f"Pins.{name}: {fault}") from None


def _is_same(chain_id: str, one: str, other: str) -> bool:
    return one.lower() == other.lower() if chain_id.startswith("eip155:") else one == other


def _seconds(value: object) -> int:
    return whole_number(value, "refund_delay_seconds")
