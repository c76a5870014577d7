"""Opening a payment by deposit address: what is asked of a gateway, and what of its answer reaches the caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from address_world import EVM, SOLANA, TRON, Given, Side
from gateway_client import (
    AddressMismatch,
    AsyncGateway,
    Gateway,
    GatewayError,
    NoAnswer,
    Order,
    Pins,
    StaleAddress,
    new_caller_secret,
    owned,
)
from gateway_client.evm import Addressed
from gateway_client.keccak import keccak256
from gateway_client.order import payment_id, rfc3339, unix
from server import SILENCE, Said, Seen, said, serving

each = pytest.mark.parametrize("side", [EVM, SOLANA, TRON], ids=str)


@contextmanager
def gateway(edit: Callable[[Given], Any] = lambda answer: None, side: Side = EVM) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A gateway that gives addresses, and what it was asked."""
    asked: list[tuple[str, Any]] = []

    def answer(seen: Seen) -> Said:
        url = urlsplit(seen.path)
        if url.path == "/v1/defaults":
            return said(side.case["defaults"][parse_qs(url.query)["chain_id"][0]])
        if seen.method != "POST":
            return SILENCE
        asked.append((seen.path, json.loads(seen.body)))
        order, secret = Order.of(asked[0][1]), seen.headers.get("caller-secret")
        if not url.path.endswith("/address"):
            return said(side.batch(order, secret))
        id = side.batch_id(secret)
        if id not in url.path:
            return said({"code": "INVALID_PROOF", "message": "Caller-Secret: it has to come"}, 401)
        own, wanted = side.payment_id(secret), asked[-1][1]

        def changed(one: Given) -> None:
            one["terms"]["deposit"]["payment_id"] = "0x" + keccak256(own.encode()).hex()
            one.update(wanted)

        body: Given = {
            "payment_id": own,
            "status": "pending",
            "idempotent_replay": False,
            "deposit_address": side.give(changed, order),
        }
        edit(body)
        return said(body)

    with serving(answer) as server:
        yield server.url, asked


def untimed(side: Side = EVM) -> Order:
    return replace(side.order, quote_deadline=None, fulfillment_deadline=None)


@each
def test_an_address_is_opened_by_order_batch_and_comparison(side: Side) -> None:
    pay_by = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=60)

    async def opened(url: str) -> Addressed:
        async with AsyncGateway(url) as client:
            return await client.open_address(untimed(side), pay_by=pay_by, pins=side.pins)

    def of(url: str) -> Addressed:
        with Gateway(url) as client:
            return client.open_address(untimed(side), pay_by=pay_by, pins=side.pins)

    for call in (of, lambda url: asyncio.run(opened(url))):
        with gateway(side=side) as (url, asked):
            addressed = call(url)
        id = side.batch_id()
        assert [path for path, _ in asked] == ["/v1/payments/quote-requests", f"/v1/payments/quote-requests/{id}/address"]
        assert asked[1][1] == {"pay_by": rfc3339(pay_by.timestamp())}
        assert (addressed.quote_request_id, addressed.payment_id, addressed.believed) == (id, side.payment_id(), {})
        assert addressed.address.address == addressed.address.terms.address == addressed.accepted["deposit_address"]["address"]
        assert addressed.address.pay_by == pay_by
        # An exchange takes its time.
        assert unix(addressed.order.fulfillment_deadline) - pay_by.timestamp() > 3500


def test_what_an_address_rests_on_is_said_with_it() -> None:
    with gateway(side=TRON) as (url, _), Gateway(url) as client:
        addressed = client.open_address(untimed(TRON), pins=replace(TRON.pins, releaser=None, deposit_address_factory=None))
        assert addressed.believed == {
            "releaser": TRON.defaults["releaser"],
            "deposit_address_factory": TRON.written(TRON.factory),
        }
        with pytest.raises(AddressMismatch, match="factory"):
            client.open_address(untimed(TRON), pins=Pins(deposit_address_factory=TRON.other))
    with gateway(side=SOLANA) as (url, _), Gateway(url) as client:
        said = {"escrow": SOLANA.defaults["escrow_contract_address"]}
        assert client.open_address(untimed(SOLANA), pins=replace(SOLANA.pins, escrow=None)).believed == said


