"""Deposit addresses: payments that nobody signs for.

Whoever sends the money to an address that commits to a payment has made its deposit; from there it goes into the escrow of this
payment or back to the refund account, and nowhere else. So it is the address that is rebuilt from the order and compared, before
money moves. What is a family's own is its `AddressFamily`, and how the address follows from its `AddressTerms`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, cast

from . import trust
from .errors import AddressMismatch, NotSigned, StaleAddress
from .escrow_abi import deposit_of
from .flow import Flow
from .operations import Operations
from .order import Order, originator, quote_request_id, rfc3339, unix
from .schemas import ChainDefaults, DepositAddressRequest, PaymentResponse, PaymentStatusRead, QuoteRequestRead
from .trust import Limits, Pins, Terms, whole_number

#: How long an exchange may take, where the order does not say: its fulfillment deadline from when it is opened.
FULFILLMENT_SECONDS = 3600
#: What has to be left of `pay_by` at least: a transfer that is made now is not there sooner.
LEFT_SECONDS = 5


@dataclass(frozen=True)
class AddressFamily:
    """What of deposit addresses is a family's own."""

    #: The contract that makes the addresses for an escrow, where a payer knows it without a pin of its own.
    factory: Callable[[str], str] | None
    #: An account's bytes. Raises `ValueError`.
    read: Callable[[str], bytes]
    #: Whether accounts that differ in case alone are the same.
    ignores_case: bool
    #: Reference of the chain and token of an asset. Raises `ValueError` where it is not a token.
    token_of: Callable[[str], tuple[int | str, str]]
    #: The transfer as a link, of the reference of the chain, the token, the address and the amount.
    uri: Callable[[int | str, str, str, int], str]


@dataclass(frozen=True)
class AddressTerms(ABC):
    """All that an address commits to, and the contract that makes it. Each family has a class of its own."""

    family: ClassVar[AddressFamily]

    escrow: str
    token: str
    #: The least that is deposited, in the token's smallest unit.
    amount: int
    #: The escrow's `GatewayDeposit`.
    deposit: Mapping[str, Any]
    #: The contract that makes the address and alone moves what is there.
    factory: str

    @property
    @abstractmethod
    def encoded(self) -> bytes:
        """The terms as the contract reads them. Raises `ValueError` where one of them is not an account of the chain."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address of these terms. Raises as `encoded`."""


@dataclass(frozen=True)
class CheckedAddress:
    """An address that was held against the payer's own order."""

    #: Where to send the money; on EVM chains in lower case. On Solana it is an owner of token accounts, off the curve: the money
    #: lies in its associated token account, which the sender makes.
    address: str
    #: The only chain on which it counts, CAIP-2.
    chain_id: str
    #: What to send.
    token: str
    #: How much at least, in the token's smallest unit, in one transfer or in several.
    amount: int
    #: What comes later goes back.
    pay_by: datetime
    #: The only account that money can go back to.
    refund_account: str
    #: The transfer as a link for wallets and as the text of a QR code (EIP-681). On Solana (Solana Pay) it has no amount, which
    #: counts in whole tokens there: who knows the token's decimals adds it, as `&amount=1.5`. On Tron there is no settled form
    #: for amounts: the link has the address alone, and the QR code's text is `address`.
    uri: str
    #: Keep them: with them anyone can have sent back what comes too late, see `give_back_call` of the family.
    terms: AddressTerms


@dataclass(frozen=True)
class Addressed:
    """A payment that waits for its money."""

    payment_id: str
    quote_request_id: str
    #: The order as it was sent, with its deadlines. Under its `request_id` and the same `caller_secret` it has the same address.
    order: Order
    address: CheckedAddress
    #: How the request was answered.
    accepted: PaymentResponse
    #: The one that was given.
    caller_secret: str | None = None
    #: Accounts for which there is nothing but the gateway's word: see `believed`.
    believed: Mapping[str, str] = field(default_factory=dict)


