"""Deposit addresses: what a gateway gives is taken where it is that of the order, and whatever is changed in it is noticed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from eth_abi.abi import decode, encode

from address_world import DEPLOYER, EVM, HASH, TERMS, TRON, ZERO, Given, Side, create, create2, creation
from gateway_client import (
    AddressMismatch,
    AsyncGateway,
    Gateway,
    GatewayError,
    LimitExceeded,
    Limits,
    NoAnswer,
    NotSigned,
    Order,
    PinMismatch,
    Pins,
    StaleAddress,
    believed,
    new_caller_secret,
)
from gateway_client.evm import (
    ADDRESS_IMPLEMENTATION,
    DEPOSIT_ADDRESSES,
    Addressed,
    AddressTerms,
    address_terms,
    check_address,
    give_back_call,
)
from gateway_client.keccak import keccak256
from gateway_client.order import payment_id, rfc3339, unix
from gateway_client.schemas import ChainDefaults, PaymentResponse, QuoteRequestRead
from gateway_client.tron import AddressTerms as TronTerms
from server import SILENCE, Said, Seen, said, serving

Edit = Callable[[Side, Given], Any]
both = pytest.mark.parametrize("side", [EVM, TRON], ids=str)


def test_the_contract_that_makes_addresses_is_where_its_code_leads() -> None:
    factory = create2(b"\xff", DEPLOYER, bytes(32), creation("DepositAddresses"))
    assert "0x" + factory.hex() == DEPOSIT_ADDRESSES
    assert "0x" + create(factory).hex() == ADDRESS_IMPLEMENTATION


def test_terms_on_tron_have_the_address_that_others_compute() -> None:
    # Made with ethers and TronWeb of contracts/artifacts/DepositAddress.json.
    deposit = {
        "paymentId": b"\1" * 32,
        "termsHash": b"\2" * 32,
        "quoteHash": bytes(32),
        "payer": "TPEuNAEMwtUvMDz8c5U6QQ4d8axDuBbeXH",
        "reserver": "TPLDF75711M4jhc6ogbDkkZa8GsWGQLCe9",
        "releaser": "TPRX83ur48DD8BE51HiM774X7xnndroocs",
        "reserveDeadline": 1_800_000_000,
        "fulfillmentDeadline": 1_800_000_600,
        "refundAfter": 1_800_003_600,
    }
    escrow, token = "TWvo9apiTq74uE5XQwnjt5zGgQ7vUayejH", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
    own = TronTerms(escrow, token, 25_000_000, deposit, "TYHUGdNv8s5hczDosrcuVSrnfbRkXuy1dD")
    assert own.address == "TVF8cdAdWqRaKamYypREyvHzPLBx1EWWnj"
    assert replace(own, factory=escrow).address != own.address


@both
def test_the_address_of_the_order_is_taken(side: Side) -> None:
    given, order = side.give(), side.order
    checked = side.check(given)
    assert checked == side.check(given, side.pins)
    assert (checked.address, checked.uri, checked.refund_account) == (
        side.computed(cast(Given, given)),
        given["uri"],
        order.account,
    )
    assert (checked.chain_id, checked.token, checked.terms.factory) == (order.chain_id, side.token, side.written(side.factory))
    assert (checked.amount, checked.pay_by) == (order.max_source_amount, datetime.fromtimestamp(side.fulfilled - 120, UTC))
    assert checked.terms.encoded == encode([TERMS], [side.values(cast(Given, given))])
    assert checked.terms.deposit["paymentId"] != keccak256(order.payment_id.encode()), "the payment is that of the quote-request"


def deposit(name: str, value: Any) -> Edit:
    return lambda side, given: given["terms"]["deposit"].update({name: value})


def deposit_of_other(name: str) -> Edit:
    return lambda side, given: given["terms"]["deposit"].update({name: side.other})


def late(name: str, seconds: int) -> Edit:
    return lambda side, given: given["terms"]["deposit"].update({name: side.fulfilled + seconds})


def top(**values: Any) -> Edit:
    return lambda side, given: given.update(values)


def by(side: Side, given: Given, **rules: bytes) -> None:
    """The address that a factory or an implementation of somebody else gives these terms."""
    given.update(address=side.computed(given, **rules))


STRANGER = bytes.fromhex("00000000000000000000000000000000deadbeef")
CHANGES: list[tuple[str, Edit]] = [
    ("factory", top(factory=None)),
    ("factory", top(factory="not an account")),
    ("chain_id", top(chain_id="eip155:1")),
    ("chain_id", top(chain_id="tron:1")),
    (
        "asset_identifier",
        lambda side, given: given.update(asset_identifier=given["asset_identifier"].replace(side.token, side.other)),
    ),
    ("amount", top(amount="1")),
    ("refund_account", lambda side, given: given.update(refund_account=side.other)),
    ("pay_by", top(pay_by="soon")),
    ("terms", top(terms=None)),
    ("terms.escrow", lambda side, given: given["terms"].update(escrow=side.other)),
    ("terms.token", lambda side, given: given["terms"].update(token=side.other)),
    ("terms.amount", lambda side, given: given["terms"].update(amount="1")),
    ("terms.deposit.payment_id", deposit("payment_id", HASH)),
    ("terms.deposit.terms_hash", deposit("terms_hash", HASH)),
    ("terms.deposit.quote_hash", deposit("quote_hash", HASH)),
    ("terms.deposit.payer", deposit_of_other("payer")),
    ("terms.deposit.reserver", deposit_of_other("reserver")),
    ("terms.deposit.releaser", deposit_of_other("releaser")),
    ("terms.deposit.fulfillment_deadline", late("fulfillment_deadline", 1)),
    ("terms.deposit.reserve_deadline", late("reserve_deadline", 1)),
    ("terms.deposit.reserve_deadline", late("reserve_deadline", -121)),
    ("terms.deposit.refund_after", late("refund_after", 0)),
    ("terms.deposit.refund_after", late("refund_after", 7200)),
    ("address", lambda side, given: given.update(address=side.other)),
    ("address", lambda side, given: by(side, given, factory=STRANGER)),
    ("address", lambda side, given: by(side, given, implementation=STRANGER)),
    ("uri", lambda side, given: given.update(uri=side.link.format(token=side.other, address=side.other, amount=1))),
    ("uri", top(uri="")),
]


@both
@pytest.mark.parametrize(("member", "edit"), CHANGES)
def test_every_member_that_is_changed_is_noticed(side: Side, member: str, edit: Edit) -> None:
    for pins in (Pins(), side.pins):
        with pytest.raises(AddressMismatch) as refused:
            side.check(side.give(lambda given: edit(side, given)), pins)
        assert refused.value.member == member
        assert str(refused.value).startswith(member)


def named(side: Side, factory: bytes) -> Callable[[Given], Any]:
    """Another factory and its address."""
    return lambda given: given.update(factory=side.written(factory), address=side.computed(given, factory))


def test_another_factory_is_refused_where_the_payer_knows_one() -> None:
    for side, pins in ((EVM, Pins()), (EVM, EVM.pins), (TRON, TRON.pins)):
        with pytest.raises(AddressMismatch, match="factory must be") as refused:
            side.check(side.give(named(side, STRANGER)), pins)
        assert (refused.value.expected, refused.value.found) == (side.written(side.factory), side.other)
    # On EVM chains no pin makes another one right.
    for factory in (STRANGER, EVM.factory):
        with pytest.raises(AddressMismatch, match="factory must be"):
            EVM.check(EVM.give(named(EVM, factory)), Pins(deposit_address_factory=EVM.other))


def test_a_factory_that_nobody_pinned_is_believed_and_listed() -> None:
    said, checked = TRON.defaults, TRON.check(TRON.give(named(TRON, STRANGER)))
    assert checked.terms.factory == TRON.other
    accounts = {"escrow": said["escrow_contract_address"], "reserver": said["reserver"], "releaser": said["releaser"]}
    assert believed(said, Pins(), checked) == {**accounts, "deposit_address_factory": TRON.other}
    assert believed(said, TRON.pins, TRON.check(TRON.give())) == {}
    assert believed(said, Pins()) == accounts, "without an address there is no factory"
    assert "deposit_address_factory" not in believed(EVM.defaults, Pins(), EVM.check(EVM.give())), "it is known"


def test_case_counts_on_tron_alone() -> None:
    def cased(side: Side, path: tuple[str, ...]) -> tuple[Callable[[Given], Any], str]:
        def edit(given: Given) -> None:
            # What is shown does not change where it leads.
            given.update(
                address=side.computed(given), uri=side.link.format(token=side.token, **{**given, "address": side.computed(given)})
            )
            inner = given
            for name in path[:-1]:
                inner = inner[name]
            text = inner[path[-1]]
            at = max(place for place, letter in enumerate(text) if letter.isalpha() and letter.lower() not in "ilox")
            inner[path[-1]] = text[:at] + text[at].swapcase() + text[at + 1 :]

        return edit, ".".join(path)

    paths = [
        ("factory",),
        ("asset_identifier",),
        ("refund_account",),
        ("address",),
        ("uri",),
        ("terms", "escrow"),
        ("terms", "token"),
    ]
    paths += [("terms", "deposit", name) for name in ("payer", "reserver", "releaser")]
    for path in paths:
        EVM.check(EVM.give(cased(EVM, path)[0]), EVM.pins)
        edit, member = cased(TRON, path)
        for pins in (Pins(), TRON.pins):
            with pytest.raises(AddressMismatch) as refused:
                TRON.check(TRON.give(edit), pins)
            assert refused.value.member == member


@both
def test_hashes_have_no_case(side: Side) -> None:
    def edit(given: Given) -> None:
        deposit = given["terms"]["deposit"]
        for name in ("payment_id", "terms_hash", "quote_hash"):
            deposit[name] = deposit[name].upper().replace("X", "x")

    side.check(side.give(edit))


@both
def test_nothing_is_computed_with_accounts_that_are_none_of_the_chain(side: Side) -> None:
    foreign = TRON.other if side is EVM else EVM.other
    defaults = {**side.case["defaults"], side.order.chain_id: {**side.defaults, "escrow_contract_address": foreign}}
    with pytest.raises(NotSigned, match=f"escrow: {foreign} is not an"):
        address_terms(side.order, side.batch(), defaults, Pins(), Limits())
    terms = address_terms(side.order, side.batch(), side.case["defaults"], Pins(), Limits())
    given = side.give()
    given["terms"]["escrow"] = foreign
    with pytest.raises(NotSigned, match=f"{foreign} is not an address of"):
        check_address(replace(terms, escrow=foreign), side.payment(given), now=side.fulfilled - 200)


@pytest.mark.parametrize("permit2", [None, "0x" + "11" * 20, "TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9", "T"])
@pytest.mark.parametrize("named", [None, "TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top"])
def test_on_tron_an_address_has_nothing_to_do_with_permit2(named: str | None, permit2: str | None) -> None:
    own = {**TRON.defaults, **({"permit2": named} if named else {})}
    defaults = cast(Mapping[str, ChainDefaults], {**TRON.case["defaults"], TRON.order.chain_id: own})
    terms = address_terms(TRON.order, TRON.batch(), defaults, replace(TRON.pins, permit2=permit2), Limits())
    given = TRON.give()
    assert check_address(terms, TRON.payment(given), now=TRON.fulfilled - 200) == TRON.check(given)


@both
def test_a_payment_of_another_order_or_without_an_address_is_refused(side: Side) -> None:
    terms = address_terms(side.order, side.batch(), side.case["defaults"], Pins(), Limits())
    other = payment_id("eip155:0x1", "another")
    for member, edit in (("payment_id", {"payment_id": other}), ("deposit_address", {"deposit_address": None})):
        with pytest.raises(AddressMismatch) as refused:
            check_address(terms, cast(PaymentResponse, {**side.payment(side.give()), **edit}))
        assert refused.value.member == member


@both
def test_an_address_of_before_is_refused_whatever_it_is_for(side: Side) -> None:
    end = side.fulfilled - 120
    at = datetime.fromtimestamp(end, UTC)
    for status in ("finalizing", "completed", "failed"):
        with pytest.raises(StaleAddress, match=f"its status must be pending, and is {status}") as refused:
            side.check(side.give(), status=status)
        assert refused.value.member == "status"
    # Requests have whole seconds.
    for now, asked in ((end - 5.0, None), (end - 60.0, at + timedelta(milliseconds=999))):
        assert side.check(side.give(), pay_by=asked, now=now).pay_by == at
    for now, asked in (
        (end - 4.9, None),
        (end + 1, None),
        (end - 60, at - timedelta(seconds=1)),
        (end - 60, at + timedelta(seconds=1)),
    ):
        with pytest.raises(StaleAddress, match="its pay_by must be") as refused:
            side.check(side.give(), pay_by=asked, now=now)
        assert (refused.value.member, refused.value.found) == ("pay_by", rfc3339(end))
        assert refused.value.payment_id == side.payment_id()
    # What is not the order's is not called stale.
    with pytest.raises(AddressMismatch):
        side.check(side.give(lambda given: given.update(address=side.other)), status="failed")


def test_a_time_is_a_number() -> None:
    for value in (None, "soon", -1, True):
        given = EVM.give()
        given["terms"]["deposit"]["reserve_deadline"] = value  # type: ignore[typeddict-item]
        with pytest.raises(NotSigned, match="reserve_deadline"):
            EVM.check(given)


@both
def test_pins_and_limits_hold(side: Side) -> None:
    for name in ("escrow", "reserver", "releaser"):
        with pytest.raises(PinMismatch):
            side.check(side.give(), replace(side.pins, **{name: side.other}))
    with pytest.raises(LimitExceeded):
        side.check(side.give(), limits=Limits(lock_seconds=-(10**9)))


@both
def test_the_batch_has_to_be_of_the_order(side: Side) -> None:
    order, secret = side.order, "correct-horse-battery"

    def terms(of: QuoteRequestRead, secret: str | None = None) -> str:
        return address_terms(order, of, side.case["defaults"], Pins(), Limits(), secret).order.payment_id

    with pytest.raises(NotSigned, match="something else"):
        terms(side.batch(replace(order, amount=1)))
    with pytest.raises(AddressMismatch, match="quote_request_id"):
        terms(side.batch(replace(order, request_id="another")))
    with pytest.raises(AddressMismatch, match="quote_request_id"):
        terms(side.batch(), secret)
    assert terms(side.batch(secret=secret), secret) == side.payment_id(secret) != terms(side.batch())


@both
def test_the_call_that_gives_back_is_the_one_that_the_contract_takes(side: Side) -> None:
    # Of a factory that is pinned, and of one that is not.
    for given in [side.give()] if side is EVM else [side.give(), side.give(named(side, STRANGER))]:
        checked = side.check(given)
        for token in (None, side.written(ZERO), side.other):
            to, data = give_back_call(checked.terms, token)
            assert (to, data[:4]) == (given["factory"], keccak256(f"giveBack({TERMS},address)".encode())[:4])
            terms, moved = decode([TERMS, "address"], data[4:])
            values = side.values(cast(Given, given))
            assert (list(terms[:3]), moved) == (values[:3], "0x" + side.read(token or checked.token).hex())
            assert list(terms[3]) == values[3]


def test_terms_on_an_evm_chain_need_no_factory() -> None:
    checked = EVM.check(EVM.give()).terms
    again = AddressTerms(checked.escrow, checked.token, checked.amount, checked.deposit)
    assert (again, again.factory) == (checked, DEPOSIT_ADDRESSES)


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


@both
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
    solana = {"asset_identifier": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1/slip44:501", "account": EVM.order.account}
    coins = {"asset_identifier": "tron:31339/slip44:195", "account": TRON.order.account}
    with gateway() as (url, asked), Gateway(url) as client:
        for order in (
            replace(untimed(), source=cast(Any, solana)),
            replace(untimed(), source=cast(Any, coins)),
            replace(untimed(), max_source_amount=None),
            replace(untimed(), originator="did:key:z6Mk"),
            replace(untimed(), members={"proof": {}}),
        ):
            with pytest.raises(ValueError, match=r"neither an ERC-20|not a TRC-20|max_source_amount|envelope"):
                client.open_address(order)
    assert asked == []
