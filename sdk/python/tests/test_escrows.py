"""Refunds and claims at the escrow of an EVM chain, beside a node that may lie. Refunds on real chains are in test_refunds.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evm_world import KEY, World
from gateway_client import NodeError, NotDue, claim, refund
from gateway_client.escrow_abi import CLAIM_FOR, DEPOSITED_TOPIC, RECORD_OF, REFUND, RESERVED_TOPIC, selector, word
from gateway_client.keccak import keccak256, on_chain
from test_paying import calls

ESCROW, PAYER, TOKEN = ("0x" + f"{digit}" * 40 for digit in (1, 2, 3))
PAYMENT = "pay_" + "a" * 52
DUE = 1_800_000_000
#: Nine words of the deposit, token and amount.
DEPOSIT = b"".join(map(word, [int.from_bytes(on_chain(PAYMENT)), 2, 0, int(PAYER, 16), 5, 6, 7, 8, DUE, int(TOKEN, 16), 100]))
RESERVATION = b"".join(map(word, [90, 9]))
QUOTE, SETTLER = word(77), word(4)
RESERVED_TERMS = DEPOSIT + QUOTE + SETTLER + RESERVATION
DEPOSITED_TERMS = DEPOSIT + bytes(4 * 32)


def record(state: int = 2, terms: bytes = RESERVED_TERMS, reserved_at: int = 12) -> bytes:
    return b"".join(map(word, [state, 1, 11, reserved_at, 0])) + keccak256(terms)


def answering(answer: bytes) -> Callable[[bytes], bytes]:
    def called(data: bytes) -> bytes:
        assert data == selector(RECORD_OF) + on_chain(PAYMENT)
        return answer

    return called


def log(*topics: bytes, data: bytes) -> dict[str, Any]:
    return {"topics": ["0x" + topic.hex() for topic in topics], "data": "0x" + data.hex()}


def logs(asked: dict[str, Any], quote: bytes = QUOTE) -> list[dict[str, Any]]:
    payment = on_chain(PAYMENT)
    assert asked["address"] == ESCROW
    assert asked["topics"] == [None, "0x" + payment.hex()]
    assert asked["fromBlock"] == asked["toBlock"]
    if asked["fromBlock"] == "0xb":
        return [log(DEPOSITED_TOPIC, payment, bytes(32), word(int(PAYER, 16)), data=DEPOSIT)]
    return [log(RESERVED_TOPIC, payment, quote, SETTLER, data=RESERVATION)]


def test_what_is_overdue_goes_back_with_the_terms_of_the_escrows_own_events() -> None:
    for terms, contract in ((RESERVED_TERMS, record()), (DEPOSITED_TERMS, record(1, DEPOSITED_TERMS, 0))):
        with World(contract=answering(contract), logs=logs, now=DUE).serving() as world:
            back = refund(world.wallet, PAYMENT, escrow=ESCROW)
            assert calls(world) == [(bytes.fromhex(ESCROW[2:]), 0, selector(REFUND) + terms)]
            assert (back.owner, back.amount, len(back.transactions)) == (PAYER, 100, 1)
            # The gateway was not asked.
            assert world.asked == []


def test_what_was_reassigned_goes_back_with_the_terms_of_the_last_settler() -> None:
    def shown(asked: dict[str, Any]) -> list[dict[str, Any]]:
        first = log(RESERVED_TOPIC, on_chain(PAYMENT), word(76), word(3), data=word(100) + word(5))
        return [*logs(asked), first] if asked["fromBlock"] == "0xb" else logs(asked)

    reassigned = b"".join(map(word, [2, 2, 11, 12, 0])) + keccak256(RESERVED_TERMS)
    with World(contract=answering(reassigned), logs=shown, now=DUE).serving() as world:
        back = refund(world.wallet, PAYMENT, escrow=ESCROW)
        assert calls(world) == [(bytes.fromhex(ESCROW[2:]), 0, selector(REFUND) + RESERVED_TERMS)]
        assert (back.owner, back.amount) == (PAYER, 100)


def test_before_its_time_nothing_is_sent() -> None:
    with World(contract=answering(record()), logs=logs, now=DUE - 5).serving() as world:
        with pytest.raises(NotDue, match="in 5 s") as refused:
            refund(world.wallet, PAYMENT, escrow=ESCROW)
        assert refused.value.refund_after == DUE
        assert world.sent == []


@pytest.mark.parametrize(("state", "rule"), [(0, "no deposit"), (3, "released to the settler"), (4, "was refunded")])
def test_what_has_ended_or_never_began_is_not_due(state: int, rule: str) -> None:
    with World(contract=answering(record(state)), logs=logs, now=DUE).serving() as world:
        with pytest.raises(NotDue, match=rule):
            refund(world.wallet, PAYMENT, escrow=ESCROW)
        assert world.sent == []


@pytest.mark.parametrize(
    "world",
    [
        World(contract=answering(record()), logs=lambda asked: logs(asked, word(78)), now=DUE),
        World(contract=answering(record()), logs=lambda _: [], now=DUE),
        World(contract=answering(record()[:-32]), logs=logs, now=DUE),
        World(contract=answering(record()[:-1]), logs=logs, now=DUE),
        World(contract=answering(record(9)), logs=logs, now=DUE),
        World(contract=lambda _: b"", logs=logs, now=DUE),
    ],
    ids=["other events", "no events", "another contract", "no words", "no state", "no contract"],
)
def test_a_node_that_lies_is_found_out(world: World) -> None:
    with world.serving():
        with pytest.raises(NodeError):
            refund(world.wallet, PAYMENT, escrow=ESCROW)
        assert world.sent == []


def test_claims_are_brought_to_their_owner() -> None:
    parties = word(int(PAYER, 16)) + word(int(TOKEN, 16))
    with World(contract=lambda _: word(5)).serving() as world:
        back = claim(world.wallet, escrow=ESCROW, token=TOKEN, owner=PAYER)
        assert calls(world) == [(bytes.fromhex(ESCROW[2:]), 0, selector(CLAIM_FOR) + parties)]
        assert (back.owner, back.amount) == (PAYER, 5)
    with World(contract=lambda _: word(0)).serving() as world, pytest.raises(NotDue, match="nothing"):
        claim(world.wallet, escrow=ESCROW, token=TOKEN, owner=PAYER)
    assert KEY not in str(world.sent)