def address_terms(
    order: Order,
    batch: QuoteRequestRead,
    defaults: Mapping[str, ChainDefaults],
    pins: Pins,
    limits: Limits,
    caller_secret: str | None = None,
) -> Terms:
    """The terms of a payment by deposit address, of the order and its quote-request. The payment's id is that of the
    quote-request, whose id is the order's own.

    Raises `NotSigned` where the quote-request is for something else, and what `terms` raises.
    """
    try:
        is_own = Order.of(cast(Mapping[str, Any], batch)).terms_hash() == order.terms_hash()
    except ValueError:
        is_own = False
    if not is_own:
        raise NotSigned("the gateway collects quotes for something else")
    own = quote_request_id(order.originator or originator(order.source), order.request_id, caller_secret)
    _insist("quote_request_id", own, batch["quote_request_id"], ignores_case=False)
    # A replay has the deadlines of the quote-request that was there before.
    quoted, fulfilled = batch["quote_deadline"], batch["fulfillment_deadline"]
    if order.chain_id.startswith("tron:"):
        # An address there has nothing to do with Permit2.
        pins = replace(pins, permit2=None)
    return trust.terms(
        replace(order, request_id=own, quote_deadline=quoted, fulfillment_deadline=fulfilled), defaults, pins, limits
    )


def check_address(
    terms: Terms,
    payment: PaymentResponse | PaymentStatusRead,
    pay_by: datetime | None = None,
    now: float | None = None,
) -> CheckedAddress:
    """The address that a gateway gave, where it is that of the payer's own order and money can be sent there now. Every member is
    compared; of what the gateway says only the windows are taken, which are bounded, and up to when it waits.

    :param terms: of `address_terms`.
    :param payment: as the gateway shows it, with its address.
    :param pay_by: what was asked for, where it was.
    :param now: UNIX seconds; the clock's where it is absent.

    Raises `NotSigned` where money that is sent there could end elsewhere than it should; `AddressMismatch` names the member. And
    `StaleAddress` where the address was given before: the payment is not pending, its time is over or ends within 5 seconds, or
    is another than was asked for.
    """
    source = terms.order.source
    terms_class = _terms_class(source["asset_identifier"])
    reference, token = terms_class.family.token_of(source["asset_identifier"])

    def insist(member: str, own: object, found: object) -> None:
        _insist(member, own, found, terms_class.family.ignores_case)

    insist("payment_id", terms.order.payment_id, payment["payment_id"])
    shown = _object(payment.get("deposit_address"), "deposit_address")
    factory = _factory(terms_class.family, terms, shown.get("factory"))
    insist("chain_id", terms.order.chain_id, shown.get("chain_id"))
    insist("asset_identifier", source["asset_identifier"], shown.get("asset_identifier"))
    insist("amount", terms.amount, shown.get("amount"))
    insist("refund_account", source["account"], shown.get("refund_account"))
    their_terms = _object(shown.get("terms"), "terms")
    theirs = _object(their_terms.get("deposit"), "terms.deposit")
    waited, fulfilled = _time(shown.get("pay_by")), terms.fulfillment_deadline
    reserve_deadline = _within("reserve_deadline", theirs, int(waited.timestamp()), fulfilled)
    refund_after = _within("refund_after", theirs, fulfilled + 1, fulfilled + terms.refund_delay_seconds)
    deposit = deposit_of(terms, reserve_deadline, refund_after)
    own = terms_class(terms.escrow, token, terms.amount, deposit, factory)
    for name in ("escrow", "token", "amount"):
        insist(f"terms.{name}", getattr(own, name), their_terms.get(name))
    for name, value in (
        ("payment_id", deposit["paymentId"]),
        ("terms_hash", deposit["termsHash"]),
        ("quote_hash", deposit["quoteHash"]),
        ("payer", deposit["payer"]),
        ("reserver", deposit["reserver"]),
        ("releaser", deposit["releaser"]),
        ("fulfillment_deadline", deposit["fulfillmentDeadline"]),
    ):
        insist(f"terms.deposit.{name}", value, theirs.get(name))
    try:
        address = own.address
    except ValueError as fault:
        # An account of another form, as in the order, has not the bytes of one.
        raise NotSigned(str(fault)) from None
    insist("address", address, shown.get("address"))
    uri = terms_class.family.uri(reference, token, address, terms.amount)
    insist("uri", uri, shown.get("uri"))
    _check_fresh(payment, waited, pay_by, time.time() if now is None else now)
    return CheckedAddress(address, terms.order.chain_id, token, terms.amount, waited, source["account"], uri, own)


