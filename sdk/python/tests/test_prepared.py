"""Verification before signing: what a gateway prepared is taken as it was, and nothing that differs in anything is.

`prepared.json` is what a gateway of gw-dev answered for payments and awards on each family of chains.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway_client import LimitExceeded, Limits, NotSigned, Order, PinMismatch, Pins, evm, quotes, solana, terms, tron
from gateway_client.tron.transaction import Call

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "prepared.json").read_text())["cases"]
CHECKS: dict[str, Callable[..., Any]] = {"eip155": evm.check, "solana": solana.check, "tron": tron.check}
ELSEWHERE = {
    "eip155": "0x00000000000000000000000000000000deadbeef",
    "solana": "So11111111111111111111111111111111111111112",
    "tron": "TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top",
}


def namespace(case: dict[str, Any]) -> str:
    return str(case["order"]["source"]["asset_identifier"].partition(":")[0])


def cases(of: str = "", quoted: bool = False) -> pytest.MarkDecorator:
    """Each case, or those of one family's payers, or those in which a quote is taken."""
    chosen = [case for case in CASES if namespace(case).startswith(of) and ("quote" in case or not quoted)]
    assert chosen
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case["name"])


def check(case: dict[str, Any], order: Order | None = None, pins: Pins | None = None, limits: Limits | None = None) -> Any:
    """Verifies a case, for the order that it was prepared for or another."""
    own = Order.of(case["order"])
    quote = quotes.taken(own, case["quote"]["quote_id"], case["quote"]["fulfillment_quote"]) if "quote" in case else None
    known = terms(order or own, case["defaults"], pins or Pins(), limits or Limits(), quote)
    return CHECKS[namespace(case)](known, case["prepared"])


@cases()
def test_what_was_asked_for_is_rebuilt_to_the_byte(case: dict[str, Any]) -> None:
    checked = check(case)
    messages = case["prepared"]["signed_messages"]
    assert case["prepared"]["payment_id"] == Order.of(case["order"]).payment_id
    if isinstance(checked, evm.Permit):
        assert "0x" + checked.digest.hex() == messages[0]["message"]
        quote_hash = json.loads(messages[0]["message_prehash"])["message"]["witness"]["quoteHash"]
        assert (int(quote_hash, 16) != 0) == ("quote" in case)
    elif isinstance(checked, solana.Deposit):
        assert "0x" + checked.preimage.hex() == messages[0]["message_prehash"]
    else:
        assert ["0x" + one.raw_data().hex() for one in checked.transactions] == [one["message_prehash"] for one in messages]


ORDERS: dict[str, Callable[[Order], Order]] = {
    "amount": lambda order: replace(order, amount=order.amount + 1),
    "cap": lambda order: replace(order, max_source_amount=(order.max_source_amount or 0) - 1),
    "request_id": lambda order: replace(order, request_id="another"),
    "recipient": lambda order: replace(order, destination=(elsewhere(order),)),
    "another destination": lambda order: replace(order, destination=(*order.destination, elsewhere(order))),
    "deadline": lambda order: replace(order, fulfillment_deadline="2020-01-01T00:00:00Z"),
}


def elsewhere(order: Order) -> Any:
    asset = order.destination[0]["asset_identifier"]
    return {"asset_identifier": asset, "account": ELSEWHERE[asset.partition(":")[0]]}


@cases()
@pytest.mark.parametrize("change", ORDERS)
def test_what_is_not_the_order_is_not_signed(case: dict[str, Any], change: str) -> None:
    with pytest.raises(NotSigned):
        check(case, ORDERS[change](Order.of(case["order"])))


@cases()
@pytest.mark.parametrize("member", ["escrow_contract_address", "reserver", "releaser"])
def test_whom_the_signature_is_for_is_looked_at(case: dict[str, Any], member: str) -> None:
    changed = copy.deepcopy(case)
    chain = Order.of(case["order"]).chain_id
    changed["defaults"][chain][member] = ELSEWHERE[namespace(case)]
    with pytest.raises(NotSigned):
        check(changed)


