"""Paying many orders with one signature. Each is a payment of its own from then on; what is of the batch is what the payer signs,
and that the bodies of many go in one."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from . import trust
from .errors import BatchMismatch, FaultyRequest, GatewayError, NoAnswer, NotSigned
from .flow import Flow, sleep
from .operations import POLL_SECONDS, Operations, refused
from .order import Order, unix
from .paying import GRACE_SECONDS
from .retry import is_repeated, pause
from .schemas import (
    ChainDefaults,
    PaymentBatchRequest,
    PaymentBatchResponse,
    PaymentResponse,
    PaymentStatusRead,
    PreparedPaymentBatch,
    PreparePaymentBatchRequest,
)
from .schemes import BY_BATCH
from .trust import BatchTerms, Limits, Pins
from .wallet import Sent, Wallet

#: Most payments of a batch.
PAYMENTS_MAX = 256
#: What no payment of a batch has: its originator is its payer, and the batch has one deadline.
_NOT_OF_ONE = frozenset(["sender_auth", "reserve_deadline", "originator_auth", "proof", "originator"])
#: What helps against these is what the payer has just sent, once the gateway's node sees it.
_UNFUNDED = ("INSUFFICIENT_ALLOWANCE", "INSUFFICIENT_FUNDS")


@dataclass(frozen=True)
class BatchPayment:
    """What came of one payment of a batch."""

    payment_id: str
    #: The order as it was sent, with its deadlines; as it was given where the payment was there before.
    order: Order
    #: The payment, where it was accepted, now or before. `Gateway.wait` tells how it ends.
    status: PaymentResponse | PaymentStatusRead | None = None
    #: Why it was refused, with the status that its code has alone. The others are accepted all the same.
    error: GatewayError | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether there is a payment."""
        return self.status is not None


@dataclass(frozen=True)
class PaymentBatch:
    """What came of a batch."""

    #: In the order in which they were asked for.
    payments: list[BatchPayment]
    #: The payer's own transactions before it, by their hashes.
    sent: Sent = field(default_factory=Sent)
    #: What was submitted. Whoever keeps it can submit it again at any time. `None` where all payments were there before.
    body: PaymentBatchRequest | None = None
    #: What it was signed for, as `Batch.of` of `gateway_client.evm` takes it. `None` as the body.
    terms: BatchTerms | None = None