def test_a_secret_goes_along_with_both_calls_and_is_made_by_nobody_but_the_caller() -> None:
    secret = new_caller_secret()
    assert len(secret) == 32
    assert secret != new_caller_secret()
    id = EVM.batch_id(secret)

    async def later(url: str) -> Addressed:
        async with AsyncGateway(url) as client:
            assert (await client.deposit_address(id, caller_secret=secret))["status"] == "pending"
            return await client.open_address(untimed(), caller_secret=secret)

    with gateway() as (url, _), Gateway(url) as client:
        addressed = client.open_address(untimed(), caller_secret=secret)
        assert (addressed.quote_request_id, addressed.caller_secret) == (id, secret)
        # A retry with both finds the same.
        assert asyncio.run(later(url)).payment_id == addressed.payment_id
        assert client.deposit_address(id, caller_secret=secret)["payment_id"] == addressed.payment_id
        with pytest.raises(GatewayError, match="INVALID_PROOF"):
            client.deposit_address(id)
        # The id depends on it, so that one which the caller does not know would be lost in a crash.
        plain = client.open_address(untimed())
    assert (plain.quote_request_id, plain.caller_secret) == (EVM.batch_id(), None)


def test_what_was_asked_for_before_is_not_paid_again_nor_up_to_the_time_of_somebody_else() -> None:
    def until(seconds: float) -> Callable[[Given], Any]:
        return lambda answer: answer["deposit_address"].update(pay_by=rfc3339(datetime.now(UTC).timestamp() + seconds))

    soon = datetime.now(UTC) + timedelta(seconds=600)
    for member, edit, asked in (
        ("status", lambda answer: answer.update(status="failed"), None),
        ("status", lambda answer: answer.update(status="completed"), None),
        ("pay_by", until(2), None),
        ("pay_by", until(-60), None),
        ("pay_by", until(900), soon),
    ):
        with gateway(edit) as (url, _), Gateway(url) as client, pytest.raises(StaleAddress) as refused:
            client.open_address(untimed(), pay_by=asked)
        assert refused.value.member == member


def test_an_address_that_is_not_the_orders_is_not_given_to_the_caller() -> None:
    changes: list[tuple[str, Callable[[Given], Any]]] = [
        ("address", lambda answer: answer["deposit_address"].update(address=EVM.other)),
        ("payment_id", lambda answer: answer.update(payment_id=payment_id("eip155:0x1", "another"))),
    ]
    for member, edit in changes:
        with gateway(edit) as (url, _), Gateway(url) as client, pytest.raises(AddressMismatch) as refused:
            client.open_address(untimed())
        assert refused.value.member == member
    with (
        gateway(lambda answer: answer.pop("deposit_address", None)) as (url, _),
        Gateway(url, patience_seconds=0) as client,
        pytest.raises(NoAnswer),
    ):
        client.open_address(untimed())


def test_what_fits_no_address_is_not_asked_for() -> None:
    cluster, account = SOLANA.order.chain_id, EVM.order.account
    assets = [
        "eip155:31337/slip44:60",
        "tron:31339/slip44:195",
        f"{cluster}/slip44:501",
        f"{cluster}/token:{EVM.other}",
        "bip122:000000000019d6689c085ae165831e93/slip44:0",
    ]
    with gateway() as (url, asked), Gateway(url) as client:
        for order in (
            *(replace(untimed(), source=owned(asset, account)) for asset in assets),
            replace(untimed(), max_source_amount=None),
            replace(untimed(), originator="did:key:z6Mk"),
            replace(untimed(), members={"proof": {}}),
        ):
            with pytest.raises(ValueError, match=r"an ERC-20|not a TRC-20|not a token of Solana|max_source_amount|envelope"):
                client.open_address(order)
    assert asked == []
