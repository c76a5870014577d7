"""Mandates: what a payer signs once, and what its merchant signs for each payment. The gateway keeps no mandate: the merchant
does, and shows it with each payment. Each payment is one as any other."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httpx

from . import trust
from .errors import GatewayError, LimitExceeded, MandateMismatch, NotSigned
from .flow import Flow
from .mandate_terms import MandateOrder, MandatePayload, MandateTerms, fixed, read_payload
from .operations import Operations, has_ended
from .order import Order
from .paying import GRACE_SECONDS, Payment, submission
from .schemas import ChainDefaults, PaymentResponse, PaymentStatusRead, PreparedPayment, PrepareRequest
from .schemes import BY_MANDATE
from .transport import arun, run
from .trust import Limits, Pins
from .wallet import Call, Sent, Wallet

_ELSEWHERE = "mandates are for EVM chains, and not for the wallet of"
#: What a chain's clock may be behind the gateway's, seconds: by it the time is counted for which a payment is held.
_CLOCK_BEHIND = 60
#: What `charge` says itself.
_NOT_OF_ORDER = frozenset(["message_scheme", "payload", "sender_auth"])


@dataclass(frozen=True)
class SignedMandate:
    """A mandate that its payer has signed. Whoever has `payload` and the merchant's key can have so much drawn, and no more."""

    #: For the merchant, who shows it with each payment.
    payload: MandatePayload
    #: The address that commits to all of it, to which the allowance at Permit2 is given.
    address: str
    #: How it is ended for ever: the payer's, or the merchant's, own call. Keep it: `cancel_mandate` sends it.
    cancel: Call
    #: The call by which a payer that is a contract gives the allowance at Permit2 itself: then it needs no `permit`.
    allow: Call
    #: What it was signed for, as `Mandate.of` of `gateway_client.evm` takes it.
    terms: MandateTerms
    #: The payer's own transactions before it, by their hashes.
    sent: Sent = field(default_factory=Sent)
    #: Calls that the payer has to send, in this order, before the first payment: the token's allowance for Permit2, where it is
    #: too small and was not given by transactions that are `sent`.
    approvals: Sequence[Call] = ()


class Granting:
    """One payer's mandate."""

    def __init__(
        self,
        operations: Operations,
        order: MandateOrder,
        wallet: Wallet,
        pins: Pins,
        limits: Limits,
        allowance: int | None = None,
    ) -> None:
        if wallet.family != "evm":
            raise ValueError(f"{_ELSEWHERE} {wallet.account}")
        if order.account != wallet.account:
            raise ValueError(f"the wallet is that of {wallet.account}, and {order.account} pays")
        if allowance is not None and allowance < order.amount:
            raise ValueError(f"an allowance of {allowance} is less than may be drawn in a period, {order.amount}")
        self._operations = operations
        self._order = order
        self._wallet = wallet
        self._pins = pins
        self._limits = limits
        self._allowance = allowance

    def sign(self, approve: bool) -> Flow[SignedMandate]:
        """Signs, after the allowance that is missing is given, where it is to `approve`."""
        payment = self._order.payment
        defaults: dict[str, ChainDefaults] = {}
        for chain in payment.chains:
            defaults[chain] = yield from self._operations.defaults(chain)
        yield from self._wallet.check_chain(payment.chain_id, defaults[payment.chain_id])
        terms = self._terms(defaults)
        # What is not the payer's own, or what the gateway refuses, costs no transaction.
        prepared = yield from self._operations.prepare_mandate(terms.request())
        self._wallet.check_mandate(terms, prepared)
        needed = terms.order.all if self._allowance is None else min(terms.order.all, self._allowance)
        allowed = replace(terms.payment, amount=needed)
        sent, approvals = Sent(), list[Call]()
        if approve:
            sent = yield from self._wallet.allow(allowed, False, allowance=self._allowance)
        else:
            approvals = yield from self._wallet.approval_calls(allowed, self._allowance)
        permit = yield from self._wallet.signed_mandate(terms, prepared)
        from .evm.mandates import Mandate, allow_mandate_call, cancel_mandate_call, sent_by_wallets

        mandate, signed = Mandate.of(terms), replace(terms, permit=permit)
        cancel = sent_by_wallets(*cancel_mandate_call(mandate))
        allow = sent_by_wallets(*allow_mandate_call(mandate, terms.payment.known_permit2()))
        return SignedMandate(signed.payload, mandate.address, cancel, allow, signed, sent, approvals)

    def _terms(self, defaults: Mapping[str, ChainDefaults]) -> MandateTerms:
        """All that is signed. The salt is drawn when all else is settled: who knew it before could look for two mandates of one
        address, of which the payer signs one."""
        now = time.time()
        order = fixed(self._order, now, self._limits.lock_seconds)
        lock_seconds = order.lock_seconds or 0
        if lock_seconds > self._limits.lock_seconds:
            message = f"a payment could be locked for {lock_seconds} s, and {self._limits.lock_seconds} s are allowed"
            raise LimitExceeded(message, "lock_seconds", lock_seconds, self._limits.lock_seconds)
        payment = trust.terms(order.payment.timed(now), defaults, self._pins, self._limits)
        least = payment.refund_delay_seconds + _CLOCK_BEHIND
        if lock_seconds <= least:
            raise ValueError(f"no payment is refunded in {lock_seconds} s: lock_seconds must be more than {least}")
        return MandateTerms(order, payment, secrets.token_bytes(32))