class BatchPaying:
    """One payer's payment of many orders."""

    def __init__(
        self,
        operations: Operations,
        orders: Sequence[Order],
        wallet: Wallet,
        pins: Pins,
        limits: Limits,
        allowance: int | None = None,
        reserve_deadline: int | None = None,
    ) -> None:
        if not 1 <= len(orders) <= PAYMENTS_MAX:
            raise ValueError(f"a batch has 1 to {PAYMENTS_MAX} payments, not {len(orders)}")
        if wallet.family != "evm":
            raise ValueError(f"batches are paid on EVM chains, and not by the wallet of {wallet.account}")
        known: set[str] = set()
        for at, order in enumerate(orders):
            if fault := _fault(order, orders[0], wallet):
                raise ValueError(f"payments[{at}]: {fault}")
            if order.request_id in known:
                raise ValueError(f"payments[{at}]: another payment of the batch has the request_id {order.request_id}")
            known.add(order.request_id)
        self._operations = operations
        self._orders = orders
        self._wallet = wallet
        self._pins = pins
        self._limits = limits
        self._allowance = allowance
        self._reserve_deadline = reserve_deadline
        self._defaults: dict[str, ChainDefaults] = {}

    def pay(self, wrap: bool) -> Flow[PaymentBatch]:
        """Pays, and comes back when each payment is accepted or refused."""
        known = yield from self._accepted()
        missing = [order for order in self._orders if order.request_id not in known]
        if not missing:
            return PaymentBatch([known[order.request_id] for order in self._orders])
        yield from self._look(missing)
        terms, body = self._terms(missing)
        # What is not the payer's own, or what the gateway refuses, costs no transaction.
        prepared = yield from self._operations.prepare_batch(body)
        self._wallet.check_batch(terms, prepared)
        sent = yield from self._allow(terms, wrap)
        is_fresh = bool(sent.approvals or sent.wrapped)
        if is_fresh:
            # Allowances take the blocks that they take, so the time begins here.
            terms, body = self._terms(missing)
            prepared = yield from self._prepare_again(terms, body)
        signed = yield from self._wallet.signed_batch(terms, prepared)
        auth = {"message_scheme": BY_BATCH, "signed_messages": signed}
        submitted = cast(PaymentBatchRequest, {**body, "sender_auth": auth})
        for payment in (yield from self._submit(terms, submitted, is_fresh)):
            known[payment.order.request_id] = payment
        return PaymentBatch([known[order.request_id] for order in self._orders], sent, submitted, terms)

    def _accepted(self) -> Flow[dict[str, BatchPayment]]:
        """The payments that are there already, where the first is: a gateway accepts it before the others, so where it is missing
        an earlier try came to nothing."""
        found: dict[str, BatchPayment] = {}
        for order in self._orders:
            try:
                status = yield from self._operations.resolve(order.request_id, account=order.account)
                found[order.request_id] = BatchPayment(status["payment_id"], order, status)
            except FaultyRequest as fault:
                if fault.status != 404:
                    raise
                if not found:
                    break
        return found

    def _look(self, orders: Sequence[Order]) -> Flow[None]:
        """Looks at node and gateway before anything is sent."""
        for chain in dict.fromkeys(chain for order in orders for chain in order.chains):
            self._defaults[chain] = yield from self._operations.defaults(chain)
        chain_id = orders[0].chain_id
        yield from self._wallet.check_chain(chain_id, self._defaults[chain_id])

    def _terms(self, orders: Sequence[Order]) -> tuple[BatchTerms, PreparePaymentBatchRequest]:
        """All that is signed, and what is asked for, from now on."""
        now = time.time()
        payments = [trust.terms(order.timed(now), self._defaults, self._pins, self._limits) for order in orders]
        for at, terms in enumerate(payments):
            if terms.escrow.lower() != payments[0].escrow.lower():
                raise ValueError(f"payments[{at}]: a batch has one escrow, that of its first payment")
        latest = min(terms.fulfillment_deadline for terms in payments)
        reserve_deadline = latest if self._reserve_deadline is None else self._reserve_deadline
        if reserve_deadline > latest:
            raise ValueError(f"reserve_deadline is after the earliest fulfillment_deadline, {latest}")
        return BatchTerms(payments, reserve_deadline), batch_request([terms.order for terms in payments], reserve_deadline)

    def _allow(self, batch: BatchTerms, wrap: bool) -> Flow[Sent]:
        """The payer's own transactions, of each token for all payments together."""
        tokens: dict[str, trust.Terms] = {}
        for terms in batch.payments:
            asset = terms.order.source["asset_identifier"]
            drawn = tokens[asset].amount if asset in tokens else 0
            tokens[asset] = replace(terms, amount=drawn + terms.amount)
        if wrap and not any(map(self._wraps, tokens)):
            raise NotSigned(f"the gateway does not say that one of {', '.join(tokens)} wraps coins")
        for terms in tokens.values():
            if self._allowance is not None and self._allowance < terms.amount:
                raise ValueError(f"an allowance of {self._allowance} is less than may be drawn, {terms.amount}")
        sent = Sent()
        for asset, terms in tokens.items():
            one = yield from self._wallet.allow(terms, wrap and self._wraps(asset), allowance=self._allowance)
            sent = Sent([*sent.wrapped, *one.wrapped], [*sent.approvals, *one.approvals])
        return sent

    def _wraps(self, asset: str) -> bool:
        """Whether the gateway says of a token that it is the wrapped form of a coin: another might keep what it is sent."""
        assets = self._defaults[self._orders[0].chain_id]["assets"]
        return any(one["asset_identifier"] == asset and one.get("wraps") for one in assets)

    def _prepare_again(self, batch: BatchTerms, body: PreparePaymentBatchRequest) -> Flow[PreparedPaymentBatch]:
        """The gateway's node may be a block behind the payer's."""
        until = _quoted(batch)
        while True:
            try:
                return (yield from self._operations.prepare_batch(body))
            except GatewayError as fault:
                if fault.code not in _UNFUNDED or time.time() >= until:
                    raise
            yield from sleep(POLL_SECONDS)

    def _submit(self, batch: BatchTerms, body: PaymentBatchRequest, is_fresh: bool) -> Flow[list[BatchPayment]]:
        """What became of each payment. Where nothing is known of one, or it lacks what was just sent, the same body is submitted
        again, which finds the others as they are."""
        # By then every window has passed.
        last = max(terms.fulfillment_deadline + terms.refund_delay_seconds for terms in batch.payments) + GRACE_SECONDS
        payments: list[BatchPayment] | None = None
        attempt = 0
        while True:
            try:
                answer = yield from self._operations.submit_batch(body, max(last - time.time(), 0))
            except (GatewayError, NoAnswer) as fault:
                late = isinstance(fault, GatewayError) and fault.code in _UNFUNDED and is_fresh
                if late and time.time() < _quoted(batch):
                    yield from sleep(POLL_SECONDS)
                    continue
                if payments is None:
                    raise
                # What was answered before says more.
                return payments
            payments = _paid(batch, answer)
            errors = [payment.error for payment in payments if payment.error]
            is_unknown = any(is_repeated(error.status, error.retry_classification) for error in errors)
            is_late = is_fresh and any(error.code in _UNFUNDED for error in errors) and time.time() < _quoted(batch)
            seconds = pause(attempt, None)
            if not is_late and (not is_unknown or time.time() + seconds > last):
                return payments
            yield from sleep(seconds)
            attempt += 1