@cases("solana")
def test_a_signature_is_for_one_cluster(case: dict[str, Any]) -> None:
    changed = copy.deepcopy(case)
    changed["defaults"][Order.of(case["order"]).chain_id]["signature_cluster_id"] = ELSEWHERE["solana"]
    with pytest.raises(NotSigned):
        check(changed)


@cases("solana")
@pytest.mark.parametrize(("member", "rule"), [("allowance_delegate", "go elsewhere"), ("delegate_signer", "another signer")])
def test_an_allowance_goes_to_the_programs_address_for_the_payers_own_key(case: dict[str, Any], member: str, rule: str) -> None:
    changed = copy.deepcopy(case)
    changed["prepared"]["signed_messages"][0]["payload"][member] = ELSEWHERE["solana"]
    with pytest.raises(NotSigned, match=rule):
        check(changed)


@cases()
@pytest.mark.parametrize("name", ["escrow", "reserver", "releaser"])
def test_a_gateway_that_names_others_is_refused(case: dict[str, Any], name: str) -> None:
    with pytest.raises(PinMismatch) as refused:
        check(case, pins=Pins(**{name: ELSEWHERE[namespace(case)]}))
    assert refused.value.name == name


@cases()
def test_money_is_locked_for_as_long_as_allowed(case: dict[str, Any]) -> None:
    far = replace(Order.of(case["order"]), fulfillment_deadline="2100-01-01T00:00:00Z")
    with pytest.raises(LimitExceeded) as refused:
        check(case, far)
    assert (refused.value.name, refused.value.limit) == ("lock_seconds", 7200)
    changed = copy.deepcopy(case)
    for defaults in changed["defaults"].values():
        defaults["refund_delay_seconds"] = 1
    with pytest.raises(NotSigned, match="the refund would come too late"):
        check(changed)


@cases()
def test_another_scheme_or_number_of_messages_is_not_signed(case: dict[str, Any]) -> None:
    changed = copy.deepcopy(case)
    changed["prepared"]["message_scheme"] = "EVM_PERMIT2"
    with pytest.raises(NotSigned, match="EVM_PERMIT2"):
        check(changed)
    for count in (0, 3):
        changed = copy.deepcopy(case)
        changed["prepared"]["signed_messages"] = changed["prepared"]["signed_messages"][:1] * count
        with pytest.raises(NotSigned, match="number of signatures"):
            check(changed)


@cases()
@pytest.mark.parametrize("message", [None, "text", {}, {"message": 5, "message_prehash": "{}", "payload": {}}])
def test_what_is_no_message_is_not_signed(case: dict[str, Any], message: object) -> None:
    changed = copy.deepcopy(case)
    changed["prepared"]["signed_messages"] = [message]
    with pytest.raises(NotSigned, match="over nothing"):
        check(changed)


@cases("eip155")
def test_an_order_may_name_escrow_and_verifier_itself(case: dict[str, Any]) -> None:
    own = Order.of(case["order"])
    defaults = case["defaults"][own.chain_id]
    named = {
        "escrow_contract_address": defaults["escrow_contract_address"],
        "fulfillment_verifier": {"account": defaults["releaser"], "endpoint": "https://verifier.example"},
    }
    changed = copy.deepcopy(case)
    changed["defaults"][own.chain_id] |= {"escrow_contract_address": ELSEWHERE["eip155"], "releaser": ELSEWHERE["eip155"]}
    check(changed, replace(own, members=named))


@cases()
def test_no_digit_of_what_is_signed_may_differ(case: dict[str, Any]) -> None:
    for index, message in enumerate(case["prepared"]["signed_messages"]):
        for member in ("message", "message_prehash"):
            text = message[member]
            # On Tron times, fee and the named block are the gateway's to choose, so they are looked at below.
            places = range(2, len(text), 1 if member == "message" or namespace(case) == "solana" else 7)
            for at in places:
                changed = copy.deepcopy(case)
                digit = "1" if text[at] == "0" else "0"
                changed["prepared"]["signed_messages"][index][member] = text[:at] + digit + text[at + 1 :]
                with pytest.raises(NotSigned):
                    check(changed)


