"""Errors. All of them are a `ClientError`.

| error | what it says |
|---|---|
| `GatewayError` | the gateway refused a call; its subclasses are its `retry_classification`s |
| `NoAnswer` | it is not known what became of a call: nobody answered, or the answer says so itself |
| `NotSigned` | what is to be signed is not what the payer asked for, so nothing was signed |
| `NodeError` | a chain's node refused, or a transaction of the payer's own came to nothing |
| `StillPending` | the payment has not ended in the time that its caller waits |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .codes import CODES
from .retry import RetryClassification

_PATH = re.compile(r"(@?[A-Za-z][A-Za-z0-9_]*)(?:\[[0-9]+\]|\.[@A-Za-z0-9_]+)*")


class ClientError(Exception):
    """Any error of this package."""


class GatewayError(ClientError):
    """A call that the gateway refused, with its ErrorResponse. Branch on `code`, or catch a subclass."""

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: float | None = None, fields: object = ()) -> None:
        #: Stable identity of the error; `/docs/errors` explains each.
        self.code = _text(body.get("code")) or f"HTTP_{status}"
        #: For people.
        self.message = _text(body.get("message")) or ""
        #: HTTP status.
        self.status = status
        #: What to do next. `None` where neither the answer nor the table of this version knows.
        self.retry_classification = classification(self.code, body.get("retry_classification"))
        #: The member of the request that is at fault, where the message begins with one.
        self.field = _field(self.message, fields)
        #: Page that describes the code.
        self.docs_url = _text(body.get("docs_url"))
        #: Correlation id to quote to support. It is not the payment's `request_id`.
        self.request_id = _text(body.get("request_id"))
        #: The payment that the error is about.
        self.payment_id = _text(body.get("payment_id"))
        #: Service domain in which it arose.
        self.domain = _text(body.get("domain"))
        #: Whether no payment exists under the payment's `request_id`, so that it is free. `None`: not known, read it as `False`.
        reusable = body.get("request_id_reusable")
        self.request_id_reusable = reusable if isinstance(reusable, bool) else None
        #: Seconds that the gateway asks to wait.
        self.retry_after = retry_after
        super().__init__(f"{self.code}: {self.message}")

    @staticmethod
    def of(status: int, body: Mapping[str, Any], retry_after: float | None = None, fields: object = ()) -> GatewayError:
        """The error, as the subclass of its classification."""
        known = classification(_text(body.get("code")) or "", body.get("retry_classification"))
        return _KINDS.get(known, GatewayError)(status, body, retry_after, fields)


class RetryLater(GatewayError):
    """`RETRY_AFTER_DELAY`: the same request may be sent again later, for example once the account has funds."""


class NeedsNewRequestId(GatewayError):
    """`RETRY_WITH_NEW_REQUEST_ID`: only another `request_id` can pay. Make sure first that another payment is wanted."""


class FaultyRequest(GatewayError):
    """`NOT_RETRYABLE_FIX_REQUEST`: the request has a fault that the message names."""


class Declined(GatewayError):
    """`NOT_RETRYABLE`: the operator does not take the payment."""


class NeedsReconciling(GatewayError):
    """`RECONCILE_THEN_DECIDE`: find out what happened before anything else is sent."""


_KINDS: dict[RetryClassification | None, type[GatewayError]] = {
    RetryClassification.RETRY_AFTER_DELAY: RetryLater,
    RetryClassification.RETRY_WITH_NEW_REQUEST_ID: NeedsNewRequestId,
    RetryClassification.NOT_RETRYABLE_FIX_REQUEST: FaultyRequest,
    RetryClassification.NOT_RETRYABLE: Declined,
    RetryClassification.RECONCILE_THEN_DECIDE: NeedsReconciling,
}


class NoAnswer(ClientError):
    """It is not known what became of a call. The same request, unchanged and under the same `request_id`, may be sent again:
    it can never start a second payment. Another `request_id` could pay twice."""

    def __init__(self, message: str, cause: GatewayError | None = None) -> None:
        #: The answer that says that the outcome is not known, where there was one.
        self.error = cause
        super().__init__(message)


class NotSigned(ClientError):
    """What the gateway asks to be signed, or whom it names, is not what the payer asked for or knows. Nothing was signed."""


class PinMismatch(NotSigned):
    """The gateway names another account or contract than the payer knows."""

    def __init__(self, name: str, found: str) -> None:
        #: `escrow`, `reserver`, `releaser` or `permit2`.
        self.name = name
        #: What the gateway names.
        self.found = found
        super().__init__(f"the gateway names another {'Permit2' if name == 'permit2' else name}, {found}")


class AddressMismatch(NotSigned):
    """The deposit address that the gateway gives is not that of the payer's own order. Nothing may be sent there."""

    def __init__(self, member: str, expected: str, found: object) -> None:
        #: The member that differs, such as `terms.deposit.payer`.
        self.member = member
        self.expected = expected
        #: What the gateway says.
        self.found = found
        super().__init__(f"{member} must be {expected}, and the gateway's deposit address is for {str(found)[:100]}")


