"""Deposit addresses: payments that nobody signs for.

Whoever sends the money to an address that commits to a payment has made its deposit; from there it goes into the escrow of this
payment or back to the refund account, and nowhere else. So it is the address that is rebuilt from the order and compared, before
money moves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from .. import trust
from ..errors import AddressMismatch, NotSigned, StaleAddress
from ..escrow_abi import GIVE_BACK, selector, word
from ..flow import Flow
from ..keccak import keccak256
from ..operations import Operations
from ..order import Order, originator, quote_request_id, rfc3339, unix
from ..schemas import ChainDefaults, DepositAddressRequest, PaymentResponse, PaymentStatusRead, QuoteRequestRead
from ..trust import Limits, Pins, Terms, whole_number
from .typed import deposit_of, token_of

#: The contract that makes deposit addresses and alone moves what is there. It is at one address on every chain, which follows
#: from its code alone; another one may do anything with what comes to its addresses, so none is taken from the gateway.
DEPOSIT_ADDRESSES = "0x1c44e4980bf8e12120337b58f5e12a07b87e13d3"
#: What each of its addresses runs.
ADDRESS_IMPLEMENTATION = "0xf320ffa75a1b37bdd5b54536539c5c920973706d"
#: How long an exchange may take, where the order does not say: its fulfillment deadline from when it is opened.
FULFILLMENT_SECONDS = 3600
#: What has to be left of `pay_by` at least: a transfer that is made now is not there sooner.
LEFT_SECONDS = 5
#: The code that makes a minimal proxy (ERC-1167), before and behind the address of what it runs.
_PROXY = ("3d602d80600a3d3981f3363d3d373d3d3d363d73", "5af43d82803e903d91602b57fd5bf3")


@dataclass(frozen=True)
class AddressTerms:
    """All that an address commits to."""

    escrow: str
    token: str
    #: The least that is deposited, in the token's smallest unit.
    amount: int
    #: The escrow's `GatewayDeposit`.
    deposit: Mapping[str, Any]

    @property
    def encoded(self) -> bytes:
        """The twelve words of Solidity's ABI."""
        accounts = (_bytes(self.escrow), _bytes(self.token), self.amount)
        deposit = (_bytes(value) if isinstance(value, str) else value for value in self.deposit.values())
        return b"".join(word(value) for value in (*accounts, *deposit))

    @property
    def address(self) -> str:
        """The address of these terms (EIP-1014), whether its code is made or not."""
        creation = bytes.fromhex(ADDRESS_IMPLEMENTATION[2:].join(_PROXY))
        parts = (b"\xff", _bytes(DEPOSIT_ADDRESSES), keccak256(self.encoded), keccak256(creation))
        return "0x" + keccak256(b"".join(parts))[12:].hex()


@dataclass(frozen=True)
class CheckedAddress:
    """An address that was held against the payer's own order."""

    #: Where to send the money, in lower case.
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
    #: The transfer as a link for wallets and as the text of a QR code (EIP-681).
    uri: str
    #: Keep them: with them anyone can have sent back what comes too late, see `give_back_call`.
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


def give_back_call(terms: AddressTerms, token: str | None = None) -> tuple[str, bytes]:
    """Receiver and data of the call by which anyone has sent to the refund account what is at the address: all of `token`, or of
    the chain's coin by the zero address. Of the terms' own token that is possible once no deposit can be made any more: after
    `reserveDeadline`, or when the payment has been deposited."""
    return DEPOSIT_ADDRESSES, selector(GIVE_BACK) + terms.encoded + word(_bytes(terms.token if token is None else token))


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
    _insist("quote_request_id", own, batch["quote_request_id"])
    # A replay has the deadlines of the quote-request that was there before.
    quoted, fulfilled = batch["quote_deadline"], batch["fulfillment_deadline"]
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
    _insist("payment_id", terms.order.payment_id, payment["payment_id"])
    source = terms.order.source
    reference, token = token_of(source["asset_identifier"])
    shown = _object(payment.get("deposit_address"), "deposit_address")
    _insist("factory", DEPOSIT_ADDRESSES, shown.get("factory"))
    _insist("chain_id", terms.order.chain_id, shown.get("chain_id"))
    _insist("asset_identifier", source["asset_identifier"], shown.get("asset_identifier"))
    _insist("amount", terms.amount, shown.get("amount"))
    _insist("refund_account", source["account"], shown.get("refund_account"))
    their_terms = _object(shown.get("terms"), "terms")
    theirs = _object(their_terms.get("deposit"), "terms.deposit")
    waited, fulfilled = _time(shown.get("pay_by")), terms.fulfillment_deadline
    reserve_deadline = _within("reserve_deadline", theirs, int(waited.timestamp()), fulfilled)
    refund_after = _within("refund_after", theirs, fulfilled + 1, fulfilled + terms.refund_delay_seconds)
    deposit = deposit_of(terms, reserve_deadline, refund_after)
    own = AddressTerms(terms.escrow, token, terms.amount, deposit)
    for name in ("escrow", "token", "amount"):
        _insist(f"terms.{name}", getattr(own, name), their_terms.get(name))
    for name, value in (
        ("payment_id", deposit["paymentId"]),
        ("terms_hash", deposit["termsHash"]),
        ("quote_hash", deposit["quoteHash"]),
        ("payer", deposit["payer"]),
        ("reserver", deposit["reserver"]),
        ("releaser", deposit["releaser"]),
        ("fulfillment_deadline", deposit["fulfillmentDeadline"]),
    ):
        _insist(f"terms.deposit.{name}", value, theirs.get(name))
    address = own.address
    _insist("address", address, shown.get("address"))
    uri = f"ethereum:{token}@{reference}/transfer?address={address}&uint256={terms.amount}"
    _insist("uri", uri, shown.get("uri"))
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
    token_of(order.source["asset_identifier"])
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
    return Addressed(accepted["payment_id"], batch["quote_request_id"], order, address, accepted, caller_secret)


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


def _bytes(digits: str) -> bytes:
    return bytes.fromhex(digits.removeprefix("0x"))


def _insist(member: str, own: object, shown: object) -> None:
    """Raises `AddressMismatch` where the gateway says something else than was rebuilt. Addresses and hashes have no case."""
    expected = "0x" + own.hex() if isinstance(own, bytes) else str(own)
    if expected.lower() != str(shown).lower():
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
