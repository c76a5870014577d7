"""Deposit addresses: what a gateway gives is taken where it is that of the order, and whatever is changed in it is noticed.

What a gateway gives is computed here from the contract's artefact, by eth_abi and without the package that is tested.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from eth_abi.abi import decode, encode

from evm_world import CASE
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
    new_caller_secret,
)
from gateway_client.evm import (
    ADDRESS_IMPLEMENTATION,
    DEPOSIT_ADDRESSES,
    Addressed,
    CheckedAddress,
    address_terms,
    check_address,
    give_back_call,
)
from gateway_client.keccak import keccak256
from gateway_client.order import payment_id, quote_request_id, rfc3339, unix
from gateway_client.schemas import DepositAddress, PaymentResponse, QuoteRequestRead
from network import ROOT
from server import SILENCE, Said, Seen, said, serving

CREATION = bytes.fromhex(json.loads((ROOT / "contracts/artifacts/DepositAddresses.json").read_text())["bytecode"][2:])
#: The deterministic deployer, which is on every chain.
DEPLOYER = bytes.fromhex("4e59b44847b379578588920ca78fbf26c0b4956c")
OTHER = "0x00000000000000000000000000000000deadbeef"
HASH = "0x" + keccak256(b"another").hex()
TERMS = "(address,address,uint256,(bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48))"
ORDER = Order.of(CASE["order"])
ORIGINATOR = f"eip155:{ORDER.account}"
FULFILLED = unix(ORDER.fulfillment_deadline)

Given = dict[str, Any]


def create2(deployer: bytes, salt: bytes, creation: bytes) -> bytes:
    """EIP-1014."""
    return keccak256(b"\xff" + deployer + salt + keccak256(creation))[12:]


def values(given: Given) -> list[Any]:
    terms = given["terms"]
    deposit = [bytes.fromhex(one[2:]) if len(str(one)) == 66 else one for one in terms["deposit"].values()]
    return [terms["escrow"], terms["token"], int(terms["amount"]), deposit]


def computed(given: Given, factory: str = DEPOSIT_ADDRESSES, implementation: str = ADDRESS_IMPLEMENTATION) -> str:
    """The address of the terms that are shown, by the letter of ERC-1167."""
    code = f"3d602d80600a3d3981f3363d3d373d3d3d363d73{implementation[2:]}5af43d82803e903d91602b57fd5bf3"
    salt = keccak256(encode([TERMS], [values(given)]))
    return "0x" + create2(bytes.fromhex(factory[2:]), salt, bytes.fromhex(code)).hex()


def batch(order: Order = ORDER, secret: str | None = None) -> QuoteRequestRead:
    body = {**order.body(), "quote_request_id": quote_request_id(ORIGINATOR, order.request_id, secret), "status": "collecting"}
    return cast(QuoteRequestRead, body)


def give(edit: Callable[[Given], Any] = lambda given: None, order: Order = ORDER) -> DepositAddress:
    """What a gateway gives; its address and link follow what is changed in it, unless they are changed, too."""
    defaults = CASE["defaults"][ORDER.chain_id]
    token = ORDER.source["asset_identifier"].rpartition(":")[2]
    fulfilled = unix(order.fulfillment_deadline)
    payment = payment_id(ORIGINATOR, quote_request_id(ORIGINATOR, order.request_id))
    given: Given = {
        "chain_id": "eip155:31337",
        "asset_identifier": ORDER.source["asset_identifier"],
        "amount": str(ORDER.max_source_amount),
        "pay_by": rfc3339(fulfilled - 120),
        "refund_account": ORDER.account,
        "factory": DEPOSIT_ADDRESSES,
        "terms": {
            "escrow": defaults["escrow_contract_address"],
            "token": token,
            "amount": str(ORDER.max_source_amount),
            "deposit": {
                "payment_id": "0x" + keccak256(payment.encode()).hex(),
                "terms_hash": "0x" + ORDER.terms_hash().hex(),
                "quote_hash": "0x" + bytes(32).hex(),
                "payer": ORDER.account,
                "reserver": defaults["reserver"],
                "releaser": defaults["releaser"],
                "reserve_deadline": fulfilled - 60,
                "fulfillment_deadline": fulfilled,
                "refund_after": fulfilled + defaults["refund_delay_seconds"],
            },
        },
    }
    edit(given)
    if "address" not in given and isinstance(given["terms"], dict):
        given["address"] = computed(given)
    given.setdefault("uri", f"ethereum:{token}@31337/transfer?address={given.get('address')}&uint256={given['amount']}")
    return cast(DepositAddress, given)


def payment(given: DepositAddress, status: str = "pending") -> PaymentResponse:
    own = payment_id(ORIGINATOR, quote_request_id(ORIGINATOR, ORDER.request_id))
    return cast(PaymentResponse, {"payment_id": own, "status": status, "deposit_address": given})


def check(
    given: DepositAddress,
    pins: Pins | None = None,
    limits: Limits | None = None,
    status: str = "pending",
    pay_by: datetime | None = None,
    now: float = FULFILLED - 200,
) -> CheckedAddress:
    terms = address_terms(ORDER, batch(), CASE["defaults"], pins or Pins(), limits or Limits())
    return check_address(terms, payment(given, status), pay_by, now)


def test_the_contract_that_makes_addresses_is_where_its_code_leads() -> None:
    factory = create2(DEPLOYER, bytes(32), CREATION)
    assert "0x" + factory.hex() == DEPOSIT_ADDRESSES
    # Its first creation: RLP of its address and the number 1.
    assert "0x" + keccak256(b"\xd6\x94" + factory + b"\x01")[12:].hex() == ADDRESS_IMPLEMENTATION


def test_the_address_of_the_order_is_taken() -> None:
    given = give()
    checked = check(given)
    assert (checked.address, checked.uri, checked.refund_account) == (computed(cast(Given, given)), given["uri"], ORDER.account)
    assert (checked.amount, checked.pay_by) == (ORDER.max_source_amount, datetime.fromtimestamp(FULFILLED - 120, UTC))
    assert checked.terms.encoded == encode([TERMS], [values(cast(Given, given))])
    assert checked.terms.deposit["paymentId"] != keccak256(ORDER.payment_id.encode()), "the payment is that of the quote-request"
    assert check(give(lambda one: one.update(factory=DEPOSIT_ADDRESSES.upper().replace("X", "x")))) == checked


def deposit(name: str, value: Any) -> Callable[[Given], Any]:
    return lambda given: given["terms"]["deposit"].update({name: value})


def terms_of(**values: Any) -> Callable[[Given], Any]:
    return lambda given: given["terms"].update(values)


def top(**values: Any) -> Callable[[Given], Any]:
    return lambda given: given.update(values)


@pytest.mark.parametrize(
    ("member", "edit"),
    [
        ("factory", top(factory=OTHER)),
        ("factory", lambda given: given.update(factory=OTHER, address=computed(given, OTHER))),
        ("chain_id", top(chain_id="eip155:1")),
        ("asset_identifier", top(asset_identifier=f"eip155:31337/erc20:{OTHER}")),
        ("amount", top(amount="1")),
        ("refund_account", top(refund_account=OTHER)),
        ("pay_by", top(pay_by="soon")),
        ("terms", top(terms=None)),
        ("terms.escrow", terms_of(escrow=OTHER)),
        ("terms.token", terms_of(token=OTHER)),
        ("terms.amount", terms_of(amount="1")),
        ("terms.deposit.payment_id", deposit("payment_id", HASH)),
        ("terms.deposit.terms_hash", deposit("terms_hash", HASH)),
        ("terms.deposit.quote_hash", deposit("quote_hash", HASH)),
        ("terms.deposit.payer", deposit("payer", OTHER)),
        ("terms.deposit.reserver", deposit("reserver", OTHER)),
        ("terms.deposit.releaser", deposit("releaser", OTHER)),
        ("terms.deposit.fulfillment_deadline", deposit("fulfillment_deadline", FULFILLED + 1)),
        ("terms.deposit.reserve_deadline", deposit("reserve_deadline", FULFILLED + 1)),
        ("terms.deposit.reserve_deadline", deposit("reserve_deadline", FULFILLED - 121)),
        ("terms.deposit.refund_after", deposit("refund_after", FULFILLED)),
        ("terms.deposit.refund_after", deposit("refund_after", FULFILLED + 7200)),
        ("address", top(address=OTHER)),
        ("address", lambda given: given.update(address=computed(given, OTHER))),
        ("address", lambda given: given.update(address=computed(given, DEPOSIT_ADDRESSES, OTHER))),
        ("uri", top(uri=f"ethereum:{OTHER}@31337/transfer?address={OTHER}&uint256=1")),
    ],
)
def test_every_member_that_is_changed_is_noticed(member: str, edit: Callable[[Given], Any]) -> None:
    with pytest.raises(AddressMismatch) as refused:
        check(give(edit))
    assert refused.value.member == member
    assert str(refused.value).startswith(member)


def test_a_payment_of_another_order_or_without_an_address_is_refused() -> None:
    terms = address_terms(ORDER, batch(), CASE["defaults"], Pins(), Limits())
    other = payment_id("eip155:0x1", "another")
    for member, edit in (("payment_id", {"payment_id": other}), ("deposit_address", {"deposit_address": None})):
        with pytest.raises(AddressMismatch) as refused:
            check_address(terms, cast(PaymentResponse, {**payment(give()), **edit}))
        assert refused.value.member == member


def test_an_address_of_before_is_refused_whatever_it_is_for() -> None:
    end = FULFILLED - 120
    at = datetime.fromtimestamp(end, UTC)
    for status in ("finalizing", "completed", "failed"):
        with pytest.raises(StaleAddress, match=f"its status must be pending, and is {status}") as refused:
            check(give(), status=status)
        assert refused.value.member == "status"
    # Requests have whole seconds.
    for now, asked in ((end - 5.0, None), (end - 60.0, at + timedelta(milliseconds=999))):
        assert check(give(), pay_by=asked, now=now).pay_by == at
    for now, asked in (
        (end - 4.9, None),
        (end + 1, None),
        (end - 60, at - timedelta(seconds=1)),
        (end - 60, at + timedelta(seconds=1)),
    ):
        with pytest.raises(StaleAddress, match="its pay_by must be") as refused:
            check(give(), pay_by=asked, now=now)
        assert (refused.value.member, refused.value.found) == ("pay_by", rfc3339(end))
        assert refused.value.payment_id == payment(give())["payment_id"]
    # What is not the order's is not called stale.
    with pytest.raises(AddressMismatch):
        check(give(top(address=OTHER)), status="failed")


def test_a_time_is_a_number() -> None:
    for value in (None, "soon", -1, True):
        given = give()
        given["terms"]["deposit"]["reserve_deadline"] = value  # type: ignore[typeddict-item]
        with pytest.raises(NotSigned, match="reserve_deadline"):
            check(given)


def test_pins_and_limits_hold() -> None:
    defaults = CASE["defaults"][ORDER.chain_id]
    check(give(), Pins(defaults["escrow_contract_address"], defaults["reserver"], defaults["releaser"]))
    for name in ("escrow", "reserver", "releaser"):
        with pytest.raises(PinMismatch):
            check(give(), Pins(**{name: OTHER}))
    with pytest.raises(LimitExceeded):
        check(give(), limits=Limits(lock_seconds=-(10**9)))


def test_the_batch_has_to_be_of_the_order() -> None:
    def terms(of: QuoteRequestRead, secret: str | None = None) -> str:
        return address_terms(ORDER, of, CASE["defaults"], Pins(), Limits(), secret).order.payment_id

    with pytest.raises(NotSigned, match="something else"):
        terms(batch(replace(ORDER, amount=1)))
    with pytest.raises(AddressMismatch, match="quote_request_id"):
        terms(batch(replace(ORDER, request_id="another")))
    with pytest.raises(AddressMismatch, match="quote_request_id"):
        terms(batch(), "correct-horse-battery")
    assert terms(batch(secret="correct-horse-battery"), "correct-horse-battery") != terms(batch())


def test_the_call_that_gives_back_is_the_one_that_the_contract_takes() -> None:
    given = give()
    checked = check(given)
    zero = "0x" + bytes(20).hex()
    for token in (None, zero):
        to, data = give_back_call(checked.terms, token)
        assert (to, data[:4]) == (DEPOSIT_ADDRESSES, keccak256(f"giveBack({TERMS},address)".encode())[:4])
        terms, moved = decode([TERMS, "address"], data[4:])
        assert (list(terms[:3]), moved) == (values(cast(Given, given))[:3], token or checked.token)
        assert list(terms[3]) == values(cast(Given, given))[3]


@contextmanager
def gateway(edit: Callable[[Given], Any] = lambda answer: None) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A gateway that gives addresses, and what it was asked."""
    asked: list[tuple[str, Any]] = []

    def answer(seen: Seen) -> Said:
        url = urlsplit(seen.path)
        if url.path == "/v1/defaults":
            return said(CASE["defaults"][parse_qs(url.query)["chain_id"][0]])
        if seen.method != "POST":
            return SILENCE
        asked.append((seen.path, json.loads(seen.body)))
        order, secret = Order.of(asked[0][1]), seen.headers.get("caller-secret")
        if not url.path.endswith("/address"):
            return said(batch(order, secret))
        id = quote_request_id(ORIGINATOR, order.request_id, secret)
        if id not in url.path:
            return said({"code": "INVALID_PROOF", "message": "Caller-Secret: it has to come"}, 401)
        own, wanted = payment_id(ORIGINATOR, id), asked[-1][1]

        def changed(one: Given) -> None:
            one["terms"]["deposit"]["payment_id"] = "0x" + keccak256(own.encode()).hex()
            one.update(wanted)

        body: Given = {
            "payment_id": own,
            "status": "pending",
            "idempotent_replay": False,
            "deposit_address": give(changed, order),
        }
        edit(body)
        return said(body)

    with serving(answer) as server:
        yield server.url, asked


