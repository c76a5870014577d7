"""Payments under a mandate: the merchant signs for each. What a gateway prepares is signed where it is of the merchant's own
order under the mandate that it shows, and whatever is changed in it is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from batch_world import OWN, digest
from evm_world import ORDER
from gateway_client import FaultyRequest, MandateMismatch, NoAnswer, NotSigned, Pins, RetryLater, StillPending, owned
from mandate_world import (
    MERCHANT,
    OTHER,
    Data,
    MandateWorld,
    address_of,
    charge,
    charge_of,
    charged,
    completed,
    given,
    more_by,
    of,
    prepared,
    signer,
)
from server import SILENCE, Said, said

STRANGER = b"\x77" * 20


def test_a_payment_under_a_mandate_is_made_by_the_merchant_without_a_node() -> None:
    with MandateWorld().serving() as world:
        payload = given()
        payment = charge(world, payload, pins=Pins(OWN["escrow_contract_address"], OWN["reserver"], OWN["releaser"]))
        assert (payment.is_completed, payment.payment_id) == (True, charged().payment_id)
        [asked], [body] = world.asked_of, map(json.loads, world.submitted)
        assert (asked["message_scheme"], asked["payload"]) == ("EVM_PERMIT2_MANDATE", payload)
        auth = body.pop("sender_auth")
        assert body == {name: value for name, value in asked.items() if name not in ("message_scheme", "payload")}
        [message] = auth["signed_messages"]
        data = charge_of(asked)
        assert (auth["message_scheme"], message["message"]) == ("EVM_PERMIT2_MANDATE", digest(data))
        windows = {
            name: int(data["message"][of])
            for name, of in (("reserve_deadline", "reserveDeadline"), ("refund_after", "refundAfter"))
        }
        assert message["payload"] == {**windows, **payload}
        assert signer(data, message["signature"]) == MERCHANT
        assert body["source"]["account"] == world.wallet.account != MERCHANT
        assert world.sent == []


CHARGES: dict[str, tuple[str | None, Callable[[Data], Any]]] = {
    "another mandate": ("message.mandate", of("message.mandate", OTHER)),
    "another payment": ("message.paymentId", of("message.paymentId", "0x" + "11" * 32)),
    "another delivery": ("message.fulfillmentAmount", of("message.fulfillmentAmount", more_by(-1))),
    "another amount": ("message.amount", of("message.amount", more_by(1))),
    "another reserver": ("message.reserver", of("message.reserver", OTHER)),
    "another fulfilment": ("message.fulfillmentDeadline", of("message.fulfillmentDeadline", more_by(-1))),
    "a stranger's contract": ("domain.verifyingContract", of("domain.verifyingContract", "0x" + STRANGER.hex())),
    "another chain": ("domain.chainId", of("domain.chainId", 1)),
    "another name": ("domain.name", of("domain.name", "GatewayEscrow")),
    "another version": ("domain.version", of("domain.version", "2")),
    "a deposit too late": (None, of("message.reserveDeadline", more_by(1))),
    "a refund too late": (None, of("message.refundAfter", more_by(1))),
    "a refund too early": (None, of("message.refundAfter", more_by(-30))),
}


@pytest.mark.parametrize("change", CHARGES)
def test_no_charge_is_signed_that_is_not_the_merchants(change: str) -> None:
    member, edit = CHARGES[change]
    with MandateWorld(prepare=lambda body: said(prepared(body, edit))).serving() as world:
        payload = given()
        with pytest.raises(NotSigned) as refused:
            charge(world, payload)
        assert getattr(refused.value, "member", None) == member
        assert world.submitted == []


def test_an_answer_that_is_not_about_the_payment_is_not_signed() -> None:
    def messages(body: Data) -> Any:
        return prepared(body)["signed_messages"]

    answers: dict[str, Callable[[Data], Data]] = {
        "another id": lambda _: {"payment_id": "pay_other"},
        "another scheme": lambda _: {"message_scheme": "EVM_PERMIT2_ESCROW"},
        "two messages": lambda body: {"signed_messages": messages(body) * 2},
        "another digest": lambda body: {"signed_messages": [{**messages(body)[0], "message": "0x" + "22" * 32}]},
        "no typed data": lambda body: {"signed_messages": [{**messages(body)[0], "message_prehash": "0x1901"}]},
        "another verifier": lambda _: {"fulfillment_verifier": {"account": OTHER}},
        "another type": lambda body: {"signed_messages": [altered(messages(body)[0])]},
    }

    def altered(message: Data) -> Data:
        data = json.loads(message["message_prehash"])
        data["types"]["Charge"].pop()
        return {**message, "message_prehash": json.dumps(data)}

    for more in answers.values():
        world = MandateWorld(prepare=lambda body, more=more: said({**prepared(body), **more(body)}))  # type: ignore[misc]
        with world.serving():
            payload = given()
            with pytest.raises(NotSigned):
                charge(world, payload)
            assert world.submitted == []


def test_what_the_mandate_does_not_allow_is_not_asked_for() -> None:
    with MandateWorld().serving() as world:
        payload = given()
        mandate = payload["mandate"]
        for order, altered, wallet, rule in (
            (charged(max_source_amount=10_200_001, amount=10_200_001), {}, None, "allows in a period"),
            (charged(amount=4_999_999), {}, None, "at least 10000000 for 10200000"),
            (charged(max_source_amount=None), {}, None, "max_source_amount"),
            (charged(members={"payload": {}}), {}, None, "payload is not for the order"),
            (charged(), {}, world.wallet, "the mandate's merchant"),
            (charged(), {"merchant": OTHER}, None, "the mandate's merchant"),
            (charged(), {"merchant": None}, None, "merchant is missing"),
            (charged(), {"salt": "0x00"}, None, "salt"),
            (charged(), {"amount": 7}, None, r"mandate\.amount"),
            (charged(), {"begins": "7"}, None, r"mandate\.begins"),
            (charged(), {"periods": 0}, None, "periods"),
        ):
            with pytest.raises(ValueError, match=rule):
                charge(world, {**payload, "mandate": {**mandate, **altered}}, wallet, order)
        for nothing in ({}, {"mandate": "x"}, {"mandate": mandate, "permit": 7}):
            with pytest.raises(ValueError, match="payload"):
                charge(world, nothing)
        assert world.asked == []
        # The least is in proportion, and a payer may have signed nothing.
        assert charge(world, {"mandate": mandate}, order=charged(amount=1, max_source_amount=1)).is_completed
        assert world.asked_of[-1]["payload"] == {"mandate": mandate}


def test_another_recipient_or_escrow_is_another_mandate() -> None:
    with MandateWorld().serving() as world:
        payload = given()
        address = address_of(dict(charged().timed().body()), payload["mandate"])
        elsewhere = charged(destination=[owned(ORDER.destination[0]["asset_identifier"], OTHER)])
        for order, is_own in (
            (charged(), True),
            (elsewhere, False),
            (charged(members={"escrow_contract_address": OTHER}), False),
        ):
            charge(world, payload, order=order)
            message = json.loads(json.loads(world.submitted[-1])["sender_auth"]["signed_messages"][0]["message_prehash"])[
                "message"
            ]
            assert (message["mandate"] == address) is is_own


def test_an_answer_that_is_lost_is_asked_for_again_with_the_same_body(pauses: list[float]) -> None:
    later = {"code": "SERVICE_UNAVAILABLE", "message": "x", "retry_classification": "RETRY_AFTER_DELAY"}

    def accept(body: Data, tries: int) -> Said:
        if tries <= 4:
            return SILENCE
        return said(later, 503) if tries == 5 else completed(body, idempotent_replay=True)

    with MandateWorld(accept=accept).serving() as world:
        payment = charge(world, given())
        assert (payment.is_completed, payment.idempotent_replay) == (True, True)
        assert (len(world.submitted), len(set(world.submitted))) == (6, 1)
    past: Data = {"quote_deadline": "2026-01-01T00:00:00Z", "fulfillment_deadline": "2026-01-01T00:02:00Z"}
    with MandateWorld(accept=lambda *_: SILENCE).serving() as world, pytest.raises(NoAnswer):
        charge(world, given(), order=charged(**past))


def full(body: Data, **more: Any) -> Said:
    """The refusal of a payment that a period has nothing left for."""
    refusal = {"code": "INSUFFICIENT_ALLOWANCE", "message": "x", "retry_classification": "RETRY_AFTER_DELAY"}
    return said({**refusal, **more}, 400)


def test_a_payment_that_is_there_is_found_where_its_period_is_full() -> None:
    def there(body: Data) -> Said:
        return full(body, payment_id=charged().payment_id)

    with MandateWorld(prepare=there, accept=lambda body, _: completed(body, idempotent_replay=True)).serving() as world:
        payment = charge(world, given())
        assert (payment.is_completed, payment.idempotent_replay) == (True, True)
        # What is submitted says all that the payment says, so that the gateway can compare the two.
        [asked], [body] = world.asked_of, map(json.loads, world.submitted)
        [message] = body["sender_auth"]["signed_messages"]
        assert message.keys() == {"message", "payload", "signature"}
        assert (message["message"], signer(charge_of(asked), message["signature"])) == (digest(charge_of(asked)), MERCHANT)
    # The payer, or another of its merchants, has taken the request_id for something else.
    differs = {"code": "IDEMPOTENCY_TERMS_MISMATCH", "message": "x", "retry_classification": "NOT_RETRYABLE_FIX_REQUEST"}
    with MandateWorld(prepare=there, accept=lambda *_: said(differs, 409)).serving() as world:
        with pytest.raises(FaultyRequest) as refused:
            charge(world, given())
        assert refused.value.code == "IDEMPOTENCY_TERMS_MISMATCH"
    with MandateWorld(prepare=full).serving() as world:
        with pytest.raises(RetryLater):
            charge(world, given())
        assert world.submitted == []


def test_a_payment_that_goes_on_is_waited_for() -> None:
    def pending(body: Data, _: int) -> Said:
        return completed(body, status="pending")

    with MandateWorld(accept=pending).serving() as world, pytest.raises(StillPending):
        charge(world, given(), wait_seconds=0)
    with MandateWorld(accept=lambda body, _: completed(body, payment_id="pay_other")).serving() as world:
        with pytest.raises(MandateMismatch) as refused:
            charge(world, given())
        assert refused.value.member == "payment_id"