class BatchMismatch(NotSigned):
    """What the gateway asks to be signed for a batch, or answers, is not of the payer's own orders."""

    def __init__(self, member: str, expected: str, found: object) -> None:
        #: The member that differs, such as `message.witness.payments`.
        self.member = member
        self.expected = expected
        #: What the gateway says.
        self.found = found
        super().__init__(f"{member} must be {expected}, and is {str(found)[:100]} in what the gateway says of the batch")


class MandateMismatch(NotSigned):
    """What the gateway asks to be signed for a mandate, or for a payment under one, is not of one's own order."""

    def __init__(self, member: str, expected: str, found: object) -> None:
        #: The member that differs, such as `message.details.amount`.
        self.member = member
        self.expected = expected
        #: What the gateway says.
        self.found = found
        super().__init__(f"{member} must be {expected}, and is {str(found)[:100]} in what the gateway says of the mandate")


class StaleAddress(NotSigned):
    """The payment's deposit address is one of before, whose time is over or was set by somebody else: nothing may be sent there.
    Under another `request_id` there is another address; a payment that goes on can be waited for."""

    def __init__(self, payment_id: str, member: str, expected: str, found: str) -> None:
        self.payment_id = payment_id
        #: `status` or `pay_by`.
        self.member = member
        self.expected = expected
        #: What the gateway says.
        self.found = found
        super().__init__(f"nothing may be sent for {payment_id} any more: its {member} must be {expected}, and is {found[:100]}")


class LimitExceeded(NotSigned):
    """More than the payer allows."""

    def __init__(self, message: str, name: str, found: int, limit: int) -> None:
        #: The limit's name, as `Limits` has it.
        self.name = name
        self.found = found
        self.limit = limit
        super().__init__(message)


class NodeError(ClientError):
    """A chain's node refused, said what cannot be, or is of another chain; or a transaction came to nothing."""


class NotDue(ClientError):
    """There is nothing to be refunded, or not yet."""

    def __init__(self, message: str, refund_after: int | None = None) -> None:
        #: From when on it can be refunded, UNIX seconds.
        self.refund_after = refund_after
        super().__init__(message)


class StillPending(ClientError):
    """The payment has not ended in the time that was waited. It goes on; wait again."""


def classification(code: str, stated: object) -> RetryClassification | None:
    """What an answer says, or else what the table says of its code: the contract promises `code` and `message` alone."""
    known = CODES.get(code)
    for text in (stated, known[1] if known else None):
        if isinstance(text, str) and text in RetryClassification.__members__:
            return RetryClassification(text)
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _field(message: str, fields: object) -> str | None:
    found = _PATH.match(message)
    if not found or not hasattr(fields, "__contains__"):
        return None
    return found[0] if found[1] in fields else None