class Charging:
    """One payment that a merchant asks for under a mandate."""

    def __init__(
        self, operations: Operations, order: Order, payload: Mapping[str, Any], wallet: Wallet, pins: Pins, limits: Limits
    ) -> None:
        if wallet.family != "evm":
            raise ValueError(f"{_ELSEWHERE} {wallet.account}")
        if order.max_source_amount is None:
            raise ValueError("the order lacks max_source_amount: all of it is drawn, and what is over goes back to the payer")
        if clash := _NOT_OF_ORDER & order.members.keys():
            raise ValueError(f"{', '.join(sorted(clash))} is not for the order to say under a mandate")
        mandate, *_ = read_payload(order, payload)
        if mandate.merchant != wallet.account:
            raise ValueError(f"the wallet is that of {wallet.account}, and {mandate.merchant} is the mandate's merchant")
        if order.max_source_amount > mandate.amount:
            rule = f"more than the mandate allows in a period, {mandate.amount}"
            raise ValueError(f"max_source_amount is {order.max_source_amount}, {rule}")
        if not mandate.delivers_enough(order.amount, order.max_source_amount):
            rule = f"at least {mandate.least} for {mandate.amount}, and so in proportion"
            raise ValueError(f"{order.amount} is less for {order.max_source_amount} than the mandate says: {rule}")
        self._operations = operations
        self._order = order
        self._payload = payload
        self._wallet = wallet
        self._pins = pins
        self._limits = limits

    def charge(self, seconds: float | None) -> Flow[Payment]:
        """Asks for the payment, and waits for the outcome for so many seconds; without them until it is there."""
        defaults: dict[str, ChainDefaults] = {}
        for chain in self._order.chains:
            defaults[chain] = yield from self._operations.defaults(chain)
        order = self._order.timed()
        terms = trust.terms(order, defaults, self._pins, self._limits)
        mandate = MandateTerms.of(terms, self._payload)
        signed = yield from self._wallet.signed_charge(mandate, (yield from self._prepared(mandate)))
        # By then every window has passed.
        last = terms.fulfillment_deadline + terms.refund_delay_seconds + GRACE_SECONDS
        body = submission(order, signed, BY_MANDATE)
        submitted = yield from self._operations.submit(body, seconds=max(last - time.time(), 0))
        if submitted["payment_id"] != order.payment_id:
            raise MandateMismatch("payment_id", order.payment_id, submitted["payment_id"])
        status: PaymentStatusRead | PaymentResponse = submitted
        if not has_ended(submitted):
            status = yield from self._operations.wait(order.payment_id, last - time.time() if seconds is None else seconds)
        return Payment(order.payment_id, order, status, submitted.get("idempotent_replay") is True, Sent())

    def _prepared(self, mandate: MandateTerms) -> Flow[PreparedPayment | None]:
        """What the gateway asks to be signed; `None` where it refuses to because the payment is there already, which may itself
        have filled its period. What is submitted then the gateway compares with that: whoever else the payer lets ask for
        payments could have taken the `request_id`, for a payment to itself, so that an id alone says nothing to a merchant."""
        order = mandate.payment.order
        asked = {**order.body(), "message_scheme": BY_MANDATE, "payload": mandate.payload}
        try:
            return (yield from self._operations.prepare(cast(PrepareRequest, asked)))
        except GatewayError as fault:
            if fault.payment_id != order.payment_id:
                raise
            return None


USUAL_LIMITS = Limits()


def cancel_mandate(wallet: Wallet, cancel: Call, *, limits: Limits = USUAL_LIMITS) -> str:
    """Sends the call that ends a mandate for ever, `SignedMandate.cancel` as it was kept, and waits until it has had its effect.
    Returns the transaction's hash. No gateway is asked, only the wallet's node. The wallet is the payer's or the merchant's.

    Raises `NotSigned` where it is another call, `LimitExceeded` and `NodeError`.
    """
    with httpx.Client() as client:
        return run(_cancelling(wallet, cancel, limits), client)


async def async_cancel_mandate(wallet: Wallet, cancel: Call, *, limits: Limits = USUAL_LIMITS) -> str:
    """As `cancel_mandate`, on an event loop."""
    async with httpx.AsyncClient() as client:
        return await arun(_cancelling(wallet, cancel, limits), client)


def _cancelling(wallet: Wallet, cancel: Call, limits: Limits) -> Flow[str]:
    if wallet.family != "evm":
        raise ValueError(f"{_ELSEWHERE} {wallet.account}")
    from .evm.mandates import is_cancellation

    if not is_cancellation(cancel):
        raise NotSigned("the call does not end a mandate")
    return (yield from wallet.send_call(cancel, limits))
