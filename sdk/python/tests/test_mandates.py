"""Mandates: one signature for what a merchant will ask for. What a gateway prepares is signed where it is of the payer's own
order, and whatever is changed in it is noticed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from eth_utils.address import to_checksum_address

from batch_world import OWN, TOKEN, WRAPPED
from evm_world import ORDER
from gateway_client import (
    AsyncGateway,
    FaultyRequest,
    Gateway,
    GatewayError,
    LimitExceeded,
    Limits,
    MandateMismatch,
    MandateTerms,
    NotSigned,
    Payment,
    PinMismatch,
    Pins,
    async_cancel_mandate,
    cancel_mandate,
    evm,
    owned,
    terms,
)
from gateway_client.escrow_abi import selector, word
from gateway_client.tron import TronWallet
from gateway_client.trust import PERMIT2
from mandate_world import (
    CONTRACT,
    MERCHANT,
    OTHER,
    Data,
    MandateWorld,
    address_of,
    calls,
    charge,
    charged,
    given,
    granted,
    mandate_order,
    more_by,
    of,
    permit_of,
    prepared,
    sign,
    signer,
)
from server import Said, said

STRANGER = b"\x77" * 20
TOKEN_BYTES = bytes.fromhex(TOKEN.rpartition("0x")[2])
APPROVE = selector("approve(address,uint256)") + word(bytes.fromhex(PERMIT2[2:]))
DAY = 86_400


def test_a_mandate_is_signed_once() -> None:
    before = int(time.time())
    with MandateWorld(allowance=10**13).serving() as world:
        signed = sign(world)
        [body] = world.grants
        assert body.keys() == {"version", "source", "destination", "mandate"}
        mandate = body["mandate"]
        assert before <= mandate["begins"] <= time.time()
        assert mandate == {
            **{"merchant": MERCHANT, "amount": "10200000", "least": "10000000", "periods": 3, "period_seconds": DAY},
            **{"begins": mandate["begins"], "lock_seconds": Limits().lock_seconds, "salt": mandate["salt"]},
        }
        assert signed.address == address_of(body, mandate)
        assert signed.payload["mandate"] == mandate
        assert signer(permit_of(body, mandate, signed.address), signed.payload["permit"]) == world.wallet.account
        own = evm.Mandate.of(signed.terms)
        to, data = evm.cancel_mandate_call(own)
        assert signed.cancel == {"to": to, "data": "0x" + data.hex(), "value": "0x0"}
        assert signed.allow["to"] == OWN["permit2"]
        assert (own.address, world.sent, signed.sent.approvals, list(signed.approvals)) == (signed.address, [], [], [])
        # What is kept and given away is JSON.
        assert json.loads(json.dumps([signed.payload, signed.cancel])) == [signed.payload, signed.cancel]


def test_what_the_payer_does_not_say_is_not_said() -> None:
    own = {"escrow_contract_address": OTHER, "fulfillment_verifier": {"account": OWN["releaser"]}}
    with MandateWorld(allowance=10**13).serving() as world:
        order = mandate_order(least=None, begins=2 * 10**9, lock_seconds=600, members=own, merchant=to_checksum_address(MERCHANT))
        signed = sign(world, order)
        [body] = world.grants
        assert ("least" in body["mandate"], body["mandate"]["lock_seconds"], body["mandate"]["begins"]) == (False, 600, 2 * 10**9)
        assert {name: body[name] for name in own} == own
        assert (signed.address, signed.payload["mandate"]["merchant"]) == (address_of(body, body["mandate"]), MERCHANT)


def test_the_salt_is_drawn_when_all_else_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, list[str]]] = []
    with MandateWorld(allowance=10**13).serving() as world:

        def token_bytes(count: int) -> bytes:
            drawn.append((count, list(world.asked)))
            return bytes([len(drawn)]) * count

        monkeypatch.setattr("gateway_client.mandates.secrets.token_bytes", token_bytes)
        first, second = sign(world), sign(world)
        assert drawn[0] == (32, ["/v1/defaults"] * 2)
        assert [one.payload["mandate"]["salt"] for one in (first, second)] == ["0x" + "01" * 32, "0x" + "02" * 32]
        assert first.address != second.address
    with MandateWorld(allowance=10**13).serving() as world:
        monkeypatch.undo()
        assert len({sign(world).payload["mandate"]["salt"] for _ in range(3)}) == 3


def test_the_allowance_that_is_missing_is_given_or_shown() -> None:
    whole = 3 * 10_200_000
    with MandateWorld(allowance=whole - 1).serving() as world:
        signed = sign(world)
        assert calls(world) == [(TOKEN_BYTES, 0, APPROVE + word(amount)) for amount in (0, whole)]
        assert len(signed.sent.approvals) == 2
    with MandateWorld().serving() as world:
        signed = sign(world, approve=False)
        shown = {"to": TOKEN.rpartition(":")[2], "data": "0x" + (APPROVE + word(whole)).hex(), "value": "0x0"}
        assert (list(signed.approvals), world.sent, signed.sent.approvals) == ([shown], [], [])
    # A period's is enough for whoever says so.
    with MandateWorld(allowance=10_200_000).serving() as world:
        sign(world, allowance=10_200_000)
        assert world.sent == []
        sign(world, allowance=2**256 - 1)
        assert calls(world) == [(TOKEN_BYTES, 0, APPROVE + word(amount)) for amount in (0, 2**256 - 1)]
        with pytest.raises(ValueError, match="drawn in a period"):
            sign(world, allowance=10_199_999)


def owned_by(account: str) -> Callable[[Data], Data]:
    """The same body, delivered to another account."""
    return lambda body: {**body, "destination": [{**body["destination"][0], "account": account}]}


def with_mandate(**members: Any) -> Callable[[Data], Data]:
    return lambda body: {**body, "mandate": {**body["mandate"], **members}}


#: What a gateway prepares a mandate of in the place of the payer's body, and what is noticed.
BODIES: dict[str, tuple[str, Callable[[Data], Data]]] = {
    "another recipient": ("address", owned_by(OTHER)),
    "one more recipient": (
        "address",
        lambda b: {**b, "destination": [*b["destination"], {**b["destination"][0], "account": OTHER}]},
    ),
    "another token": ("address", lambda body: {**body, "source": {**body["source"], "asset_identifier": WRAPPED}}),
    "another payer": ("address", lambda body: {**body, "source": {**body["source"], "account": OTHER}}),
    "another escrow": ("address", lambda body: {**body, "escrow_contract_address": OTHER}),
    "another verifier": ("address", lambda body: {**body, "fulfillment_verifier": {"account": OTHER}}),
    "another amount": ("mandate.amount", with_mandate(amount="10200001")),
    "another least": ("mandate.least", with_mandate(least="1")),
    "another merchant": ("mandate.merchant", with_mandate(merchant=OTHER)),
    "more periods": ("mandate.periods", with_mandate(periods=4)),
    "longer periods": ("mandate.period_seconds", with_mandate(period_seconds=DAY + 1)),
    "a longer lock": ("mandate.lock_seconds", with_mandate(lock_seconds=DAY)),
    "an earlier beginning": ("mandate.begins", with_mandate(begins=7)),
    "another salt": ("mandate.salt", with_mandate(salt="0x" + "00" * 32)),
    "no least": (
        "mandate.members",
        lambda body: {**body, "mandate": {name: value for name, value in body["mandate"].items() if name != "least"}},
    ),
}


@pytest.mark.parametrize("change", BODIES)
def test_no_mandate_is_signed_that_is_not_the_payers(change: str) -> None:
    member, edit = BODIES[change]
    # What is changed is shown, or only made into the address and into what is to be signed.
    for is_shown in (True, False):

        def grant(body: Data, is_shown: bool = is_shown) -> Said:
            answer = granted(edit(body))
            return said(answer if is_shown else {**answer, "mandate": body["mandate"]})

        with MandateWorld(grant=grant).serving() as world:
            with pytest.raises(MandateMismatch) as refused:
                sign(world)
            assert refused.value.member == (member if is_shown else "address")
            assert world.sent == []


CHANGES: dict[str, tuple[str, Callable[[Data], Any]]] = {
    "another spender": ("message.spender", of("message.spender", OTHER)),
    "a larger allowance": ("message.details.amount", of("message.details.amount", more_by(1))),
    "a longer allowance": ("message.details.expiration", of("message.details.expiration", more_by(1))),
    "another token": ("message.details.token", of("message.details.token", OTHER)),
    "another nonce": ("message.details.nonce", of("message.details.nonce", "1")),
    "a later deadline": ("message.sigDeadline", of("message.sigDeadline", more_by(1))),
    "another chain": ("domain.chainId", of("domain.chainId", 1)),
    "another Permit2": ("domain.verifyingContract", of("domain.verifyingContract", OTHER)),
    "another name": ("domain.name", of("domain.name", "Permit3")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_allowance_is_signed_that_is_not_the_mandates(change: str) -> None:
    member, edit = CHANGES[change]
    for is_hashed in (True, False):

        def grant(body: Data, is_hashed: bool = is_hashed) -> Said:
            answer = granted(body, edit)
            if not is_hashed:
                answer["permit"]["message"] = granted(body)["permit"]["message"]
            return said(answer)

        with MandateWorld(grant=grant).serving() as world:
            with pytest.raises(MandateMismatch) as refused:
                sign(world)
            assert (refused.value.member, world.sent) == (member, [])


def test_an_answer_that_is_not_about_the_mandate_is_not_signed() -> None:
    def signed_for(answer: Data) -> None:
        world = MandateWorld(grant=lambda body: said({**granted(body), **answer}))
        with world.serving():
            sign(world)

    stranger = MandateWorld(grant=lambda body: said(granted(body, contract=STRANGER)))
    with stranger.serving(), pytest.raises(MandateMismatch) as refused:
        sign(stranger)
    assert refused.value.member == "contract"
    # A stranger's address, with the known contract's name.
    stranger.grant = lambda body: said({**granted(body, contract=STRANGER), "contract": "0x" + CONTRACT.hex()})
    with stranger.serving(), pytest.raises(MandateMismatch) as refused:
        sign(stranger)
    assert refused.value.member == "address"
    for member, value, name in (
        ("message_scheme", "EVM_PERMIT2", "message_scheme"),
        ("permit", {"message": "0x" + "22" * 32}, None),
        ("fulfillment_verifier", {"account": OTHER}, None),
    ):
        with pytest.raises(NotSigned) as fault:
            signed_for({member: value})
        assert getattr(fault.value, "member", None) == name

    def widened(data: Data) -> None:
        data["types"]["PermitDetails"].append({"name": "feeTo", "type": "address"})
        data["message"]["details"]["feeTo"] = OTHER

    wide = MandateWorld(grant=lambda body: said(granted(body, widened)))
    with wide.serving(), pytest.raises(NotSigned, match="types are not"):
        sign(wide)


@pytest.mark.parametrize("name", ["escrow", "reserver", "releaser", "permit2"])
def test_whom_the_payer_does_not_know_is_refused(name: str) -> None:
    with MandateWorld().serving() as world:
        with pytest.raises(PinMismatch):
            sign(world, pins=Pins(**{name: OTHER}))
        assert (world.grants, world.sent) == ([], [])
        with pytest.raises(PinMismatch):
            charge(world, given(), pins=Pins(**{name: OTHER}))
        assert (world.asked_of, world.submitted) == ([], [])


def test_how_long_money_may_be_locked_is_the_payers_to_say() -> None:
    with MandateWorld(allowance=10**13).serving() as world:
        with pytest.raises(LimitExceeded) as refused:
            sign(world, mandate_order(lock_seconds=7201))
        assert (refused.value.name, refused.value.found) == ("lock_seconds", 7201)
        # A minute is for clocks that differ.
        with pytest.raises(ValueError, match="must be more than 90"):
            sign(world, mandate_order(lock_seconds=90))
        assert world.grants == []
        assert sign(world, mandate_order(lock_seconds=DAY), limits=Limits(lock_seconds=DAY)).terms.order.lock_seconds == DAY


def test_orders_that_are_no_mandate_are_refused_before_anybody_is_asked() -> None:
    coin = owned("eip155:31337/slip44:60", ORDER.account)
    for changes, rule in (
        ({"source": coin}, "not an ERC-20"),
        ({"source": owned("tron:1/trc20:T", "T")}, "not an ERC-20"),
        ({"merchant": "T"}, "merchant"),
        ({"merchant": "0x" + "00" * 20}, "merchant"),
        ({"merchant": "0x9965507D1a55bcC2695C58ba16FB37d819B0A4Dc"}, "checksum"),
        ({"amount": 0}, "amount"),
        ({"least": 0}, "least"),
        ({"periods": 0}, "periods"),
        ({"periods": 2**32}, "periods"),
        ({"periods": True}, "periods"),
        ({"period_seconds": 0}, "period_seconds"),
        ({"lock_seconds": 0}, "lock_seconds"),
        ({"begins": -1}, "begins"),
        ({"amount": 2**159, "periods": 2}, "Permit2 counts"),
        ({"begins": 2**48 - 3 * DAY}, "the last period"),
        ({"members": {"settler_requirements": {}}}, "commit to settler_requirements"),
    ):
        with pytest.raises(ValueError, match=rule):
            mandate_order(**changes)
    assert mandate_order(amount=2**160 - 2, periods=1).all == 2**160 - 2
    assert mandate_order(begins=2**48 - 3 * DAY - 1).ends == 2**48 - 1
    with pytest.raises(ValueError, match="when it begins"):
        print(mandate_order().ends)
    with MandateWorld().serving() as world:
        with pytest.raises(ValueError, match="pays"):
            sign(world, mandate_order(source=owned(TOKEN, OTHER)))
        assert world.asked == []


def test_both_sides_run_on_an_event_loop() -> None:
    with MandateWorld(allowance=10**13).serving() as world:

        async def made() -> tuple[Payment, str]:
            async with AsyncGateway(world.url) as gateway:
                signed = await gateway.sign_mandate(mandate_order(), world.wallet)
                assert await gateway.prepare_mandate(signed.terms.request()) == granted(world.grants[-1])
                payment = await gateway.charge(charged(), signed.payload, world.merchant)
                return payment, await async_cancel_mandate(world.wallet, signed.cancel)

        payment, sent = anyio.run(made)
        assert (payment.is_completed, len(sent), len(world.sent)) == (True, 66, 1)


def test_a_refusal_is_raised_and_names_its_member() -> None:
    refusal = {"code": "INVALID_REQUEST", "message": "mandate.periods: must be 1 to 4294967295"}
    with MandateWorld(grant=lambda _: said(refusal, 400)).serving() as world:
        with pytest.raises(FaultyRequest) as refused:
            sign(world)
        assert refused.value.field == "mandate.periods"
        assert world.sent == []
    auth = {"code": "INVALID_SENDER_AUTH", "message": "payload.permit is not by the payer"}
    with MandateWorld(prepare=lambda _: said(auth, 401)).serving() as world:
        with pytest.raises(GatewayError) as unsigned:
            charge(world, given())
        assert unsigned.value.field == "payload.permit"


def test_a_mandate_is_ended_by_the_call_that_was_kept() -> None:
    with MandateWorld(allowance=10**13).serving() as world:
        signed = sign(world)
        kept = json.loads(json.dumps(signed.cancel))
        assert cancel_mandate(world.wallet, kept).startswith("0x")
        assert calls(world) == [(CONTRACT, 0, bytes.fromhex(kept["data"][2:]))]
        for altered in ({"to": OTHER}, {"data": "0x" + APPROVE.hex()}, {"value": "0x1"}):
            with pytest.raises(NotSigned, match="does not end"):
                cancel_mandate(world.wallet, {**kept, **altered})
        assert len(world.sent) == 1


def test_the_checks_alone() -> None:
    defaults = MandateWorld().case["defaults"]
    order = replace(mandate_order(), begins=1_893_456_000, lock_seconds=600)
    known = MandateTerms(order, terms(order.payment.timed(), defaults, Pins(), Limits()), b"\x05" * 32)
    honest: Any = granted(dict(known.request()))
    assert "0x" + evm.check_mandate(known, honest).digest.hex() == honest["permit"]["message"]
    with pytest.raises(MandateMismatch):
        evm.check_mandate(replace(known, salt=bytes(32)), honest)
    payment = MandateTerms.of(terms(charged().timed(), defaults, Pins(), Limits()), known.payload)
    assert (payment.body, payment.permit, evm.Mandate.of(payment)) == (known.body, None, evm.Mandate.of(known))
    asked: Any = prepared({**payment.payment.order.body(), "payload": payment.payload})
    checked = evm.check_charge(payment, asked)
    assert ("0x" + checked.digest.hex(), dict(checked.payload)) == (
        asked["signed_messages"][0]["message"],
        asked["signed_messages"][0]["payload"],
    )


def test_mandates_are_for_evm_chains() -> None:
    wallet = TronWallet.from_key("11" * 32, "http://127.0.0.1:1/no-node")
    with MandateWorld().serving() as world:
        with Gateway(world.url) as gateway, pytest.raises(ValueError, match="EVM chains"):
            gateway.sign_mandate(mandate_order(), wallet)
        with pytest.raises(ValueError, match="EVM chains"):
            charge(world, given(), wallet)
        with pytest.raises(ValueError, match="EVM chains"):
            cancel_mandate(wallet, {})
        assert world.asked == []
    nothing: Any = None
    for call in (wallet.check_mandate, wallet.signed_mandate, wallet.signed_charge, wallet.approval_calls, wallet.send_call):
        with pytest.raises(ValueError, match="EVM chains"):
            call(nothing, nothing)
