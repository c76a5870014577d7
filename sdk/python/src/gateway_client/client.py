"""The gateway's client, `Gateway`. On an event loop it is `AsyncGateway`, of `async_client`; both run the same flows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx

from .batches import BatchPaying, PaymentBatch
from .errors import GatewayError, NoAnswer
from .flow import Answer
from .mandate_terms import MandateOrder
from .mandates import Charging, Granting, SignedMandate
from .operations import PATIENCE_SECONDS, Operations, refusal
from .order import Order
from .paying import Choice, Paying, Payment
from .schemas import (
    AwardRequest,
    ChainDefaults,
    Defaults,
    DepositAddressRequest,
    PaymentBatchRequest,
    PaymentBatchResponse,
    PaymentRequest,
    PaymentResponse,
    PaymentStatusRead,
    PaymentTimeline,
    PrepareAwardRequest,
    PreparedMandate,
    PreparedPayment,
    PreparedPaymentBatch,
    PrepareMandateRequest,
    PreparePaymentBatchRequest,
    PrepareRequest,
    QuoteRequest,
    QuoteRequestRead,
    TimelineEntry,
    Verification,
)
from .transport import arguments, run, unanswered
from .trust import Limits, Pins
from .wallet import Sent, Wallet

if TYPE_CHECKING:
    from .addresses import Addressed

USER_AGENT = "gateway-client-python/0.1.0"
NO_PINS = Pins()
USUAL_LIMITS = Limits()


class Gateway:
    """A gateway at `base_url`.

    A call whose outcome is not known, or that may be repeated, is sent again unchanged for `patience_seconds`; see
    `gateway_client.retry`. Errors are in `gateway_client.errors`. It may be used by one thread at a time.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        client: httpx.Client | None = None,
    ) -> None:
        """`client` is used where it is given, for proxies, certificates and the like, and is not closed."""
        self._operations = Operations(base_url, {"user-agent": USER_AGENT, **(headers or {})}, patience_seconds)
        self._own = httpx.Client() if client is None else None
        self._client = client or self._own or httpx.Client()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        if self._own:
            self._own.close()

    def defaults(self, chain_id: str) -> ChainDefaults:
        """What the gateway uses on a chain (CAIP-2): contracts, accounts, assets, windows."""
        return run(self._operations.defaults(chain_id), self._client)

    def all_defaults(self) -> Defaults:
        """The same of every chain that is served."""
        return run(self._operations.all_defaults(), self._client)

    def quote(self, order: Order | QuoteRequest, *, caller_secret: str | None = None) -> QuoteRequestRead:
        """Asks for quotes, and waits until they are collected. They cost nothing and authorize nothing.

        Who guesses your `request_id` could open it first, unless you prove a DID or send a `caller_secret` of your own.
        """
        return run(self._operations.quote(quote_body(order), caller_secret), self._client)

    def read_quotes(self, quote_request_id: str) -> QuoteRequestRead:
        """A quote-request as it stands."""
        return run(self._operations.read_quotes(quote_request_id), self._client)

    def prepare(self, order: Order | PrepareRequest | PrepareAwardRequest) -> PreparedPayment:
        """What has to be signed, as the gateway says. `pay` rebuilds it before it signs."""
        return run(self._operations.prepare(prepared_body(order)), self._client)

    def verify(self, body: PaymentRequest) -> Verification:
        """All checks of a submission; nothing is accepted."""
        return run(self._operations.verify(body), self._client)

    def submit(self, body: PaymentRequest, *, hold_seconds: int | None = None) -> PaymentResponse:
        """Submits a signed payment. The gateway holds the call for its outcome, for `hold_seconds` or half a minute."""
        return run(self._operations.submit(body, hold_seconds), self._client)

    def prepare_batch(self, body: PreparePaymentBatchRequest) -> PreparedPaymentBatch:
        """What has to be signed for a batch of payments, as the gateway says. `pay_batch` rebuilds it before it signs."""
        return run(self._operations.prepare_batch(body), self._client)

    def submit_batch(self, body: PaymentBatchRequest) -> PaymentBatchResponse:
        """Submits a signed batch, of which each payment is accepted or refused by itself. Nobody waits for their outcomes."""
        return run(self._operations.submit_batch(body), self._client)

    def prepare_mandate(self, body: PrepareMandateRequest) -> PreparedMandate:
        """What has to be signed for a mandate, as the gateway says. `sign_mandate` rebuilds it before it signs."""
        return run(self._operations.prepare_mandate(body), self._client)

    def award(self, quote_request_id: str, body: AwardRequest, *, hold_seconds: int | None = None) -> PaymentResponse:
        """Takes a quote."""
        return run(self._operations.award(quote_request_id, body, hold_seconds), self._client)

    def deposit_address(
        self, quote_request_id: str, body: DepositAddressRequest | None = None, *, caller_secret: str | None = None
    ) -> PaymentResponse:
        """Asks for the deposit address of a quote-request, which makes a payment that nobody signs for. What comes back is the
        gateway's word: `open_address` compares it.

        :param caller_secret: that with which the quote-request was opened; without it the gateway refuses, `INVALID_PROOF`.
        """
        return run(self._operations.deposit_address(quote_request_id, body, caller_secret), self._client)

    def open_address(
        self,
        order: Order,
        *,
        pins: Pins = NO_PINS,
        limits: Limits = USUAL_LIMITS,
        pay_by: datetime | None = None,
        caller_secret: str | None = None,
    ) -> Addressed:
        """Opens a payment by deposit address, from a token on an EVM chain, Solana or Tron: a quote-request, its address, and
        the comparison with what the order, the pins and the contract's code lead to. Nothing is signed and nothing sent; once
        `address.amount` is at the address the payment goes on by itself, as `wait` and `watch` tell.

        The order's source account is the refund account: one of the payer's own that can receive the token, never one of an
        exchange; on Solana its associated token account has to be there already. An order without a deadline has an hour. Under
        one `request_id`, and one `caller_secret`, it is one payment with one address: keep both before the call.

        Raises `NotSigned` where the address is not the order's, of which `AddressMismatch` names the member; and `StaleAddress`
        where it is, but was given before, and nothing may be sent there any more.

        :param pay_by: up to when the money is waited for; the gateway leaves time for the delivery where it is absent. A retry
            has to name the same.
        :param caller_secret: of `new_caller_secret`. Without it whoever knows `request_id` and account, as settlers do the
            quote-request, can ask first, for another `pay_by`: then this order's address is stale, and never one of somebody
            else. None is made where it is absent, because it is part of the payment's id: a retry after a crash that lost it
            would be another payment, with another address.
        """
        from .addresses import opening

        return run(opening(self._operations, order, pins, limits, pay_by, caller_secret), self._client)

    def status(self, payment_id: str) -> PaymentStatusRead:
        """How a payment stands."""
        return run(self._operations.status(payment_id), self._client)

    def timeline(self, payment_id: str) -> PaymentTimeline:
        """Everything that happened to a payment."""
        return run(self._operations.timeline(payment_id), self._client)

    def resolve(self, request_id: str, *, account: str | None = None, originator: str | None = None) -> PaymentStatusRead:
        """The payment of a `request_id`, by the account that pays or the DID that asked."""
        return run(self._operations.resolve(request_id, account, originator), self._client)

    def wait(self, payment_id: str, *, seconds: float | None = None) -> PaymentStatusRead:
        """Waits until a payment has ended; `StillPending` where it has not in so many seconds."""
        return run(self._operations.wait(payment_id, seconds), self._client)

    def watch(self, payment_id: str, *, after: str | None = None) -> Iterator[TimelineEntry]:
        """What happened to a payment, and what happens, until nothing more will. A connection that breaks is made again, and goes
        on where it was. `after` is the `id` of the last entry that is known already."""
        following = self._operations.follow(payment_id, after)
        while True:
            request = following.request()
            try:
                with unanswered(request), self._client.stream(**arguments(request)) as response:
                    if response.status_code == 204:
                        return
                    if response.status_code != 200:
                        response.read()
                        raise refused_stream(response)
                    following.opened()
                    for chunk in response.iter_bytes():
                        yield from following.read(chunk)
                seconds = following.ended()
            except (GatewayError, NoAnswer) as fault:
                seconds = following.failed(fault)
            time.sleep(seconds)

    def pay(
        self,
        order: Order,
        wallet: Wallet,
        *,
        pins: Pins = NO_PINS,
        limits: Limits = USUAL_LIMITS,
        choice: Choice | None = None,
        wrap: bool = False,
        message_scheme: str | None = None,
        allowance: int | None = None,
        wait_seconds: float | None = None,
    ) -> Payment:
        """Pays an order: gives the allowance that is missing, asks what to sign, rebuilds it from the order, signs, submits, and
        waits for the outcome.

        A payment that failed is returned and not raised: look at `Payment.is_completed`. Whatever is raised, under the same
        `request_id` the same order can be paid again: it is one payment.

        :param pins: the accounts that the payer knows by itself; without them the gateway's word is believed.
        :param limits: how long money may be locked, and what the payer's own transactions may cost.
        :param choice: a quote of `quote` that is taken; without it the gateway takes the best.
        :param wrap: whether coins are wrapped for what is missing of the token, where that is a coin's wrapped form.
        :param message_scheme: the scheme to sign by, one of the chain's `message_schemes`; the gateway's choice where it is
            absent. On Tron that is `TRON_PERMIT2_ESCROW` where Permit2 has its allowance: one signature, and neither a
            transaction nor TRX. By its name it is taken where Permit2 has none yet, too: the wallet gives it first, by a
            transaction that burns TRX. Where payer and gateway do not know the same Permit2 it is `TRON`, and naming the other
            raises `NotSigned`.
        :param allowance: how much the wallet allows to be drawn where its allowance is too small and a transaction has to give
            it; what may be drawn for this order where it is absent. On Tron it is Permit2's, and a `ValueError` where
            `message_scheme` does not name that.
        :param wait_seconds: `StillPending` is raised where the payment has not ended by then; it goes on.
        """
        paying = Paying(self._operations, order, wallet, pins, limits, choice, message_scheme, allowance)
        return run(paying.pay(wrap, wait_seconds), self._client)

    def pay_batch(
        self,
        orders: Sequence[Order],
        wallet: Wallet,
        *,
        pins: Pins = NO_PINS,
        limits: Limits = USUAL_LIMITS,
        wrap: bool = False,
        allowance: int | None = None,
        reserve_deadline: int | None = None,
    ) -> PaymentBatch:
        """Pays up to 256 orders from one account on an EVM chain with one signature: asks what to sign, rebuilds it from the
        orders, gives the allowances that are missing, signs, and submits. It comes back when each payment is accepted or
        refused, in the order of `orders`; from then on they are payments as any other, and `wait` and `watch` tell of each by
        its id. What is drawn is the sum of `max_source_amount` of each token, once, and what a payment leaves of its part
        comes back.

        Whatever is raised, the same orders can be paid again under their `request_id`s: what was accepted is found, and the
        others are paid.

        Raises `NotSigned` where the gateway asks for something else than the orders, of which `BatchMismatch` names the member.

        :param allowance: how much Permit2 is allowed to draw of each token where its allowance is too small; the sum where it
            is absent.
        :param reserve_deadline: up to when payments are deposited, UNIX seconds; the earliest of their fulfillment deadlines,
            and no later, where it is absent. From then on what was drawn and not deposited goes back.
        """
        paying = BatchPaying(self._operations, orders, wallet, pins, limits, allowance, reserve_deadline)
        return run(paying.pay(wrap), self._client)

    def sign_mandate(
        self,
        order: MandateOrder,
        wallet: Wallet,
        *,
        pins: Pins = NO_PINS,
        limits: Limits = USUAL_LIMITS,
        approve: bool = True,
        allowance: int | None = None,
    ) -> SignedMandate:
        """Signs a mandate: up to `order.amount` in each period may be drawn from the wallet's account on an EVM chain, for
        payments that `order.merchant` signs for, each delivered to `order.destination` or refunded. Asks the gateway what to
        sign, rebuilds it from the order and a salt that it draws at random, gives the allowance that is missing, and signs once.

        Nothing is kept anywhere: give `payload` of what comes back to the merchant, and keep `cancel`, by which it is ended.
        **Each call makes a mandate of its own**, by which as much can be drawn again.

        Raises `NotSigned` where the gateway asks for something else than the order, of which `MandateMismatch` names the member;
        `LimitExceeded` where its `lock_seconds` are more than `limits` allow; `ValueError` where no payment could be made by it.

        :param approve: whether the token's allowance for Permit2 is given by a transaction, where it is too small. Otherwise
            nothing is sent, and `approvals` of what comes back are the calls that are to be sent before the first payment.
        :param allowance: how much Permit2 is allowed to draw of the token where its allowance is too small, at least the amount
            of a period; that of all periods together where it is absent.
        """
        granting = Granting(self._operations, order, wallet, pins, limits, allowance)
        return run(granting.sign(approve), self._client)

    def charge(
        self,
        order: Order,
        payload: Mapping[str, Any],
        wallet: Wallet,
        *,
        pins: Pins = NO_PINS,
        limits: Limits = USUAL_LIMITS,
        wait_seconds: float | None = None,
    ) -> Payment:
        """Asks for a payment under a mandate, as its merchant: the wallet is that of `payload["mandate"]["merchant"]`, and
        `order.source` names the payer. Asks what to sign, rebuilds it from the order and the mandate, signs, submits, and waits
        for the outcome. All of `max_source_amount` is drawn, and what it does not cost goes back to the payer. No node is asked.

        A payment that failed is returned and not raised. Whatever is raised, under the same `request_id` the same order can be
        charged again: it is one payment.

        Raises `NotSigned` where the gateway asks for something else than the order, of which `MandateMismatch` names the member;
        `GatewayError` of the code `INSUFFICIENT_ALLOWANCE` where the period is full, and
        `NONCE_ALREADY_USED` where the mandate was ended;
        `ValueError` where the mandate allows no such payment.

        :param payload: `SignedMandate.payload`, as the payer gave it.
        :param pins: the accounts that the merchant knows by itself. They are those of the mandate, or its address is another.
        :param wait_seconds: `StillPending` is raised where the payment has not ended by then; it goes on.
        """
        charging = Charging(self._operations, order, payload, wallet, pins, limits)
        return run(charging.charge(wait_seconds), self._client)

    def allow(
        self,
        order: Order,
        wallet: Wallet,
        *,
        pins: Pins = NO_PINS,
        limits: Limits = USUAL_LIMITS,
        wrap: bool = False,
        message_scheme: str | None = None,
        allowance: int | None = None,
    ) -> Sent:
        """The payer's own transactions of `pay` alone, for an allowance before quotes are asked for."""
        paying = Paying(self._operations, order, wallet, pins, limits, None, message_scheme, allowance)
        return run(paying.allow(wrap), self._client)


def prepared_body(order: Order | PrepareRequest | PrepareAwardRequest) -> PrepareRequest | PrepareAwardRequest:
    """The body of `prepare`."""
    return order.body() if isinstance(order, Order) else order


def quote_body(order: Order | QuoteRequest) -> QuoteRequest:
    """The body of `quote`."""
    return order.timed().quote_body() if isinstance(order, Order) else order


def refused_stream(response: httpx.Response) -> GatewayError | NoAnswer:
    """What the answer says instead of live events."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    answer = Answer(response.status_code, headers, response.content)
    return refusal(answer, answer.json())