UNTIMED = replace(ORDER, quote_deadline=None, fulfillment_deadline=None)


def test_an_address_is_opened_by_order_batch_and_comparison() -> None:
    pay_by = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=60)

    async def opened(url: str) -> Addressed:
        async with AsyncGateway(url) as client:
            return await client.open_address(UNTIMED, pay_by=pay_by)

    def of(url: str) -> Addressed:
        with Gateway(url) as client:
            return client.open_address(UNTIMED, pay_by=pay_by)

    for call in (of, lambda url: asyncio.run(opened(url))):
        with gateway() as (url, asked):
            addressed = call(url)
        id = quote_request_id(ORIGINATOR, ORDER.request_id)
        assert [path for path, _ in asked] == ["/v1/payments/quote-requests", f"/v1/payments/quote-requests/{id}/address"]
        assert asked[1][1] == {"pay_by": rfc3339(pay_by.timestamp())}
        assert (addressed.quote_request_id, addressed.payment_id) == (id, payment_id(ORIGINATOR, id))
        assert addressed.address.address == addressed.address.terms.address == addressed.accepted["deposit_address"]["address"]
        assert addressed.address.pay_by == pay_by
        # An exchange takes its time.
        assert unix(addressed.order.fulfillment_deadline) - pay_by.timestamp() > 3500