TYPED: dict[str, tuple[list[str], str]] = {
    "refund": (["witness", "refundAfter"], "the refund would come too late"),
    "reservation": (["witness", "reserveDeadline"], "the deposit would be taken too late"),
    "permit": (["deadline"], "the signature would hold for too long"),
}


@cases("eip155")
@pytest.mark.parametrize("change", TYPED)
def test_windows_of_a_permit_are_bounded(case: dict[str, Any], change: str) -> None:
    path, rule = TYPED[change]
    changed = copy.deepcopy(case)
    message = changed["prepared"]["signed_messages"][0]
    typed = json.loads(message["message_prehash"])
    inner = typed["message"]
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = "99999999999"
    message["message_prehash"] = json.dumps(typed)
    with pytest.raises(NotSigned, match=rule):
        check(changed)


@cases("tron")
def test_transactions_on_tron_are_bounded(case: dict[str, Any]) -> None:
    last = case["prepared"]["signed_messages"][-1]

    def with_deposit(change: Callable[[Call], Call]) -> dict[str, Any]:
        changed = copy.deepcopy(case)
        call = change(Call.read(bytes.fromhex(last["message_prehash"][2:])))
        message = changed["prepared"]["signed_messages"][-1]
        message["message_prehash"], message["message"] = "0x" + call.raw_data().hex(), "0x" + call.id.hex()
        return changed

    # The gateway's own are these.
    check(with_deposit(lambda call: replace(call, timestamp_ms=call.timestamp_ms - 1, fee_limit_sun=call.fee_limit_sun + 1)))
    with pytest.raises(LimitExceeded, match="may burn"):
        check(with_deposit(lambda call: replace(call, fee_limit_sun=500_000_001)))
    with pytest.raises(NotSigned, match="nobody takes it any more"):
        check(with_deposit(lambda call: replace(call, expiration_ms=call.expiration_ms + 1)))
    with pytest.raises(NotSigned, match="something else than depositOwn"):
        check(with_deposit(lambda call: replace(call, value_sun=1)))
    with pytest.raises(NotSigned, match="something else than depositOwn"):
        check(with_deposit(lambda call: replace(call, contract=bytes(20))))
    signature = -3 * 32
    with pytest.raises(NotSigned, match="the reserver did not sign it"):
        check(with_deposit(lambda call: replace(call, data=call.data[:signature] + bytes(65) + call.data[signature + 65 :])))
    with pytest.raises(NotSigned, match="not one call"):
        raw = bytes.fromhex(last["message_prehash"][2:]) + b"\x52\x01\x00"  # a memo
        changed = copy.deepcopy(case)
        changed["prepared"]["signed_messages"][-1]["message_prehash"] = "0x" + raw.hex()
        check(changed)


QUOTES: dict[str, tuple[str, Any]] = {
    "a quote for less": ("fulfillmentAmount", "1"),
    "a quote that is dearer": ("sourceAmount", "99999999999999"),
    "a quote for other terms": ("termsHash", "0x" + "11" * 32),
    "a quote of another chain": ("sourceChain", "eip155:1"),
    "a quote of another form": ("settler", "no iri"),
    "a quote with a number": ("sourceAmount", 1),
    "a document of another type": ("type", "Quote"),
    "a quote with another context": ("@context", ["https://example.org/"]),
    "a quote that delivers nowhere": ("destination", {}),
}


@cases(quoted=True)
@pytest.mark.parametrize("change", QUOTES)
def test_a_quote_for_something_else_is_not_taken(case: dict[str, Any], change: str) -> None:
    order, (member, value) = Order.of(case["order"]), QUOTES[change]
    document = {**case["quote"]["fulfillment_quote"], member: value}
    with pytest.raises(NotSigned, match="its document"):
        quotes.taken(order, "quo_" + "a" * 52, case["quote"]["fulfillment_quote"])
    with pytest.raises(NotSigned):
        # Under an id of its own, as a settler could have signed it.
        hash = quotes.hash_of(document)
        quotes.taken(order, "quo_" + base64.b32encode(hash).decode().rstrip("=").lower(), document)
