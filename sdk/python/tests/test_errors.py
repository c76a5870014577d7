"""Each error code, as the gateway answers with it."""

from __future__ import annotations

import pytest

from gateway_client import (
    Declined,
    FaultyRequest,
    Gateway,
    GatewayError,
    NeedsNewRequestId,
    NeedsReconciling,
    NoAnswer,
    RetryClassification,
    RetryLater,
)
from gateway_client.codes import CODES
from gateway_client.retry import is_repeated
from server import Said, said, serving

KINDS = {
    "RETRY_AFTER_DELAY": RetryLater,
    "RETRY_WITH_NEW_REQUEST_ID": NeedsNewRequestId,
    "NOT_RETRYABLE_FIX_REQUEST": FaultyRequest,
    "NOT_RETRYABLE": Declined,
    "RECONCILE_THEN_DECIDE": NeedsReconciling,
}
#: What is sent again, and how often by the patience of these tests.
REPEATED = {
    "CHAIN_UNAVAILABLE",
    "CONTRACT_PAYER_EXHAUSTED",
    "INTERNAL_ERROR",
    "NOT_READY",
    "OUTCOME_UNKNOWN",
    "QUOTE_REQUEST_COLLECTING",
    "RATE_LIMITED",
    "SERVICE_PAUSED",
    "SERVICE_UNAVAILABLE",
    "TOO_MANY_DEPOSIT_ADDRESSES",
    "TOO_MANY_QUOTE_REQUESTS",
    "TOO_MANY_STREAMS",
}


def test_the_table_has_every_classification() -> None:
    assert {classification for _, classification in CODES.values()} == set(KINDS) == set(RetryClassification.__members__)
    assert len(CODES) > 35


@pytest.mark.parametrize("code", CODES)
def test_each_code_is_an_error_of_its_kind_and_is_repeated_as_the_table_says(code: str) -> None:
    status, classification = CODES[code]
    body = {
        "code": code,
        "message": "fulfillment_amount: must be above zero",
        "request_id": "req_1",
        "docs_url": f"https://pay.example/docs/errors#{code}",
        "domain": "PAYMENT_GATEWAY",
        "retry_classification": classification,
        "request_id_reusable": True,
        "payment_id": "pay_1",
    }
    is_again = code in REPEATED
    assert is_repeated(status, RetryClassification(classification)) == is_again
    # A busy machine needs time for a second call.
    patience = 2 if is_again else 0.4
    with serving([said(body, status)]) as server, Gateway(server.url, patience_seconds=patience) as gateway:
        # A 500 does not say whether it was accepted.
        kind = NoAnswer if status == 500 else KINDS[classification]
        with pytest.raises(kind) as refused:
            gateway.status("pay_1")
        error = refused.value.error if isinstance(refused.value, NoAnswer) else refused.value
        assert isinstance(error, GatewayError)
        assert isinstance(error, KINDS[classification])
        assert (error.code, error.status, error.retry_classification) == (code, status, classification)
        assert (error.field, error.docs_url) == ("fulfillment_amount", body["docs_url"])
        assert (error.request_id, error.payment_id, error.domain) == ("req_1", "pay_1", "PAYMENT_GATEWAY")
        assert error.request_id_reusable is True
        assert str(error) == f"{code}: {body['message']}"
        assert (len(server.seen) > 1) == is_again


def test_an_error_of_two_members_has_the_classification_of_the_table() -> None:
    # Spec 2.10 promises no more.
    answers = [said({"code": "IDEMPOTENCY_TERMS_MISMATCH", "message": "used"}, 409)]
    with serving(answers) as server, Gateway(server.url) as gateway, pytest.raises(NeedsNewRequestId) as refused:
        gateway.status("pay_1")
    assert (refused.value.field, refused.value.docs_url, refused.value.request_id_reusable) == (None, None, None)


def test_a_code_that_is_not_known_yet_is_an_error_like_any_other() -> None:
    answers = [said({"code": "SOMETHING_NEW", "message": "x", "retry_classification": "NOT_RETRYABLE"}, 418)]
    with serving(answers) as server, Gateway(server.url) as gateway, pytest.raises(Declined) as refused:
        gateway.status("pay_1")
    assert refused.value.code == "SOMETHING_NEW"


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("source.account: is not an account", "source.account"),
        ("destination[1].asset_identifier is not served", "destination[1].asset_identifier"),
        ("sender_auth.signed_messages[0].message must be 0x…", "sender_auth.signed_messages[0].message"),
        ("message.witness.payer must be 0x…", "message.witness.payer"),
        ("Nothing of the kind.", None),
        ("", None),
    ],
)
def test_the_member_at_fault_is_the_one_that_the_message_begins_with(message: str, field: str | None) -> None:
    answers = [said({"code": "INVALID_REQUEST", "message": message}, 400)]
    with serving(answers) as server, Gateway(server.url) as gateway, pytest.raises(FaultyRequest) as refused:
        gateway.status("pay_1")
    assert refused.value.field == field


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'"text"', b'{"code": 5}', b"[" * 100_000])
def test_what_is_not_the_gateways_is_an_error(body: bytes) -> None:
    with serving([Said(404, body)]) as server, Gateway(server.url) as gateway, pytest.raises(GatewayError) as refused:
        gateway.status("pay_1")
    assert (refused.value.code, refused.value.retry_classification) == ("HTTP_404", None)