def test_a_secret_goes_along_with_both_calls_and_is_made_by_nobody_but_the_caller() -> None:
    secret = new_caller_secret()
    assert len(secret) == 32
    assert secret != new_caller_secret()
    id = quote_request_id(ORIGINATOR, ORDER.request_id, secret)

    async def later(url: str) -> Addressed:
        async with AsyncGateway(url) as client:
            assert (await client.deposit_address(id, caller_secret=secret))["status"] == "pending"
            return await client.open_address(UNTIMED, caller_secret=secret)

    with gateway() as (url, _), Gateway(url) as client:
        addressed = client.open_address(UNTIMED, caller_secret=secret)
        assert (addressed.quote_request_id, addressed.caller_secret) == (id, secret)
        # A retry with both finds the same.
        assert asyncio.run(later(url)).payment_id == addressed.payment_id
        assert client.deposit_address(id, caller_secret=secret)["payment_id"] == addressed.payment_id
        with pytest.raises(GatewayError, match="INVALID_PROOF"):
            client.deposit_address(id)
        # The id depends on it, so that one which the caller does not know would be lost in a crash.
        plain = client.open_address(UNTIMED)
    assert (plain.quote_request_id, plain.caller_secret) == (quote_request_id(ORIGINATOR, ORDER.request_id), None)


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
            client.open_address(UNTIMED, pay_by=asked)
        assert refused.value.member == member


