"""Paying, beside a gateway and a node that cannot be trusted: what is sent, in which order, and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import rlp  # type: ignore[import-untyped]
from eth_account import Account

from evm_world import CASES, ORDER, World
from gateway_client import (
    Choice,
    FaultyRequest,
    Gateway,
    LimitExceeded,
    Limits,
    NodeError,
    NotSigned,
    Order,
    Payment,
    PinMismatch,
    Pins,
    RetryLater,
    evm,
    owned,
    terms,
)
from gateway_client.escrow_abi import selector, word
from gateway_client.order import unix
from gateway_client.schemas import QuoteRequestRead
from gateway_client.trust import PERMIT2
from server import SILENCE, said

OTHER = "0x00000000000000000000000000000000deadbeef"
APPROVE = selector("approve(address,uint256)") + word(bytes.fromhex(PERMIT2[2:]))
CAP = ORDER.max_source_amount or 0
EXHAUSTED = {"code": "INSUFFICIENT_ALLOWANCE", "message": "x", "retry_classification": "RETRY_AFTER_DELAY"}


def pay(world: World, pins: Pins | None = None, limits: Limits | None = None, wrap: bool = False) -> Payment:
    with Gateway(world.url) as gateway:
        return gateway.pay(ORDER, world.wallet, pins=pins or Pins(), limits=limits or Limits(), wrap=wrap)


def calls(world: World) -> list[tuple[bytes, int, bytes]]:
    """Receiver, value and data of what was sent, all of it by the payer and for the chain."""
    decoded = [rlp.decode(raw[1:]) for raw in world.sent]
    assert all(int.from_bytes(one[0], "big") == 31337 for one in decoded)
    assert all(Account.recover_transaction(raw).lower() == ORDER.account for raw in world.sent)
    return [(one[5], int.from_bytes(one[6], "big"), one[7]) for one in decoded]


TOKEN = bytes.fromhex(ORDER.source["asset_identifier"].rpartition("0x")[2])


def test_a_payment_is_allowed_rebuilt_signed_and_submitted() -> None:
    with World().serving() as world:
        payment = pay(world)
        assert payment.is_completed
        assert (payment.payment_id, payment.error, payment.idempotent_replay) == (ORDER.payment_id, None, False)
        assert calls(world) == [(TOKEN, 0, APPROVE + word(CAP))]
        assert len(payment.sent.approvals) == 1
        [body] = map(json.loads, world.submitted)
        auth = body.pop("sender_auth")
        assert body == ORDER.body()
        [message] = auth["signed_messages"]
        rebuilt = evm.check(terms(ORDER, world.case["defaults"], Pins(), Limits()), world.case["prepared"])
        assert Account.recover_message(rebuilt.signable, signature=message["signature"]).lower() == ORDER.account


@pytest.mark.parametrize(("allowance", "amounts"), [(0, [CAP]), (1, [0, CAP]), (CAP - 1, [0, CAP]), (CAP, []), (CAP + 1, [])])
def test_an_allowance_that_is_too_small_is_taken_back_first(allowance: int, amounts: list[int]) -> None:
    with World(allowance=allowance).serving() as world:
        pay(world)
        assert calls(world) == [(TOKEN, 0, APPROVE + word(amount)) for amount in amounts]


def test_more_may_be_allowed_at_once() -> None:
    with World(allowance=CAP - 1).serving() as world, Gateway(world.url) as gateway:
        gateway.pay(ORDER, world.wallet, allowance=10 * CAP)
        assert calls(world) == [(TOKEN, 0, APPROVE + word(amount)) for amount in (0, 10 * CAP)]
        with pytest.raises(ValueError, match="less than may be drawn"):
            gateway.pay(ORDER, world.wallet, allowance=CAP - 1)
    with World(allowance=CAP).serving() as world, Gateway(world.url) as gateway:
        gateway.pay(ORDER, world.wallet, allowance=10 * CAP)
        assert world.sent == []


def test_a_payment_that_is_known_needs_no_allowance() -> None:
    with World(is_known=True).serving() as world:
        assert pay(world).is_completed
        assert (world.sent, len(world.submitted)) == ([], 1)


def test_coins_are_wrapped_for_what_is_missing_where_order_and_gateway_say_so() -> None:
    with World(balance=CAP - 7).serving() as world:
        with pytest.raises(NotSigned, match="wraps coins"):
            pay(world, wrap=True)
        assert world.sent == []
        for asset in world.case["defaults"][ORDER.chain_id]["assets"]:
            asset["wraps"] = "eip155:31337/slip44:60"
        payment = pay(world, wrap=True)
        assert calls(world)[0] == (TOKEN, 7, selector("deposit()"))
        assert (len(payment.sent.wrapped), len(payment.sent.approvals)) == (1, 1)


def test_a_lost_answer_is_asked_for_again_under_the_same_id(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    # The recorded order's windows are over, so its moment comes back.
    monkeypatch.setattr("gateway_client.paying.time.time", lambda: float(unix(ORDER.fulfillment_deadline) - 60))
    world = World()
    world.submissions = [SILENCE, *world.submissions]
    with world.serving():
        assert pay(world).is_completed
        assert len(set(world.submitted)) == 1
        assert len(world.submitted) == 2


def test_a_gateway_that_does_not_see_the_allowance_yet_is_asked_again(pauses: list[float]) -> None:
    world = World()
    world.submissions = [said(EXHAUSTED, 400), said(EXHAUSTED, 400), *world.submissions]
    with world.serving():
        assert pay(world).is_completed
        assert len(set(world.submitted)) == 1
        assert len(world.submitted) == 3
    # Without one that was just given there is nothing to wait for.
    with World(allowance=CAP, submissions=[said(EXHAUSTED, 400)]).serving() as world:
        with pytest.raises(RetryLater):
            pay(world)
        assert len(world.submitted) == 1


def rename(member: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.case["defaults"][ORDER.chain_id][member] = OTHER

    return change


def test_a_pin_of_tron_says_nothing_on_an_evm_chain() -> None:
    on_tron = Pins(permit2="TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9")
    with World().serving() as world:
        assert pay(world, on_tron).is_completed
    world = World()
    rename("permit2")(world)
    with world.serving():
        with pytest.raises(PinMismatch):
            pay(world, on_tron)
        with pytest.raises(ValueError, match=r"Pins\.permit2: 0x12 is not an EVM address"):
            pay(world, Pins(permit2="0x12"))
        assert world.sent == []


def test_an_account_that_is_none_is_noticed_before_anything_is_sent() -> None:
    world = World()
    world.case["defaults"][ORDER.chain_id] |= {"releaser": "0x12", "fulfillment_verifier": None}
    with world.serving():
        with pytest.raises(NotSigned, match="releaser: 0x12 is not an EVM address"):
            pay(world)
        assert (world.sent, world.submitted) == ([], [])


def delay(world: World) -> None:
    # Of the destination alone: the longest of the payment's chains counts.
    world.case["defaults"][ORDER.chains[1]]["refund_delay_seconds"] = 3 * 10**9


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (rename("escrow_contract_address"), PinMismatch),
        (rename("reserver"), PinMismatch),
        (rename("releaser"), PinMismatch),
        (rename("permit2"), PinMismatch),
        (delay, LimitExceeded),
        (lambda world: setattr(world, "chain_id", 1), NodeError),
        (lambda world: setattr(world, "base_fee", hex(10**15)), LimitExceeded),
        (lambda world: setattr(world, "gas", hex(10**15)), LimitExceeded),
        (lambda world: setattr(world, "gas", "-0x1"), NodeError),
        (lambda world: setattr(world, "gas", None), NodeError),
    ],
)
def test_nothing_is_sent_while_gateway_or_node_are_not_what_they_should_be(
    change: Callable[[World], None], kind: type[Exception]
) -> None:
    world = World()
    own = world.case["defaults"][ORDER.chain_id]
    pins = Pins(own["escrow_contract_address"], own["reserver"], own["releaser"])
    change(world)
    with world.serving():
        with pytest.raises(kind):
            pay(world, pins)
        assert (world.sent, world.submitted) == ([], [])


def test_nothing_is_submitted_under_another_id() -> None:
    world = World(allowance=CAP)
    world.case["prepared"]["payment_id"] = "pay_" + "a" * 52
    with world.serving():
        with pytest.raises(NotSigned, match="another id"):
            pay(world)
        assert world.submitted == []


def test_an_allowance_that_reverts_ends_it() -> None:
    with World(receipt={"status": "0x0"}).serving() as world:
        with pytest.raises(NodeError, match="reverted"):
            pay(world)
        assert world.submitted == []


def test_a_refusal_is_an_error_and_a_failed_payment_is_not() -> None:
    refusal = {"code": "INVALID_DEADLINE", "message": "quote_deadline: is past"}
    with World(submissions=[said(refusal, 400)]).serving() as world:
        with pytest.raises(FaultyRequest) as refused:
            pay(world)
        assert refused.value.field == "quote_deadline"
    failed = {"payment_id": ORDER.payment_id, "status": "failed", "idempotent_replay": False}
    error = {"code": "NO_QUOTES_RECEIVED", "message": "x"}
    with World(submissions=[said({**failed, "error": error})]).serving() as world:
        payment = pay(world)
        assert (payment.is_completed, payment.error) == (False, error)


def test_a_wallet_pays_for_its_own_account_alone() -> None:
    other = replace(ORDER, source=owned(ORDER.source["asset_identifier"], OTHER))
    with World().serving() as world, Gateway(world.url) as gateway, pytest.raises(ValueError, match="the wallet is that of"):
        gateway.pay(other, world.wallet)
    with World().serving() as world, Gateway(world.url) as gateway, pytest.raises(ValueError, match="at most"):
        gateway.pay(replace(ORDER, max_source_amount=None), world.wallet)


def test_a_quote_is_awarded_for_its_own_deadlines_and_document() -> None:
    case = next(case for case in CASES if case["name"] == "award-evm-to-evm")
    order = Order.of(case["order"])
    deadlines = {name: case["order"][name] for name in ("quote_deadline", "fulfillment_deadline")}
    batch: dict[str, Any] = {"quote_request_id": "qrq_1", "status": "ready", "quotes": [case["quote"]], **deadlines}

    def chosen(quote_id: str, **others: Any) -> Choice:
        return Choice(cast(QuoteRequestRead, {**batch, **others}), quote_id)

    choice = chosen(case["quote"]["quote_id"])
    with World(case=case).serving() as world, Gateway(world.url) as gateway:
        assert gateway.pay(order, world.wallet, choice=choice).is_completed
        # Asked for without deadlines, they are the quote-request's.
        gateway.pay(replace(order, quote_deadline=None, fulfillment_deadline=None), world.wallet, choice=choice)
        bodies = [json.loads(body) for body in world.submitted]
        assert [body["quote_id"] for body in bodies] == [case["quote"]["quote_id"]] * 2
        assert {name for body in bodies for name in body} == {"version", "request_id", "quote_id", "sender_auth"}
        assert "/v1/payments/quote-requests/qrq_1/award" in world.asked

        later = chosen(choice.quote_id, fulfillment_deadline="2026-12-31T00:00:00Z")
        with pytest.raises(NotSigned, match="other deadlines"):
            gateway.pay(order, world.wallet, choice=later)
        with pytest.raises(ValueError, match="has no quote"):
            gateway.pay(order, world.wallet, choice=chosen("quo_1"))
        document = {**case["quote"]["fulfillment_quote"], "deliveryAccount": OTHER}
        other = chosen(choice.quote_id, quotes=[{**case["quote"], "fulfillment_quote": document}])
        with pytest.raises(NotSigned, match="its document"):
            gateway.pay(order, world.wallet, choice=other)
        assert len(world.submitted) == 2