def _fault(order: Order, first: Order, wallet: Wallet) -> str | None:
    """Why an order cannot be one of a batch."""
    asset = order.source["asset_identifier"]
    if order.account != wallet.account:
        return f"the wallet is that of {wallet.account}, and {order.account} pays"
    if not asset.partition("/")[2].startswith("erc20:"):
        return f"{asset} is not an ERC-20"
    if order.chain_id != first.chain_id:
        return f"all payments of a batch are paid on one chain, {first.chain_id}"
    if order.max_source_amount is None:
        return "the order lacks max_source_amount: a payer says what it pays at most"
    if order.originator or (foreign := _NOT_OF_ONE & order.members.keys()):
        return f"{'originator' if order.originator else ', '.join(sorted(foreign))} is nothing of one payment of a batch"
    return None


def batch_request(orders: Sequence[Order], reserve_deadline: int) -> PreparePaymentBatchRequest:
    """The body of a batch, of orders with deadlines: what several have in common stands once, beside them, because bodies have a
    limit."""
    bodies: list[dict[str, Any]] = [dict(order.body()) for order in orders]
    shared: dict[str, Any] = {}
    for name in bodies[0]:
        # What one payment lacks it must not be given.
        if name != "request_id" and all(name in one for one in bodies):
            values = [one[name] for one in bodies]
            texts = Counter(json.dumps(value, sort_keys=True) for value in values)
            [(text, count)] = texts.most_common(1)
            if count > 1 or len(bodies) == 1:
                shared[name] = next(value for value in values if json.dumps(value, sort_keys=True) == text)
    payments = [{name: value for name, value in one.items() if name not in shared or shared[name] != value} for one in bodies]
    return cast(PreparePaymentBatchRequest, {**shared, "reserve_deadline": reserve_deadline, "payments": payments})


def _quoted(batch: BatchTerms) -> int:
    """When the first quotes are collected, UNIX seconds."""
    return min(unix(terms.order.quote_deadline) for terms in batch.payments)


def _paid(batch: BatchTerms, answer: PaymentBatchResponse) -> list[BatchPayment]:
    """The answer for each payment, which is about these payments."""
    shown: Sequence[object] = answer["payments"]
    if len(shown) != len(batch.payments):
        raise BatchMismatch("payments.length", str(len(batch.payments)), len(shown))
    payments = []
    for at, (terms, one) in enumerate(zip(batch.payments, shown, strict=True)):
        said: Mapping[str, Any] = one if isinstance(one, Mapping) else {}
        order, status, error = terms.order, said.get("payment"), said.get("error")
        for found in (said.get("payment_id"), *([status.get("payment_id")] if isinstance(status, Mapping) else [])):
            if found != order.payment_id:
                raise BatchMismatch(f"payments[{at}].payment_id", order.payment_id, found)
        if isinstance(status, Mapping):
            payments.append(BatchPayment(order.payment_id, order, cast(PaymentResponse, status)))
        else:
            body = error if isinstance(error, Mapping) else {"code": "OUTCOME_UNKNOWN", "message": "the gateway does not say"}
            payments.append(BatchPayment(order.payment_id, order, error=refused(body)))
    return payments
