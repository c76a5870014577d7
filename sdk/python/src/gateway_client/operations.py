"""Operations of the gateway, each a flow: what is asked, and how often. `retry` has the rules."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote as escaped

from .codes import CODES
from .errors import GatewayError, NoAnswer, StillPending
from .events import Following
from .flow import Answer, Flow, Request, post_json, send, sleep
from .retry import is_outcome_unknown, is_repeated, pause, retry_after
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
    Verification,
)

#: How long a call is repeated where its caller does not say.
PATIENCE_SECONDS = 60.0
#: Pauses between two reads of a status.
POLL_SECONDS, POLL_SECONDS_MAX = 0.25, 2.0
#: Payments whose position is remembered.
POSITIONS_MAX = 1024
#: What an answer has at least: texts, but for those that are named with their type.
_KINDS: dict[str, type] = {
    "chains": dict,
    "signed_messages": list,
    "entries": list,
    "assets": list,
    "deposit_address": dict,
    "payments": list,
    "mandate": dict,
    "permit": dict,
    "reserve_deadline": int,
}
_DEFAULTS = ("family", "escrow_contract_address", "reserver", "releaser", "assets")
_BATCH = ("quote_request_id", "status", "quote_deadline", "fulfillment_deadline")
_PAYMENT = ("payment_id", "status")
#: Members that a message may begin with.
_FIELDS = frozenset(
    PaymentRequest.__annotations__.keys()
    | AwardRequest.__annotations__.keys()
    | PrepareRequest.__annotations__.keys()
    | DepositAddressRequest.__annotations__.keys()
    | PaymentBatchRequest.__annotations__.keys()
    | PrepareMandateRequest.__annotations__.keys()
) | {"payload", "account", "chain_id", "signed_messages", "message", "message_prehash", "signature"}


class Operations:
    """The gateway at one address. It keeps nothing but the positions of reads, by which they do not go back."""

    def __init__(self, base_url: str, headers: Mapping[str, str], patience_seconds: float) -> None:
        self.base_url = base_url.rstrip("/")
        self._headers = dict(headers)
        self.patience_seconds = patience_seconds
        self._positions: OrderedDict[str, str] = OrderedDict()

    def defaults(self, chain_id: str) -> Flow[ChainDefaults]:
        """What the gateway uses on a chain."""
        request = self._get("/v1/defaults", {"chain_id": chain_id})
        return cast(ChainDefaults, (yield from self._ask(request, *_DEFAULTS)))

    def all_defaults(self) -> Flow[Defaults]:
        """What the gateway uses on each chain."""
        return cast(Defaults, (yield from self._ask(self._get("/v1/defaults"), "chains")))

    def quote(
        self, body: QuoteRequest, caller_secret: str | None = None, seconds: float | None = None, waits: bool = True
    ) -> Flow[QuoteRequestRead]:
        """Opens a quote-request, and waits until its quotes are collected, where it `waits`."""
        query = {"wait": "true"} if waits else None
        request = self._post("/v1/payments/quote-requests", body, _secret(caller_secret), query)
        until = self._until(seconds)
        batch = cast(QuoteRequestRead, (yield from self._ask(request, *_BATCH, until=until)))
        while waits and batch["status"] == "collecting":
            if time.monotonic() >= until:
                raise StillPending(f"{batch['quote_request_id']} still collects quotes")
            yield from sleep(POLL_SECONDS)
            batch = yield from self.read_quotes(batch["quote_request_id"])
        return batch

    def read_quotes(self, quote_request_id: str) -> Flow[QuoteRequestRead]:
        """A quote-request as it stands."""
        request = self._get(f"/v1/payments/quote-requests/{escaped(quote_request_id, '')}")
        return cast(QuoteRequestRead, (yield from self._ask(request, *_BATCH)))

    def prepare(self, body: PrepareRequest | PrepareAwardRequest) -> Flow[PreparedPayment]:
        """What has to be signed."""
        request = self._post("/v1/payments/prepare", body)
        return cast(PreparedPayment, (yield from self._ask(request, "payment_id", "message_scheme", "signed_messages")))

    def verify(self, body: PaymentRequest) -> Flow[Verification]:
        """All checks of a submission; nothing is accepted."""
        return cast(Verification, (yield from self._ask(self._post("/v1/payments/verify", body), "payment_id")))

    def submit(
        self, body: PaymentRequest, hold_seconds: int | None = None, seconds: float | None = None
    ) -> Flow[PaymentResponse]:
        """Submits a signed payment, and holds for its outcome for half a minute at most."""
        return (yield from self._make("/v1/payments", body, hold_seconds, seconds))

    def award(
        self, quote_request_id: str, body: AwardRequest, hold_seconds: int | None = None, seconds: float | None = None
    ) -> Flow[PaymentResponse]:
        """Takes a quote."""
        path = f"/v1/payments/quote-requests/{escaped(quote_request_id, '')}/award"
        return (yield from self._make(path, body, hold_seconds, seconds))

    def deposit_address(
        self,
        quote_request_id: str,
        body: DepositAddressRequest | None = None,
        caller_secret: str | None = None,
        seconds: float | None = None,
    ) -> Flow[PaymentResponse]:
        """Asks for the deposit address of a quote-request."""
        path = f"/v1/payments/quote-requests/{escaped(quote_request_id, '')}/address"
        request = self._post(path, body or {}, _secret(caller_secret))
        return cast(PaymentResponse, (yield from self._ask(request, *_PAYMENT, "deposit_address", until=self._until(seconds))))

    def prepare_batch(self, body: PreparePaymentBatchRequest) -> Flow[PreparedPaymentBatch]:
        """What has to be signed for a batch of payments."""
        members = ("message_scheme", "signed_messages", "reserve_deadline", "payments")
        request = self._post("/v1/payments/batches/prepare", body)
        return cast(PreparedPaymentBatch, (yield from self._ask(request, *members)))

    def submit_batch(self, body: PaymentBatchRequest, seconds: float | None = None) -> Flow[PaymentBatchResponse]:
        """Submits a signed batch, of which each payment is accepted or refused by itself."""
        request = self._post("/v1/payments/batches", body)
        return cast(PaymentBatchResponse, (yield from self._ask(request, "payments", until=self._until(seconds))))

    def prepare_mandate(self, body: PrepareMandateRequest) -> Flow[PreparedMandate]:
        """What has to be signed for a mandate."""
        members = ("message_scheme", "mandate", "address", "contract", "permit")
        request = self._post("/v1/payments/mandates/prepare", body)
        return cast(PreparedMandate, (yield from self._ask(request, *members)))

    def status(self, payment_id: str) -> Flow[PaymentStatusRead]:
        """How a payment stands."""
        request = self._get(f"/v1/payments/{escaped(payment_id, '')}/status", headers=self._position(payment_id))
        return cast(PaymentStatusRead, (yield from self._ask(request, *_PAYMENT)))

    def timeline(self, payment_id: str) -> Flow[PaymentTimeline]:
        """Everything that happened to a payment."""
        request = self._get(f"/v1/payments/{escaped(payment_id, '')}/timeline")
        return cast(PaymentTimeline, (yield from self._ask(request, *_PAYMENT, "entries")))

    def resolve(self, request_id: str, account: str | None = None, originator: str | None = None) -> Flow[PaymentStatusRead]:
        """The payment of a `request_id`, by the account that pays or the DID that asked."""
        query = {"request_id": request_id}
        query |= {"account": account} if account else {}
        query |= {"originator": originator} if originator else {}
        return cast(PaymentStatusRead, (yield from self._ask(self._get("/v1/payments/resolve", query), *_PAYMENT)))

    def wait(self, payment_id: str, seconds: float | None = None) -> Flow[PaymentStatusRead]:
        """Polls a payment until it has ended.

        Raises `StillPending` where it has not in so many seconds; without them it waits for as long as it takes.
        """
        until = None if seconds is None else time.monotonic() + seconds
        between = POLL_SECONDS
        while True:
            status = yield from self.status(payment_id)
            if has_ended(status):
                return status
            if until is not None and time.monotonic() + between > until:
                raise StillPending(f"{payment_id} is still {status['status']}")
            yield from sleep(between)
            between = min(between * 1.25, POLL_SECONDS_MAX)

    def follow(self, payment_id: str, after: str | None) -> Following:
        """The payment's live events."""
        url = f"{self.base_url}/v1/payments/{escaped(payment_id, '')}/events"
        return Following(url, after, self._headers, self.patience_seconds)

    def _make(
        self, path: str, body: PaymentRequest | AwardRequest, hold_seconds: int | None, seconds: float | None
    ) -> Flow[PaymentResponse]:
        headers = {} if hold_seconds is None else {"prefer": f"wait={hold_seconds}"}
        request = self._post(path, body, headers)
        return cast(PaymentResponse, (yield from self._ask(request, *_PAYMENT, until=self._until(seconds))))

    def _ask(self, request: Request, *members: str, until: float | None = None) -> Flow[dict[str, Any]]:
        """Sends a request until there is an answer that says something, the same bytes each time. One without these members
        is not the gateway's."""
        until = self._until(None) if until is None else until
        unknown: NoAnswer | None = None
        attempt = 0
        while True:
            again: float | None = None
            try:
                answer = yield from send(request)
                body = answer.json()
                if answer.status == 200 and isinstance(body, dict) and all(_is_there(body, name) for name in members):
                    self._note(answer, body)
                    return body
                fault: GatewayError | NoAnswer = refusal(answer, body)
                if isinstance(fault, GatewayError):
                    if not is_repeated(fault.status, fault.retry_classification):
                        raise fault
                    again = fault.retry_after
                    if is_outcome_unknown(fault.status, fault.retry_classification):
                        unknown = NoAnswer(str(fault), fault)
                else:
                    again, unknown = retry_after(answer.headers.get("retry-after")), fault
            except NoAnswer as nothing:
                fault = unknown = nothing
            seconds = pause(attempt, again)
            if time.monotonic() + seconds > until:
                # An earlier attempt may have had its effect, whatever the last one says.
                raise unknown or fault
            yield from sleep(seconds)
            attempt += 1

    def _note(self, answer: Answer, body: Mapping[str, Any]) -> None:
        position, payment_id = answer.headers.get("x-position", ""), body.get("payment_id")
        if isinstance(payment_id, str) and re.fullmatch("[0-9]{1,15}", position):
            self._positions[payment_id] = position
            self._positions.move_to_end(payment_id)
            while len(self._positions) > POSITIONS_MAX:
                self._positions.popitem(last=False)

    def _position(self, payment_id: str) -> dict[str, str]:
        position = self._positions.get(payment_id)
        return {"x-position": position} if position else {}

    def _until(self, seconds: float | None) -> float:
        return time.monotonic() + (self.patience_seconds if seconds is None else seconds)

    def _get(self, path: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> Request:
        return Request("GET", self.base_url + path, query or {}, {**self._headers, **(headers or {})})

    def _post(
        self,
        path: str,
        body: object,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Request:
        request = post_json(self.base_url + path, body, {**self._headers, **(headers or {})})
        return Request(request.method, request.url, query or {}, request.headers, request.content)


def refusal(answer: Answer, body: object) -> GatewayError | NoAnswer:
    """What an answer that is not a success says. One without an ErrorResponse is not the gateway's: a proxy's, say."""
    after = retry_after(answer.headers.get("retry-after"))
    if isinstance(body, dict) and isinstance(body.get("code"), str):
        return GatewayError.of(answer.status, body, after, _FIELDS)
    if answer.status == 429 or answer.status >= 500 or answer.status == 200:
        return NoAnswer(f"HTTP {answer.status}, and not the gateway's answer")
    return GatewayError.of(answer.status, {"message": "the answer is not the gateway's"}, after, _FIELDS)


def refused(body: Mapping[str, Any]) -> GatewayError:
    """The refusal of one payment of a batch, with the status that its code has alone."""
    status, _ = CODES.get(str(body.get("code")), (200, ""))
    return GatewayError.of(status, body, None, _FIELDS)


def _secret(caller_secret: str | None) -> dict[str, str]:
    return {} if caller_secret is None else {"caller-secret": caller_secret}


def _is_there(body: Mapping[str, Any], name: str) -> bool:
    return isinstance(body.get(name), _KINDS.get(name, str))


def has_ended(status: PaymentStatusRead | PaymentResponse) -> bool:
    """Whether nothing changes a status any more."""
    return status["status"] in ("completed", "failed")