def opening(
    operations: Operations,
    order: Order,
    pins: Pins,
    limits: Limits,
    pay_by: datetime | None = None,
    caller_secret: str | None = None,
) -> Flow[Addressed]:
    """Quote-request, address and comparison: see `Gateway.open_address`."""
    asset = order.source["asset_identifier"]
    _terms_class(asset).family.token_of(asset)
    if order.max_source_amount is None:
        raise ValueError("the order lacks max_source_amount: what is sent to the address")
    if order.originator or "proof" in order.members:
        raise ValueError("an order in an envelope has its address given in an envelope of its own: see Gateway.deposit_address")
    seconds = FULFILLMENT_SECONDS if order.fulfillment_seconds is None else order.fulfillment_seconds
    order = replace(order, fulfillment_seconds=seconds).timed(time.time())
    defaults = {}
    for chain in order.chains:
        defaults[chain] = yield from operations.defaults(chain)
    batch = yield from operations.quote(order.quote_body(), caller_secret, waits=False)
    terms = address_terms(order, batch, defaults, pins, limits, caller_secret)
    body: DepositAddressRequest = {} if pay_by is None else {"pay_by": rfc3339(pay_by.timestamp())}
    accepted = yield from operations.deposit_address(batch["quote_request_id"], body, caller_secret)
    address = check_address(terms, accepted, pay_by)
    said = trust.believed(defaults[order.chain_id], pins, address)
    return Addressed(accepted["payment_id"], batch["quote_request_id"], order, address, accepted, caller_secret, said)


def _terms_class(asset_identifier: str) -> type[AddressTerms]:
    """The terms of the family of an asset's chain. Each is an extra of the package, so it is imported where it is needed."""
    match asset_identifier.partition(":")[0]:
        case "eip155":
            from .evm.addresses import AddressTerms as EvmTerms

            return EvmTerms
        case "tron":
            from .tron.addresses import AddressTerms as TronTerms

            return TronTerms
        case "solana":
            from .solana.addresses import AddressTerms as SolanaTerms

            return SolanaTerms
        case _:
            rule = "neither an ERC-20, a TRC-20 nor a token of Solana"
            raise ValueError(f"{asset_identifier} is {rule}: there are no deposit addresses for it")


def _factory(family: AddressFamily, terms: Terms, shown: object) -> str:
    """The contract that makes the address: the one that is known, and the gateway's word where none is."""
    own_factory = family.factory(terms.escrow) if family.factory else None
    known = [own for own in (own_factory, terms.deposit_address_factory) if own is not None]
    for own in known:
        _insist("factory", own, shown, family.ignores_case)
    factory = known[0] if known else str(shown)
    try:
        family.read(factory)
    except ValueError:
        raise AddressMismatch("factory", "an account of the chain", shown) from None
    return factory


def _check_fresh(payment: PaymentResponse | PaymentStatusRead, waited: datetime, asked: datetime | None, now: float) -> None:
    """Raises `StaleAddress` where nothing may be sent, or money is waited for up to another time than was asked for."""

    def insist(holds: bool, member: str, expected: str, found: str) -> None:
        if not holds:
            raise StaleAddress(payment["payment_id"], member, expected, found)

    insist(payment["status"] == "pending", "status", "pending", payment["status"])
    found, earliest = rfc3339(waited.timestamp()), now + LEFT_SECONDS
    if asked is not None:
        # Requests have whole seconds.
        wanted = rfc3339(asked.timestamp())
        insist(found == wanted, "pay_by", f"as asked for, {wanted}", found)
    insist(waited.timestamp() >= earliest, "pay_by", f"{LEFT_SECONDS} s away, {rfc3339(earliest)}, or later", found)


def _insist(member: str, own: object, shown: object, ignores_case: bool) -> None:
    """Raises `AddressMismatch` where the gateway says something else than was rebuilt. Hashes have no case; accounts have none on
    EVM chains."""
    expected, found = "0x" + own.hex() if isinstance(own, bytes) else str(own), str(shown)
    is_same = expected.lower() == found.lower() if ignores_case or isinstance(own, bytes) else expected == found
    if not is_same:
        raise AddressMismatch(member, expected, shown)


def _within(name: str, deposit: Mapping[str, Any], least: int, most: int) -> int:
    """A time that the gateway chose, UNIX seconds."""
    found = whole_number(deposit.get(name), name)
    if not least <= found <= most:
        raise AddressMismatch(f"terms.deposit.{name}", f"from {least} to {most}", found)
    return found


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise AddressMismatch(name, "an object", value)
    return value


def _time(value: object) -> datetime:
    try:
        unix(value if isinstance(value, str) else "")
        return datetime.fromisoformat(str(value))
    except ValueError:
        raise AddressMismatch("pay_by", "a time", value) from None
