"""Paying: allowance, preparation, verification, signature, submission and outcome in one flow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from . import quotes, trust
from .errors import FaultyRequest, GatewayError, NotSigned
from .flow import Flow, sleep
from .operations import POLL_SECONDS, Operations, has_ended
from .order import VERSION, Order, unix
from .quotes import Quote
from .schemas import (
    AwardRequest,
    ChainDefaults,
    PaymentFailure,
    PaymentRequest,
    PaymentResponse,
    PaymentStatusRead,
    PrepareAwardRequest,
    PreparedPayment,
    PrepareRequest,
    QuoteRequestRead,
    SenderAuth,
    SignedMessage,
)
from .schemes import BY_PERMIT2_ON_TRON, is_allowed_by_signature, may_lack_allowance, takes_token_signatures
from .trust import Limits, Pins, Terms
from .wallet import Sent, Wallet

#: How long after its refund window a payment is still asked for: by then its outcome is known.
GRACE_SECONDS = 60


@dataclass(frozen=True)
class Payment:
    """A payment that was made, and how it ended."""

    payment_id: str
    #: The order as it was sent, with its deadlines.
    order: Order
    #: How it stands.
    status: PaymentStatusRead | PaymentResponse
    #: Whether it was accepted before: then nothing new was begun.
    idempotent_replay: bool
    #: The payer's own transactions before it, by their hashes.
    sent: Sent

    @property
    def is_completed(self) -> bool:
        """Whether the recipient has the amount, for good."""
        return self.status["status"] == "completed"

    @property
    def error(self) -> PaymentFailure | None:
        """Why it failed. What was in escrow is being returned."""
        return self.status.get("error")


@dataclass(frozen=True)
class Choice:
    """A quote that is taken instead of letting the gateway choose."""

    batch: QuoteRequestRead
    quote_id: str


class Paying:
    """One payer's payment of one order."""

    def __init__(
        self,
        operations: Operations,
        order: Order,
        wallet: Wallet,
        pins: Pins,
        limits: Limits,
        choice: Choice | None = None,
        message_scheme: str | None = None,
        allowance: int | None = None,
    ) -> None:
        if order.account != wallet.account:
            raise ValueError(f"the wallet is that of {wallet.account}, and {order.account} pays")
        if order.max_source_amount is None and choice is None:
            raise ValueError("the order lacks max_source_amount: a payer says what it pays at most")
        self._operations = operations
        self._order = order
        self._wallet = wallet
        self._pins = pins
        self._limits = limits
        self._choice = choice
        self._scheme: str | None = message_scheme or order.members.get("message_scheme")
        if allowance is not None and wallet.family == "tron" and self._scheme != BY_PERMIT2_ON_TRON:
            rule = "the one for the escrow is signed with the payment, of what may be drawn"
            raise ValueError(f'on Tron allowance is for Permit2, with message_scheme="{BY_PERMIT2_ON_TRON}": {rule}')
        self._allowance = allowance
        self._defaults: dict[str, ChainDefaults] = {}

    def pay(self, wrap: bool, seconds: float | None) -> Flow[Payment]:
        """Pays, and waits for the outcome for so many seconds; without them until it is there."""
        yield from self._look()
        quote = self._quote()
        order, sent, prepared = self._timed(), Sent(), None
        if not (yield from self._exists()):
            sent, prepared = yield from self._allow(wrap, quote, order)
        if prepared is None:
            # Allowances take the blocks that they take, so the time begins here.
            order = self._timed()
            prepared = yield from self._prepare(order, quote, self._terms(order, quote))
        terms = self._terms(order, quote)
        if prepared["payment_id"] != order.payment_id:
            raise NotSigned("the payment has another id")
        signed = yield from self._wallet.signed(terms, prepared)
        # By then every window has passed.
        patience = terms.fulfillment_deadline + terms.refund_delay_seconds + GRACE_SECONDS - time.time()
        auth: SenderAuth = {"message_scheme": prepared["message_scheme"], "signed_messages": signed}
        submitted = yield from self._submit(order, quote, auth, max(patience, 0), bool(sent.approvals or sent.wrapped))
        status: PaymentStatusRead | PaymentResponse = submitted
        if not has_ended(submitted):
            status = yield from self._operations.wait(order.payment_id, patience if seconds is None else seconds)
        return Payment(order.payment_id, order, status, submitted.get("idempotent_replay") is True, sent)

    def allow(self, wrap: bool) -> Flow[Sent]:
        """The payer's own transactions alone."""
        yield from self._look()
        sent, _ = yield from self._allow(wrap, self._quote(), self._timed())
        return sent

    def _look(self) -> Flow[None]:
        """Looks at node and gateway before anything is sent."""
        order = self._order
        for chain in order.chains:
            self._defaults[chain] = yield from self._operations.defaults(chain)
        own = self._defaults[order.chain_id]
        if own["family"] != self._wallet.family:
            raise ValueError(f"{order.chain_id} is of the family {own['family']}, and the wallet of {self._wallet.family}")
        yield from self._wallet.check_chain(order.chain_id, own)

    def _allow(self, wrap: bool, quote: Quote | None, order: Order) -> Flow[tuple[Sent, PreparedPayment | None]]:
        """The payer's own transactions. Where the gateway takes signatures in the place of an allowance, or a scheme is asked for
        by its name, it is asked first what to sign; that stands where nothing had to be sent."""
        if wrap and not self._wraps():
            asset = self._order.source["asset_identifier"]
            raise NotSigned(f"the gateway does not say that {asset} wraps coins")
        terms = self._terms(order, quote)
        if self._allowance is not None and self._allowance < terms.amount:
            raise ValueError(f"an allowance of {self._allowance} is less than may be drawn, {terms.amount}")
        prepared: PreparedPayment | None = None
        if takes_token_signatures(self._defaults[order.chain_id]) or self._scheme:
            prepared = yield from self._prepare(order, quote, terms)
        by_signature = prepared is not None and is_allowed_by_signature(prepared)
        needs_no_allowance = by_signature or not may_lack_allowance(self._wallet.family, self._scheme)
        sent = yield from self._wallet.allow(terms, wrap, needs_no_allowance, self._allowance)
        return sent, None if sent.wrapped or sent.approvals else prepared

    def _wraps(self) -> bool:
        """Whether the gateway says of the source that it is the wrapped form of a coin, too: another token might keep what it is
        sent."""
        source = self._order.source["asset_identifier"]
        assets = self._defaults[self._order.chain_id]["assets"]
        return any(asset["asset_identifier"] == source and asset.get("wraps") for asset in assets)

    def _timed(self) -> Order:
        if self._choice is None:
            return self._order.timed()
        # A quote is for the deadlines of its quote-request.
        batch, own = self._choice.batch, self._order
        order = replace(own, quote_deadline=batch["quote_deadline"], fulfillment_deadline=batch["fulfillment_deadline"])
        try:
            is_own = own.fulfillment_deadline is None or unix(own.fulfillment_deadline) == unix(order.fulfillment_deadline)
        except ValueError:
            is_own = False
        if not is_own:
            raise NotSigned("the quotes are for other deadlines")
        return order

    def _quote(self) -> Quote | None:
        if self._choice is None:
            return None
        for collected in self._choice.batch.get("quotes", []):
            if collected.get("quote_id") == self._choice.quote_id:
                return quotes.taken(self._order, self._choice.quote_id, collected.get("fulfillment_quote"))
        raise ValueError(f"the quote-request has no quote {self._choice.quote_id}")

    def _terms(self, order: Order, quote: Quote | None) -> Terms:
        return trust.terms(order, self._defaults, self._pins, self._limits, quote)

    def _exists(self) -> Flow[bool]:
        """Whether the payment was accepted before: then it needs no allowance any more."""
        order = self._order
        try:
            if order.originator:
                yield from self._operations.resolve(order.request_id, originator=order.originator)
            else:
                yield from self._operations.resolve(order.request_id, account=order.account)
        except FaultyRequest as fault:
            if fault.status == 404:
                return False
            raise
        return True

    def _prepare(self, order: Order, quote: Quote | None, terms: Terms) -> Flow[PreparedPayment]:
        scheme = terms.message_scheme(self._scheme)
        body: dict[str, Any] = dict(order.body())
        if quote is not None and self._choice is not None:
            body = {
                "version": VERSION,
                "request_id": order.request_id,
                "quote_request_id": self._choice.batch["quote_request_id"],
                "quote_id": quote.quote_id,
                **_proofs(order),
            }
        if scheme:
            body["message_scheme"] = scheme
        prepared = yield from self._operations.prepare(cast(PrepareRequest | PrepareAwardRequest, body))
        if scheme and prepared["message_scheme"] != scheme:
            raise NotSigned(f"the gateway asks for a signature under {prepared['message_scheme']}, not {scheme}")
        return prepared

    def _submit(
        self, order: Order, quote: Quote | None, auth: SenderAuth, patience: float, is_fresh: bool
    ) -> Flow[PaymentResponse]:
        until = unix(order.quote_deadline)
        while True:
            try:
                if quote is None or self._choice is None:
                    body = submission(order, auth["signed_messages"], auth["message_scheme"])
                    return (yield from self._operations.submit(body, seconds=patience))
                award = cast(
                    AwardRequest,
                    {
                        "version": VERSION,
                        "request_id": order.request_id,
                        "quote_id": quote.quote_id,
                        "sender_auth": auth,
                        **_proofs(order),
                    },
                )
                batch_id = self._choice.batch["quote_request_id"]
                return (yield from self._operations.award(batch_id, award, seconds=patience))
            except GatewayError as fault:
                # The gateway's node may be a block behind the payer's.
                late = fault.code in ("INSUFFICIENT_ALLOWANCE", "INSUFFICIENT_FUNDS") and is_fresh
                if not late or time.time() >= until:
                    raise
            yield from sleep(POLL_SECONDS)


def submission(order: Order, signed: list[SignedMessage], message_scheme: str) -> PaymentRequest:
    """The body of a payment."""
    auth = {"message_scheme": message_scheme, "signed_messages": signed}
    return cast(PaymentRequest, {**order.body(), "sender_auth": auth})


def _proofs(order: Order) -> Mapping[str, Any]:
    """What an award repeats of the order: who asks."""
    return {name: value for name, value in order.members.items() if name in ("@context", "verifiableCredential", "proof")}
