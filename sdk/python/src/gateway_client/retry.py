"""When a request is sent again: the table of `retry_classification`, and how long to wait.

| classification | where it is answered | what follows |
|---|---|---|
| `RETRY_AFTER_DELAY` | 429, 503, and 409 while quotes are collected | the same again, after `Retry-After` |
| | 400 (`INSUFFICIENT_FUNDS`, `INSUFFICIENT_ALLOWANCE`) | an error: the payer has something to do first |
| `RETRY_WITH_NEW_REQUEST_ID` | | an error: whether another payment is wanted is not for a library to say |
| `NOT_RETRYABLE_FIX_REQUEST` | | an error |
| `NOT_RETRYABLE` | | an error |
| `RECONCILE_THEN_DECIDE` | 500 (`OUTCOME_UNKNOWN`, `INTERNAL_ERROR`) | the same again: that is how it is reconciled |
| | 409 (`JOURNAL_RESTORED`) | an error: the caller decides |
| no answer, or one that is not the gateway's | | the same again |

A request that is sent again is the same bytes, and so the same `request_id`. Every operation of the gateway may be repeated.
"""

from __future__ import annotations

import random
import re
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum

FIRST_PAUSE_SECONDS = 0.25
PAUSE_SECONDS_MAX = 8.0


class RetryClassification(StrEnum):
    """What the gateway says a caller may do next."""

    RETRY_AFTER_DELAY = "RETRY_AFTER_DELAY"
    RETRY_WITH_NEW_REQUEST_ID = "RETRY_WITH_NEW_REQUEST_ID"
    NOT_RETRYABLE_FIX_REQUEST = "NOT_RETRYABLE_FIX_REQUEST"
    NOT_RETRYABLE = "NOT_RETRYABLE"
    RECONCILE_THEN_DECIDE = "RECONCILE_THEN_DECIDE"


def is_repeated(status: int, classification: RetryClassification | None) -> bool:
    """Whether the same request is sent again after an error with this status."""
    match classification:
        case RetryClassification.RETRY_AFTER_DELAY:
            return status in (409, 429, 503)
        case RetryClassification.RECONCILE_THEN_DECIDE:
            return status >= 500
        case None:
            # Of somebody in between.
            return status == 429 or status >= 500
        case _:
            return False


def is_outcome_unknown(status: int, classification: RetryClassification | None) -> bool:
    """Whether the request may have had its effect all the same."""
    match classification:
        case RetryClassification.RECONCILE_THEN_DECIDE | None:
            return status >= 500
        case _:
            return False


def pause(attempt: int, retry_after: float | None) -> float:
    """Seconds until the next attempt, the first being 0: exponential back-off with jitter, and not before `Retry-After`."""
    longest = min(FIRST_PAUSE_SECONDS * 2 ** min(attempt, 16), PAUSE_SECONDS_MAX)
    return max(retry_after or 0.0, random.uniform(longest / 2, longest))


def retry_after(text: str | None) -> float | None:
    """Seconds that a header `Retry-After` asks to wait: it has seconds or a date (RFC 9110, 10.2.3)."""
    if text is None:
        return None
    if re.fullmatch("[0-9]{1,9}", text.strip()):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, at.timestamp() - time.time())
