"""Requests that are sent again: the same bytes, when the table says so, and no sooner than the gateway asks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway_client import AsyncGateway, FaultyRequest, Gateway, NoAnswer, RetryLater, StillPending
from gateway_client.flow import ANSWER_BYTES_MAX
from gateway_client.retry import pause, retry_after
from server import SILENCE, Said, said, serving

BODY: Any = {"version": "1.0", "request_id": "order-7", "fulfillment_amount": "25", "sender_auth": {"ü": [1, 2]}}
PAYMENT = {"payment_id": "pay_1", "status": "pending", "idempotent_replay": False}
COMPLETED = {"payment_id": "pay_1", "status": "completed", "updated_at": "2030-01-01T00:00:00Z"}
UNKNOWN = {"code": "OUTCOME_UNKNOWN", "message": "x", "retry_classification": "RECONCILE_THEN_DECIDE"}
BUSY = {"code": "SERVICE_UNAVAILABLE", "message": "x", "retry_classification": "RETRY_AFTER_DELAY"}
FAULTY = {"code": "INVALID_DEADLINE", "message": "x", "retry_classification": "NOT_RETRYABLE_FIX_REQUEST"}
NOTHING = [
    SILENCE,
    Said(502, b"<html>bad gateway"),
    Said(504, b""),
    Said(200, b'{"payment_id": ', is_cut=True),
    Said(200, b"not json"),
    Said(200, b"[]"),
    Said(200, b"{}"),
    said({**PAYMENT, "status": 5}),
    Said(429, b"slow down"),
    said(UNKNOWN, 500),
    said(BUSY, 503),
]


def submitted(url: str, **options: Any) -> Any:
    with Gateway(url, **options) as gateway:
        return gateway.submit(BODY)


def submitted_on_a_loop(url: str, **options: Any) -> Any:
    async def submitting() -> Any:
        async with AsyncGateway(url, **options) as gateway:
            return await gateway.submit(BODY)

    return asyncio.run(submitting())


both = pytest.mark.parametrize("submit", [submitted, submitted_on_a_loop])
Submit = Callable[..., Any]


@both
def test_a_submission_is_repeated_unchanged_until_there_is_an_answer(submit: Submit, pauses: list[float]) -> None:
    with serving([*NOTHING, said(PAYMENT)]) as server:
        assert submit(server.url) == PAYMENT
    assert len(server.seen) == len(NOTHING) + 1
    assert {seen.body for seen in server.seen} == {json.dumps(BODY, separators=(",", ":"), ensure_ascii=False).encode()}
    assert {(seen.method, seen.path) for seen in server.seen} == {("POST", "/v1/payments")}
    assert len(pauses) == len(NOTHING)
    assert pauses[-1] > pauses[0]


@both
@pytest.mark.parametrize("nothing", [one for one in NOTHING if one != said(BUSY, 503)])
def test_an_outcome_that_stays_unknown_is_no_answer(submit: Submit, nothing: Said) -> None:
    with serving([nothing]) as server, pytest.raises(NoAnswer):
        # Room for a second call on a machine that is busy with others.
        submit(server.url, patience_seconds=1.5)
    assert len(server.seen) > 1


@both
def test_what_came_after_an_unknown_outcome_does_not_make_it_known(submit: Submit) -> None:
    # That the second call was not accepted says nothing of the first.
    with serving([SILENCE, said(BUSY, 503)]) as server, pytest.raises(NoAnswer):
        submit(server.url, patience_seconds=0.6)
    with serving([said(BUSY, 503)]) as server, pytest.raises(RetryLater):
        submit(server.url, patience_seconds=0.6)
    # A refusal that is not repeated is one, whatever was before.
    with serving([SILENCE, said(FAULTY, 400)]) as server, pytest.raises(FaultyRequest):
        submit(server.url, patience_seconds=5)
    assert len(server.seen) == 2


def test_nobody_there_is_no_answer() -> None:
    with serving([said(PAYMENT)]) as server:
        url = server.url
    with pytest.raises(NoAnswer):
        submitted(url, patience_seconds=0.3)


def test_an_address_that_is_none_is_not_asked_again() -> None:
    with Gateway("ftp://pay.example") as gateway, pytest.raises(httpx.UnsupportedProtocol):
        gateway.status("pay_1")


@both
def test_retry_after_is_kept(submit: Submit, pauses: list[float]) -> None:
    with serving([said(BUSY, 503, Retry_After="7"), said(PAYMENT)]) as server:
        submit(server.url)
    assert pauses == [7.0]
    # A pause that is longer than the caller's patience is not begun.
    started = time.monotonic()
    with serving([said(BUSY, 503, Retry_After="120")]) as server, pytest.raises(RetryLater) as refused:
        submit(server.url)
    assert (refused.value.retry_after, len(server.seen), len(pauses)) == (120.0, 1, 1)
    assert time.monotonic() - started < 60


def test_headers_of_retry_after() -> None:
    assert retry_after("3") == 3
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    later = retry_after("Wed, 21 Oct 2099 07:28:00 GMT")
    assert later is not None
    assert later > 10**9
    for text in (None, "", "soon", "-1", "1.5", "9" * 400):
        assert retry_after(text) is None


def test_pauses_grow_and_end() -> None:
    for attempt in (0, 1, 5, 1000):
        assert 0 < pause(attempt, None) <= 8
    assert pause(0, 20) == 20


def test_an_answer_without_an_end_is_not_read() -> None:
    with serving([Said(200, b" " * (ANSWER_BYTES_MAX + 1))]) as server, pytest.raises(NoAnswer, match="bytes"):
        submitted(server.url, patience_seconds=0)


def test_waiting_polls_until_the_payment_has_ended(pauses: list[float]) -> None:
    answers = [said({**COMPLETED, "status": status}) for status in ("pending", "finalizing", "completed")]
    with serving(answers) as server, Gateway(server.url) as gateway:
        assert gateway.wait("pay_1")["status"] == "completed"
        assert [seen.path for seen in server.seen] == ["/v1/payments/pay_1/status"] * 3
    assert len(pauses) == 2
    with serving([said({**COMPLETED, "status": "pending"})]) as server, Gateway(server.url) as gateway:
        with pytest.raises(StillPending, match="pending"):
            gateway.wait("pay_1", seconds=0)
        assert len(server.seen) == 1


def test_reads_do_not_go_back() -> None:
    answers = [said(PAYMENT, X_Position="7"), said(COMPLETED, X_Position="9"), said(COMPLETED)]
    with serving(answers) as server, Gateway(server.url) as gateway:
        gateway.submit(BODY, hold_seconds=0)
        gateway.status("pay_1")
        gateway.status("pay_1")
        gateway.status("pay_2")
    assert server.seen[0].headers["prefer"] == "wait=0"
    assert [seen.headers.get("x-position") for seen in server.seen] == [None, "7", "9", None]


def test_quotes_are_waited_for(pauses: list[float]) -> None:
    times = {"quote_deadline": "2030-01-01T00:00:10Z", "fulfillment_deadline": "2030-01-01T00:05:00Z"}
    batch = {"quote_request_id": "qrq_1", "status": "collecting", **times}
    answers = [said(batch), said(batch), said({**batch, "status": "ready", "quotes": []})]
    with serving(answers) as server, Gateway(server.url) as gateway:
        assert gateway.quote(BODY, caller_secret="a secret of my own")["quotes"] == []
    assert [seen.path for seen in server.seen] == [
        "/v1/payments/quote-requests?wait=true",
        "/v1/payments/quote-requests/qrq_1",
        "/v1/payments/quote-requests/qrq_1",
    ]
    assert server.seen[0].headers["caller-secret"] == "a secret of my own"


def test_ids_of_others_stay_in_their_place() -> None:
    with serving([said(COMPLETED)]) as server, Gateway(server.url + "/") as gateway:
        gateway.status("../../admin?x=1")
        gateway.resolve("order&account=other", account="0x1")
    assert [seen.path for seen in server.seen] == [
        "/v1/payments/..%2F..%2Fadmin%3Fx%3D1/status",
        "/v1/payments/resolve?request_id=order%26account%3Dother&account=0x1",
    ]