def test_an_address_that_is_not_the_orders_is_not_given_to_the_caller() -> None:
    changes: list[tuple[str, Callable[[Given], Any]]] = [
        ("address", lambda answer: answer["deposit_address"].update(address=OTHER)),
        ("payment_id", lambda answer: answer.update(payment_id=payment_id("eip155:0x1", "another"))),
    ]
    for member, edit in changes:
        with gateway(edit) as (url, _), Gateway(url) as client, pytest.raises(AddressMismatch) as refused:
            client.open_address(UNTIMED)
        assert refused.value.member == member
    with (
        gateway(lambda answer: answer.pop("deposit_address", None)) as (url, _),
        Gateway(url, patience_seconds=0) as client,
        pytest.raises(NoAnswer),
    ):
        client.open_address(UNTIMED)


def test_what_fits_no_address_is_not_asked_for() -> None:
    tron = {
        "asset_identifier": "tron:1/trc20:TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top",
        "account": "TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top",
    }
    with gateway() as (url, asked), Gateway(url) as client:
        for order in (
            replace(UNTIMED, source=cast(Any, tron)),
            replace(UNTIMED, max_source_amount=None),
            replace(UNTIMED, originator="did:key:z6Mk"),
            replace(UNTIMED, members={"proof": {}}),
        ):
            with pytest.raises(ValueError, match=r"ERC-20|max_source_amount|envelope"):
                client.open_address(order)
    assert asked == []
