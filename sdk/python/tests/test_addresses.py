"""Deposit addresses: what a gateway gives is taken where it is that of the order, and whatever is changed in it is noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from eth_abi.abi import decode

from address_world import DEPLOYER, EVM, HASH, SOLANA, TERMS, TRON, ZERO, ContractSide, Given, Side, create, create2, creation
from gateway_client import (
    AddressMismatch,
    LimitExceeded,
    Limits,
    NotSigned,
    PinMismatch,
    Pins,
    StaleAddress,
    believed,
)
from gateway_client.create2 import Create2Terms
from gateway_client.evm import (
    ADDRESS_IMPLEMENTATION,
    DEPOSIT_ADDRESSES,
    AddressTerms,
    address_terms,
    check_address,
    give_back_call,
)
from gateway_client.keccak import keccak256
from gateway_client.order import payment_id, rfc3339
from gateway_client.schemas import ChainDefaults, PaymentResponse, QuoteRequestRead
from gateway_client.tron import AddressTerms as TronTerms

Edit = Callable[[Side, Given], Any]
each = pytest.mark.parametrize("side", [EVM, SOLANA, TRON], ids=str)


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


@each
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
    assert checked.terms.encoded == side.encoded(cast(Given, given))
    assert checked.terms.deposit["paymentId"] != keccak256(order.payment_id.encode()), "the payment is that of the quote-request"


def deposit(name: str, value: Any) -> Edit:
    return lambda side, given: given["terms"]["deposit"].update({name: value})


def deposit_of_other(name: str) -> Edit:
    return lambda side, given: given["terms"]["deposit"].update({name: side.other})


def late(name: str, seconds: int) -> Edit:
    return lambda side, given: given["terms"]["deposit"].update({name: side.fulfilled + seconds})


def top(**values: Any) -> Edit:
    return lambda side, given: given.update(values)


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
    ("address", lambda side, given: given.update(address=side.computed(given, factory=side.stranger))),
    ("address", lambda side, given: given.update(address=side.misled(given))),
    ("uri", lambda side, given: given.update(uri=side.link.format(token=side.other, address=side.other, amount=1))),
    ("uri", top(uri="")),
]


@each
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
    for side, pins in ((EVM, Pins()), (EVM, EVM.pins), (SOLANA, Pins()), (SOLANA, SOLANA.pins), (TRON, TRON.pins)):
        with pytest.raises(AddressMismatch, match="factory must be") as refused:
            side.check(side.give(named(side, side.stranger)), pins)
        assert (refused.value.expected, refused.value.found) == (side.written(side.factory), side.other)
    # On EVM chains and on Solana no pin makes another one right.
    for side in (EVM, SOLANA):
        for factory in (side.stranger, side.factory):
            with pytest.raises(AddressMismatch, match="factory must be"):
                side.check(side.give(named(side, factory)), Pins(deposit_address_factory=side.other))


def test_a_factory_that_nobody_pinned_is_believed_and_listed() -> None:
    said, checked = TRON.defaults, TRON.check(TRON.give(named(TRON, TRON.stranger)))
    assert checked.terms.factory == TRON.other
    accounts = {"escrow": said["escrow_contract_address"], "reserver": said["reserver"], "releaser": said["releaser"]}
    assert believed(said, Pins(), checked) == {**accounts, "deposit_address_factory": TRON.other}
    assert believed(said, TRON.pins, TRON.check(TRON.give())) == {}
    assert believed(said, Pins()) == accounts, "without an address there is no factory"
    for side in (EVM, SOLANA):
        assert "deposit_address_factory" not in believed(side.defaults, Pins(), side.check(side.give())), "it is known"
    assert believed(SOLANA.defaults, SOLANA.pins, SOLANA.check(SOLANA.give())) == {}


def test_case_counts_where_accounts_are_in_base58() -> None:
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
        for side in (SOLANA, TRON):
            edit, member = cased(side, path)
            for pins in (Pins(), side.pins):
                with pytest.raises(AddressMismatch) as refused:
                    side.check(side.give(edit), pins)
                assert refused.value.member == member


@each
def test_hashes_have_no_case(side: Side) -> None:
    def edit(given: Given) -> None:
        deposit = given["terms"]["deposit"]
        for name in ("payment_id", "terms_hash", "quote_hash"):
            deposit[name] = deposit[name].upper().replace("X", "x")

    side.check(side.give(edit))


@each
def test_nothing_is_computed_with_accounts_that_are_none_of_the_chain(side: Side) -> None:
    foreign = TRON.other if side is EVM else EVM.other
    account = "an account" if side is SOLANA else "an address"
    defaults = {**side.case["defaults"], side.order.chain_id: {**side.defaults, "escrow_contract_address": foreign}}
    with pytest.raises(NotSigned, match=f"escrow: {foreign} is not an"):
        address_terms(side.order, side.batch(), defaults, Pins(), Limits())
    terms = address_terms(side.order, side.batch(), side.case["defaults"], Pins(), Limits())
    given = side.give()
    given["terms"]["deposit"]["reserver"] = foreign
    with pytest.raises(NotSigned, match=f"{foreign} is not {account} of"):
        check_address(replace(terms, reserver=foreign), side.payment(given), now=side.fulfilled - 200)


@pytest.mark.parametrize("permit2", [None, "0x" + "11" * 20, "TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9", "T"])
@pytest.mark.parametrize("named", [None, "TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top"])
def test_on_tron_an_address_has_nothing_to_do_with_permit2(named: str | None, permit2: str | None) -> None:
    own = {**TRON.defaults, **({"permit2": named} if named else {})}
    defaults = cast(Mapping[str, ChainDefaults], {**TRON.case["defaults"], TRON.order.chain_id: own})
    terms = address_terms(TRON.order, TRON.batch(), defaults, replace(TRON.pins, permit2=permit2), Limits())
    given = TRON.give()
    assert check_address(terms, TRON.payment(given), now=TRON.fulfilled - 200) == TRON.check(given)


@each
def test_a_payment_of_another_order_or_without_an_address_is_refused(side: Side) -> None:
    terms = address_terms(side.order, side.batch(), side.case["defaults"], Pins(), Limits())
    other = payment_id("eip155:0x1", "another")
    for member, edit in (("payment_id", {"payment_id": other}), ("deposit_address", {"deposit_address": None})):
        with pytest.raises(AddressMismatch) as refused:
            check_address(terms, cast(PaymentResponse, {**side.payment(side.give()), **edit}))
        assert refused.value.member == member


@each
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


@each
def test_pins_and_limits_hold(side: Side) -> None:
    for name in ("escrow", "reserver", "releaser"):
        with pytest.raises(PinMismatch):
            side.check(side.give(), replace(side.pins, **{name: side.other}))
    with pytest.raises(LimitExceeded):
        side.check(side.give(), limits=Limits(lock_seconds=-(10**9)))


@each
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


@pytest.mark.parametrize("side", [EVM, TRON], ids=str)
def test_the_call_that_gives_back_is_the_one_that_the_contract_takes(side: ContractSide) -> None:
    # Of a factory that is pinned, and of one that is not.
    for given in [side.give()] if side is EVM else [side.give(), side.give(named(side, side.stranger))]:
        checked = side.check(given)
        assert isinstance(checked.terms, Create2Terms)
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
