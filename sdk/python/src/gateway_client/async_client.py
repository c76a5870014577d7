"""The gateway's client on an event loop. It runs the same flows as `Gateway`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
import httpx

from .batches import BatchPaying, PaymentBatch
from .client import NO_PINS, USER_AGENT, USUAL_LIMITS, prepared_body, quote_body, refused_stream
from .errors import GatewayError, NoAnswer
from .mandate_terms import MandateOrder
from .mandates import Charging, Granting, SignedMandate
from .operations import PATIENCE_SECONDS, Operations
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
from .transport import arguments, arun, unanswered
from .trust import Limits, Pins
from .wallet import Sent, Wallet

if TYPE_CHECKING:
    from .addresses import Addressed


class AsyncGateway:
    """As `Gateway`, on an event loop of asyncio or trio."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        self._operations = Operations(base_url, {"user-agent": USER_AGENT, **(headers or {})}, patience_seconds)
        self._own = httpx.AsyncClient() if client is None else None
        self._client = client or self._own or httpx.AsyncClient()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        if self._own:
            await self._own.aclose()

    async def defaults(self, chain_id: str) -> ChainDefaults:
        """See `Gateway.defaults`."""
        return await arun(self._operations.defaults(chain_id), self._client)

    async def all_defaults(self) -> Defaults:
        """See `Gateway.all_defaults`."""
        return await arun(self._operations.all_defaults(), self._client)

    async def quote(self, order: Order | QuoteRequest, *, caller_secret: str | None = None) -> QuoteRequestRead:
        """See `Gateway.quote`."""
        return await arun(self._operations.quote(quote_body(order), caller_secret), self._client)

    async def read_quotes(self, quote_request_id: str) -> QuoteRequestRead:
        """See `Gateway.read_quotes`."""
        return await arun(self._operations.read_quotes(quote_request_id), self._client)

    async def prepare(self, order: Order | PrepareRequest | PrepareAwardRequest) -> PreparedPayment:
        """See `Gateway.prepare`."""
        return await arun(self._operations.prepare(prepared_body(order)), self._client)

    async def verify(self, body: PaymentRequest) -> Verification:
        """See `Gateway.verify`."""
        return await arun(self._operations.verify(body), self._client)

    async def submit(self, body: PaymentRequest, *, hold_seconds: int | None = None) -> PaymentResponse:
        """See `Gateway.submit`."""
        return await arun(self._operations.submit(body, hold_seconds), self._client)

    async def prepare_batch(self, body: PreparePaymentBatchRequest) -> PreparedPaymentBatch:
        """See `Gateway.prepare_batch`."""
        return await arun(self._operations.prepare_batch(body), self._client)

    async def submit_batch(self, body: PaymentBatchRequest) -> PaymentBatchResponse:
        """See `Gateway.submit_batch`."""
        return await arun(self._operations.submit_batch(body), self._client)

    async def prepare_mandate(self, body: PrepareMandateRequest) -> PreparedMandate:
        """See `Gateway.prepare_mandate`."""
        return await arun(self._operations.prepare_mandate(body), self._client)

    async def award(self, quote_request_id: str, body: AwardRequest, *, hold_seconds: int | None = None) -> PaymentResponse:
        """See `Gateway.award`."""
        return await arun(self._operations.award(quote_request_id, body, hold_seconds), self._client)

    async def deposit_address(
        self, quote_request_id: str, body: DepositAddressRequest | None = None, *, caller_secret: str | None = None
    ) -> PaymentResponse:
        """See `Gateway.deposit_address`."""
        return await arun(self._operations.deposit_address(quote_request_id, body, caller_secret), self._client)

    async def open_address(
        self,
        order: Order,
        *,
        pins: Pins = NO_PINS,
        limits: Limits = USUAL_LIMITS,
        pay_by: datetime | None = None,
        caller_secret: str | None = None,
    ) -> Addressed:
        """See `Gateway.open_address`."""
        from .addresses import opening

        return await arun(opening(self._operations, order, pins, limits, pay_by, caller_secret), self._client)

    async def status(self, payment_id: str) -> PaymentStatusRead:
        """See `Gateway.status`."""
        return await arun(self._operations.status(payment_id), self._client)

    async def timeline(self, payment_id: str) -> PaymentTimeline:
        """See `Gateway.timeline`."""
        return await arun(self._operations.timeline(payment_id), self._client)

    async def resolve(self, request_id: str, *, account: str | None = None, originator: str | None = None) -> PaymentStatusRead:
        """See `Gateway.resolve`."""
        return await arun(self._operations.resolve(request_id, account, originator), self._client)

    async def wait(self, payment_id: str, *, seconds: float | None = None) -> PaymentStatusRead:
        """See `Gateway.wait`."""
        return await arun(self._operations.wait(payment_id, seconds), self._client)

    async def watch(self, payment_id: str, *, after: str | None = None) -> AsyncIterator[TimelineEntry]:
        """See `Gateway.watch`."""
        following = self._operations.follow(payment_id, after)
        while True:
            request = following.request()
            try:
                with unanswered(request):
                    async with self._client.stream(**arguments(request)) as response:
                        if response.status_code == 204:
                            return
                        if response.status_code != 200:
                            await response.aread()
                            raise refused_stream(response)
                        following.opened()
                        async for chunk in response.aiter_bytes():
                            for entry in following.read(chunk):
                                yield entry
                seconds = following.ended()
            except (GatewayError, NoAnswer) as fault:
                seconds = following.failed(fault)
            await anyio.sleep(seconds)

    async def pay(
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
        """See `Gateway.pay`. Signatures are made in a thread."""
        paying = Paying(self._operations, order, wallet, pins, limits, choice, message_scheme, allowance)
        return await arun(paying.pay(wrap, wait_seconds), self._client)

    async def pay_batch(
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
        """See `Gateway.pay_batch`. The signature is made in a thread."""
        paying = BatchPaying(self._operations, orders, wallet, pins, limits, allowance, reserve_deadline)
        return await arun(paying.pay(wrap), self._client)

    async def sign_mandate(
        self,
        order: MandateOrder,
        wallet: Wallet,
        *,
        pins: Pins = NO_PINS,
        limits: Limits = USUAL_LIMITS,
        approve: bool = True,
        allowance: int | None = None,
    ) -> SignedMandate:
        """See `Gateway.sign_mandate`. The signature is made in a thread."""
        granting = Granting(self._operations, order, wallet, pins, limits, allowance)
        return await arun(granting.sign(approve), self._client)

    async def charge(
        self,
        order: Order,
        payload: Mapping[str, Any],
        wallet: Wallet,
        *,
        pins: Pins = NO_PINS,
        limits: Limits = USUAL_LIMITS,
        wait_seconds: float | None = None,
    ) -> Payment:
        """See `Gateway.charge`. The signature is made in a thread."""
        charging = Charging(self._operations, order, payload, wallet, pins, limits)
        return await arun(charging.charge(wait_seconds), self._client)

    async def allow(
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
        """See `Gateway.allow`."""
        paying = Paying(self._operations, order, wallet, pins, limits, None, message_scheme, allowance)
        return await arun(paying.allow(wrap), self._client)
