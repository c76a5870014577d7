"""Batches: one signature for many payments. What a gateway prepares is signed where it is the batch of the payer's own orders,
and whatever is changed in it is noticed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
import rlp  # type: ignore[import-untyped]
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.address import to_checksum_address

from batch_world import (
    OWN,
    TOKEN,
    WRAPPED,
    BatchWorld,
    Data,
    accepted,
    asked,
    digest,
    members,
    orders,
    typed_data,
)
from gateway_client import (
    AsyncGateway,
    BatchMismatch,
    FaultyRequest,
    Gateway,
    Limits,
    NeedsReconciling,
    NoAnswer,
    NotSigned,
    Order,
    PaymentBatch,
    PinMismatch,
    Pins,
    Terms,
    batch_request,
    evm,
    owned,
    terms,
)
from gateway_client.escrow_abi import selector, word
from gateway_client.trust import PERMIT2, BatchTerms
from server import SILENCE, Said, said

OTHER = "0x00000000000000000000000000000000deadbeef"
APPROVE = selector("approve(address,uint256)") + word(bytes.fromhex(PERMIT2[2:]))
TOKENS = [bytes.fromhex(asset.rpartition("0x")[2]) for asset in (TOKEN, WRAPPED)]


def pay(world: BatchWorld, batch: list[Order], **options: Any) -> PaymentBatch:
    with Gateway(world.url) as gateway:
        return gateway.pay_batch(batch, world.wallet, **options)


def calls(world: BatchWorld) -> list[tuple[bytes, int, bytes]]:
    """Receiver, value and data of what was sent."""
    decoded = [rlp.decode(raw[1:]) for raw in world.sent]
    return [(one[5], int.from_bytes(one[6], "big"), one[7]) for one in decoded]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 256])
def test_payments_are_paid_for_one_signature(count: int) -> None:
    with BatchWorld(allowance=10**13, balance=10**13).serving() as world:
        batch = pay(world, orders(count))
        assert [one.order.request_id for one in batch.payments] == [f"order-{at}" for at in range(count)]
        assert all(one.is_accepted and one.error is None for one in batch.payments)
        assert (world.sent, batch.sent.approvals) == ([], [])
        [submitted] = world.submitted
        body = json.loads(submitted)
        assert body == batch.body
        auth = body.pop("sender_auth")
        assert [body] == world.prepared
        [message] = auth["signed_messages"]
        assert (auth["message_scheme"], message.keys()) == ("EVM_PERMIT2_BATCH", {"message", "signature"})
        data = typed_data(body)
        assert message["message"] == digest(data)
        assert batch.terms
        assert str(evm.Batch.of(batch.terms).nonce) == data["message"]["nonce"]
        signer = Account.recover_message(encode_typed_data(full_message=data), signature=message["signature"])
        assert signer.lower() == world.wallet.account
        assert len(submitted) < 1500 + 250 * count


def test_it_is_paid_on_an_event_loop() -> None:
    with BatchWorld(allowance=10**13).serving() as world:

        async def paid() -> PaymentBatch:
            async with AsyncGateway(world.url) as gateway:
                return await gateway.pay_batch(orders(2), world.wallet)

        assert [one.is_accepted for one in anyio.run(paid).payments] == [True, True]


def test_what_payments_have_in_common_stands_once() -> None:
    def more(at: int) -> Data:
        return {"members": {"settler_requirements": {}}} if at else {}

    timed = [order.timed(2 * 10**9) for order in orders(3, more)]
    body: Data = dict(batch_request(timed, 7))
    payments = body.pop("payments")
    assert sorted(body) == ["destination", "fulfillment_deadline", "quote_deadline", "reserve_deadline", "source", "version"]
    assert ["settler_requirements" in one for one in payments] == [False, True, True]
    assert ["source" in one for one in payments] == [False, True, False]
    assert [{**body, **one} for one in payments] == [{**order.body(), "reserve_deadline": 7} for order in timed]


def of(path: str, value: Any) -> Callable[[Data], None]:
    """Writes a member of typed data."""
    *above, last = path.split(".")

    def write(data: Any) -> None:
        for step in above:
            data = data[int(step) if isinstance(data, list) else step]
        data[last] = value(data[last]) if callable(value) else value

    return write


def more_by(amount: int) -> Callable[[str], str]:
    return lambda text: str(int(text) + amount)


CHANGES: dict[str, tuple[str, Callable[[Data], Any]]] = {
    "another root": ("message.witness.payments", of("message.witness.payments", "0x" + "11" * 32)),
    "another escrow": ("message.witness.escrow", of("message.witness.escrow", OTHER)),
    "another nonce": ("message.nonce", of("message.nonce", "7")),
    "a later deadline": ("message.deadline", of("message.deadline", more_by(1))),
    "an earlier deadline": ("message.deadline", of("message.deadline", more_by(-1))),
    "another spender": ("message.spender", of("message.spender", OTHER)),
    "the escrow as spender": ("message.spender", of("message.spender", OWN["escrow_contract_address"])),
    "one more token": (
        "message.permitted.length",
        lambda data: data["message"]["permitted"].append({"token": "0x" + "ff" * 20, "amount": "1"}),
    ),
    "a token less": ("message.permitted.length", lambda data: data["message"]["permitted"].pop()),
    "a larger sum": ("message.permitted[0].amount", of("message.permitted.0.amount", more_by(1))),
    "a smaller sum": ("message.permitted[1].amount", of("message.permitted.1.amount", more_by(-1))),
    "another token": ("message.permitted[0].token", of("message.permitted.0.token", OTHER)),
    "another order of tokens": ("message.permitted[0].token", lambda data: data["message"]["permitted"].reverse()),
    "another chain": ("domain.chainId", of("domain.chainId", 1)),
    "another Permit2": ("domain.verifyingContract", of("domain.verifyingContract", OTHER)),
    "another name": ("domain.name", of("domain.name", "Permit3")),
    "a member more": ("message.members", lambda data: data["message"].update(more="1")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_signed_that_is_not_the_batch_of_the_orders(change: str) -> None:
    member, edit = CHANGES[change]
    # What is changed is hashed, or only shown.
    for is_hashed in (True, False):

        def prepare(body: Data, is_hashed: bool = is_hashed) -> Said:
            try:
                answer = asked(body, edit)
            except ValueError:  # not all that is changed can be hashed
                answer = asked(body)
            honest = asked(body)["signed_messages"][0]
            if not is_hashed:
                answer["signed_messages"][0]["message"] = honest["message"]
            return said(answer)

        with BatchWorld(prepare=prepare).serving() as world:
            if change == "a member more" and is_hashed:
                continue
            with pytest.raises(BatchMismatch) as refused:
                pay(world, orders(3))
            assert refused.value.member == member
            assert (world.sent, world.submitted) == ([], [])


def test_other_types_are_not_signed() -> None:
    def widened(data: Data) -> None:
        data["types"]["TokenPermissions"].append({"name": "feeTo", "type": "address"})
        for one in data["message"]["permitted"]:
            one["feeTo"] = OTHER

    with BatchWorld(prepare=lambda body: said(asked(body, widened))).serving() as world:
        with pytest.raises(NotSigned, match="types are not"):
            pay(world, orders(2))
        assert (world.sent, world.submitted) == ([], [])


ANSWERS: dict[str, Callable[[Data], Data]] = {
    "message_scheme": lambda _: {"message_scheme": "EVM_PERMIT2_ESCROW"},
    "signed_messages.length": lambda answer: {"signed_messages": answer["signed_messages"] * 2},
    "reserve_deadline": lambda answer: {"reserve_deadline": answer["reserve_deadline"] - 1},
    "payments.length": lambda answer: {"payments": answer["payments"][1:]},
    "payments[0].payment_id": lambda answer: {"payments": answer["payments"][::-1]},
    "signed_messages[0].message": lambda answer: {
        "signed_messages": [{**answer["signed_messages"][0], "message": "0x" + "22" * 32}]
    },
}


@pytest.mark.parametrize("member", ANSWERS)
def test_an_answer_that_is_not_about_the_batch_is_not_signed(member: str) -> None:
    def prepare(body: Data) -> Said:
        honest = asked(body)
        return said({**honest, **ANSWERS[member](honest)})

    with BatchWorld(prepare=prepare).serving() as world:
        with pytest.raises(BatchMismatch) as refused:
            pay(world, orders(3))
        assert refused.value.member == member
        assert (world.sent, world.submitted) == ([], [])


@pytest.mark.parametrize("messages", [[{}], ["0x"], [{"message": "0x", "message_prehash": "nothing", "payload": {}}]])
def test_a_message_that_is_none_is_not_signed(messages: list[Any]) -> None:
    with BatchWorld(prepare=lambda body: said({**asked(body), "signed_messages": messages})).serving() as world:
        with pytest.raises(NotSigned):
            pay(world, orders(2))
        assert world.submitted == []


def test_addresses_are_alike_however_they_are_written() -> None:
    def written(data: Data) -> None:
        message = data["message"]
        message["spender"] = to_checksum_address(message["spender"])
        for one in message["permitted"]:
            one["token"] = to_checksum_address(one["token"])

    with BatchWorld(allowance=10**13, prepare=lambda body: said(asked(body, written))).serving() as world:
        assert all(one.is_accepted for one in pay(world, orders(2)).payments)


@pytest.mark.parametrize("name", ["escrow", "reserver", "releaser", "permit2"])
def test_whom_the_payer_does_not_know_is_refused(name: str) -> None:
    with BatchWorld().serving() as world:
        with pytest.raises(PinMismatch):
            pay(world, orders(2), pins=Pins(**{name: OTHER}))
        assert (world.prepared, world.sent) == ([], [])


def only(at: int, change: Data) -> Callable[[int], Data]:
    return lambda n: change if n == at else {}


def test_orders_that_are_no_batch_are_refused_before_anybody_is_asked() -> None:
    elsewhere = owned(TOKEN.replace("31337", "1"), orders(1)[0].account)
    with BatchWorld().serving() as world:
        for batch, rule in (
            ([], "1 to 256"),
            (orders(257), "1 to 256"),
            (orders(3, only(2, {"request_id": "order-0"})), r"payments\[2\].*request_id order-0"),
            (orders(3, only(2, {"source": elsewhere})), r"payments\[2\].*one chain"),
            (orders(3, only(2, {"source": owned(TOKEN, OTHER)})), r"payments\[2\].*pays"),
            (
                orders(3, only(2, {"source": {**elsewhere, "asset_identifier": "eip155:31337/slip44:60"}})),
                r"payments\[2\].*ERC-20",
            ),
            (orders(3, only(1, {"max_source_amount": None})), r"payments\[1\].*at most"),
            (orders(3, only(1, {"originator": "did:key:z"})), r"payments\[1\].*originator"),
            (orders(3, only(1, {"members": {"proof": {}}})), r"payments\[1\].*proof"),
        ):
            with pytest.raises(ValueError, match=rule):
                pay(world, batch)
        assert world.asked == []
        divided = orders(3, only(1, {"members": {"escrow_contract_address": OTHER}}))
        with pytest.raises(ValueError, match=r"payments\[1\].*one escrow"):
            pay(world, divided)
        with pytest.raises(ValueError, match="reserve_deadline is after"):
            pay(world, orders(2), reserve_deadline=2**40)
        assert (world.prepared, world.sent) == ([], [])


def test_payments_are_deposited_up_to_the_second_that_the_payer_names() -> None:
    until = int(time.time()) + 60
    with BatchWorld(allowance=10**13).serving() as world:
        pay(world, orders(2), reserve_deadline=until)
        assert [json.loads(body)["reserve_deadline"] for body in world.submitted] == [until]


def test_each_token_is_allowed_for_all_payments_together() -> None:
    batch = orders(4)
    sums = [
        sum(order.max_source_amount or 0 for order in batch if order.source["asset_identifier"] == one)
        for one in (TOKEN, WRAPPED)
    ]
    with BatchWorld(allowance=1).serving() as world:
        paid = pay(world, batch)
        amounts = [(token, amount) for token, total in zip(TOKENS, sums, strict=True) for amount in (0, total)]
        assert calls(world) == [(token, 0, APPROVE + word(amount)) for token, amount in amounts]
        # What was prepared before is prepared again.
        assert (len(paid.sent.approvals), len(world.prepared)) == (4, 2)
    with BatchWorld().serving() as world:
        pay(world, batch, allowance=2**256 - 1)
        assert calls(world) == [(token, 0, APPROVE + word(2**256 - 1)) for token in TOKENS]
    with BatchWorld().serving() as world:
        with pytest.raises(ValueError, match="less than may be drawn"):
            pay(world, batch, allowance=sums[0] - 1)
        assert world.sent == []


def test_coins_are_wrapped_for_what_is_missing_where_order_and_gateway_say_so() -> None:
    batch = orders(2, only(1, {"max_source_amount": 10**10 + 7}))
    with BatchWorld(allowance=10**13).serving() as world:
        paid = pay(world, batch, wrap=True)
        assert calls(world) == [(TOKENS[1], 7, selector("deposit()"))]
        assert len(paid.sent.wrapped) == 1
        with pytest.raises(NotSigned, match="wraps coins"):
            pay(world, batch[:1], wrap=True)


def test_a_gateway_that_does_not_see_the_allowance_yet_is_asked_again(pauses: list[float]) -> None:
    late = {"code": "INSUFFICIENT_ALLOWANCE", "message": "x", "retry_classification": "RETRY_AFTER_DELAY"}
    world = BatchWorld()
    world.prepare = lambda body: said(late, 400) if len(world.prepared) in (2, 3) else said(asked(body))
    world.accept = lambda body, tries: said(accepted(body, lambda at: {"error": late} if tries == 1 and at == 0 else {}))
    with world.serving():
        assert all(one.is_accepted for one in pay(world, orders(2)).payments)
        assert (len(world.prepared), len(world.submitted), len(set(world.submitted))) == (4, 2, 1)
    # Without one that was just given there is nothing to wait for.
    poor = BatchWorld(allowance=10**13, accept=lambda body, _: said(accepted(body, lambda _: {"error": late})))
    with poor.serving():
        errors = [one.error for one in pay(poor, orders(2)).payments]
        assert [error.code for error in errors if error] == ["INSUFFICIENT_ALLOWANCE"] * 2
        assert len(poor.submitted) == 1


def test_an_answer_that_is_lost_is_asked_for_again_with_the_same_body(pauses: list[float]) -> None:
    later = {"code": "SERVICE_UNAVAILABLE", "message": "x", "retry_classification": "RETRY_AFTER_DELAY"}

    def accept(body: Data, tries: int) -> Said:
        if tries <= 4:
            return SILENCE
        return said(later, 503) if tries == 5 else said(accepted(body, lambda _: {"idempotent_replay": True}))

    with BatchWorld(allowance=10**13, accept=accept).serving() as world:
        batch = pay(world, orders(3))
        assert all(one.status and one.status.get("idempotent_replay") for one in batch.payments)
        assert (len(world.submitted), len(set(world.submitted))) == (6, 1)


def test_where_every_window_has_passed_it_is_said_that_nothing_is_known(pauses: list[float]) -> None:
    past: Data = {"quote_deadline": "2026-01-01T00:00:00Z", "fulfillment_deadline": "2026-01-01T00:02:00Z"}
    with BatchWorld(allowance=10**13, accept=lambda *_: SILENCE).serving() as world, pytest.raises(NoAnswer):
        pay(world, orders(2, lambda _: past))


def test_a_refused_payment_is_an_error_in_its_place(pauses: list[float]) -> None:
    refusal = {"code": "UNSUPPORTED_ASSET", "message": "destination: no", "retry_classification": "NOT_RETRYABLE_FIX_REQUEST"}
    unknown = {"code": "OUTCOME_UNKNOWN", "message": "x", "retry_classification": "RECONCILE_THEN_DECIDE"}

    def accept(body: Data, tries: int) -> Said:
        return said(
            accepted(body, lambda at: {"error": refusal} if at == 1 else {"error": unknown} if at == 2 and tries < 3 else {})
        )

    with BatchWorld(allowance=10**13, accept=accept).serving() as world:
        batch = pay(world, orders(4))
        assert [one.is_accepted for one in batch.payments] == [True, False, True, True]
        error = batch.payments[1].error
        assert isinstance(error, FaultyRequest)
        assert (error.status, error.field) == (400, "destination")
        # That of which nothing is known was asked for again.
        assert (len(world.submitted), len(set(world.submitted))) == (3, 1)


def test_what_was_answered_before_is_not_lost(pauses: list[float]) -> None:
    unknown = {"code": "OUTCOME_UNKNOWN", "message": "x", "retry_classification": "RECONCILE_THEN_DECIDE"}
    over = {"code": "INVALID_DEADLINE", "message": "x", "retry_classification": "NOT_RETRYABLE_FIX_REQUEST"}

    def accept(body: Data, tries: int) -> Said:
        return said(over, 400) if tries > 1 else said(accepted(body, lambda at: {"error": unknown} if at else {}))

    with BatchWorld(allowance=10**13, accept=accept).serving() as world:
        one, other = pay(world, orders(2)).payments
        assert one.is_accepted
        assert isinstance(other.error, NeedsReconciling)


def test_a_refusal_of_all_is_raised_and_what_is_not_its_payment_is_noticed() -> None:
    refusal = {"code": "INVALID_REQUEST", "message": "payments[1].destination: no"}
    for world in (
        BatchWorld(prepare=lambda _: said(refusal, 400)),
        BatchWorld(allowance=10**13, accept=lambda *_: said(refusal, 400)),
    ):
        with world.serving():
            with pytest.raises(FaultyRequest) as refused:
                pay(world, orders(2))
            assert refused.value.field == "payments[1].destination"
    for edit in (lambda payments: payments[::-1], lambda payments: payments[1:], lambda payments: [*payments, payments[0]]):

        def accept(body: Data, _: int, edit: Callable[[list[Data]], list[Data]] = edit) -> Said:
            return said({"payments": edit(accepted(body)["payments"])})

        with BatchWorld(allowance=10**13, accept=accept).serving() as world, pytest.raises(BatchMismatch):
            pay(world, orders(2))


def test_payments_of_an_earlier_try_are_found_and_the_others_are_paid() -> None:
    with BatchWorld(allowance=10**13, known={"order-0", "order-2"}).serving() as world:
        batch = pay(world, orders(4))
        assert [one.status and one.status["status"] for one in batch.payments] == ["finalizing", "pending"] * 2
        [body] = map(json.loads, world.submitted)
        assert [one["request_id"] for one in members(body)] == ["order-1", "order-3"]
        world.known |= {"order-1", "order-3"}
        again = pay(world, orders(4))
        assert ([one.is_accepted for one in again.payments], again.body) == ([True] * 4, None)
        assert len(world.submitted) == 1
    with BatchWorld(allowance=10**13).serving() as world:
        pay(world, orders(4))
        assert world.asked.count("/v1/payments/resolve") == 1


def known_terms(count: int) -> BatchTerms:
    defaults = BatchWorld().case["defaults"]
    now = time.time()
    payments: list[Terms] = [terms(order.timed(now), defaults, Pins(), Limits()) for order in orders(count)]
    return BatchTerms(payments, min(one.fulfillment_deadline for one in payments))


def test_the_check_alone() -> None:
    known = known_terms(3)
    body = batch_request([one.order for one in known.payments], known.reserve_deadline)
    honest: Any = asked(dict(body))
    checked = evm.check_batch(known, honest)
    assert "0x" + checked.digest.hex() == honest["signed_messages"][0]["message"]
    assert evm.Batch.of(known).nonce == int(json.loads(honest["signed_messages"][0]["message_prehash"])["message"]["nonce"])
    late = replace(known, reserve_deadline=known.reserve_deadline + 1)
    with pytest.raises(NotSigned, match="too late"):
        evm.check_batch(late, honest | {"reserve_deadline": late.reserve_deadline})
    first = known.payments[0]
    with pytest.raises(ValueError, match="no quote"):
        evm.Batch.of(replace(known, payments=[replace(first, quote_hash=b"\x01" * 32)]))
    with pytest.raises(ValueError, match="one payer"):
        evm.Batch.of(replace(known, payments=[first, replace(first, escrow=OTHER)]))
    many = [
        replace(first, order=replace(first.order, source=owned(f"eip155:31337/erc20:0x{n:040x}", first.order.account)))
        for n in range(9)
    ]
    with pytest.raises(ValueError, match="8 tokens"):
        evm.Batch.of(replace(known, payments=many))
