"""What is signed for a token itself: its transfer into the escrow (ERC-3009), and its allowance for Permit2 (ERC-2612).

What a gateway asks for is made here from the recorded requests, by the letter of EIP-712, and what is changed in it is noticed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from eth_account import Account

from asked import DEPOSIT, PERMIT, RECEIVE, Asked, hash_struct
from evm_world import CASES, KEY, ORDER, World
from gateway_client import Gateway, NotSigned, Order, Pins, Terms, evm, quotes, terms
from gateway_client.escrow_abi import selector
from gateway_client.trust import PERMIT2, Limits

OTHER = "0x00000000000000000000000000000000deadbeef"
ANOTHER_WORD = "0x" + "11" * 32
PAYING = next(case for case in CASES if case["name"] == "evm-to-evm")
AWARD = next(case for case in CASES if case["name"] == "award-evm-to-evm")


def known(case: dict[str, Any]) -> Terms:
    order = Order.of(case["order"])
    quote = quotes.taken(order, case["quote"]["quote_id"], case["quote"]["fulfillment_quote"]) if "quote" in case else None
    return terms(order, case["defaults"], Pins(), Limits(), quote)


def witness(case: dict[str, Any]) -> dict[str, Any]:
    """What the gateway recorded as Permit2's witness of the same payment."""
    message = json.loads(case["prepared"]["signed_messages"][0]["message_prehash"])["message"]
    return dict(message["witness"])


def domain(case: dict[str, Any]) -> dict[str, Any]:
    token = Order.of(case["order"]).source["asset_identifier"].rpartition(":")[2]
    return {"name": "Development Dollar", "version": "1", "chainId": 31337, "verifyingContract": token}


Change = Callable[[Asked, dict[str, Any]], Any]


def by_token(case: dict[str, Any], change: Change = lambda asked, deposit: None) -> dict[str, Any]:
    """The case with a transfer to be signed for the token. `change` is made before anything is hashed."""
    own, deposit = known(case), witness(case)
    message = {
        "from": own.order.account,
        "to": own.escrow,
        "value": str(own.amount),
        "validAfter": "0",
        "validBefore": str(int(deposit["reserveDeadline"]) + 1),
    }
    asked = Asked("ReceiveWithAuthorization", RECEIVE, domain(case), message)
    change(asked, deposit)
    asked.message.setdefault("nonce", "0x" + hash_struct("GatewayDeposit", DEPOSIT, deposit).hex())
    numbers = {"reserve_deadline": int(deposit["reserveDeadline"]), "refund_after": int(deposit["refundAfter"])}
    asked.payload = {**numbers, "valid_before": int(message["validBefore"]), "deposit": deposit}
    changed = copy.deepcopy(case)
    changed["prepared"] |= {"message_scheme": "EVM_EIP3009", "signed_messages": [asked.unsigned()]}
    return changed


def with_allowance(case: dict[str, Any], change: Callable[[Asked], Any] = lambda asked: None) -> dict[str, Any]:
    """The case with the allowance for Permit2 to be signed for the token first."""
    own = known(case)
    deadline = str(own.fulfillment_deadline)
    values = {"owner": own.order.account, "spender": PERMIT2, "value": str(2**256 - 1), "nonce": "7", "deadline": deadline}
    asked = Asked("Permit", PERMIT, domain(case), values)
    change(asked)
    asked.payload = {"function": "permit", "contract": asked.domain["verifyingContract"], "spender": asked.message["spender"]}
    changed = copy.deepcopy(case)
    changed["prepared"]["signed_messages"].insert(0, asked.unsigned())
    return changed


def check(case: dict[str, Any]) -> list[evm.Message]:
    return evm.check_messages(known(case), case["prepared"])


def test_a_transfer_for_the_token_is_rebuilt_and_its_nonce_is_the_hash_of_the_deposit() -> None:
    case = by_token(PAYING)
    [message] = check(case)
    assert isinstance(message, evm.Authorization)
    assert "0x" + message.digest.hex() == case["prepared"]["signed_messages"][0]["message"]
    deposit = witness(PAYING)
    assert message.typed_data["message"]["nonce"] == hash_struct("GatewayDeposit", DEPOSIT, deposit)
    deadline = int(deposit["reserveDeadline"])
    assert message.payload == {
        "reserve_deadline": deadline,
        "refund_after": int(deposit["refundAfter"]),
        "valid_before": deadline + 1,
        "deposit": {name: value.lower() for name, value in deposit.items()},
    }


def later(values: dict[str, Any], member: str, seconds: int = 1) -> None:
    values[member] = str(int(values[member]) + seconds)


TRANSFERS: dict[str, tuple[str, Change]] = {
    "payer": ("from must be", lambda asked, _: asked.message.update({"from": OTHER})),
    "receiver": ("to must be", lambda asked, _: asked.message.update(to=OTHER)),
    "more": ("value is 5100001", lambda asked, _: later(asked.message, "value")),
    "less": ("value is 5099999", lambda asked, _: later(asked.message, "value", -1)),
    "begin": ("validAfter must be 0", lambda asked, _: asked.message.update(validAfter="1")),
    "end": ("validBefore is", lambda asked, _: later(asked.message, "validBefore")),
    "early end": ("validBefore is", lambda asked, _: later(asked.message, "validBefore", -1)),
    "nonce": ("nonce must be", lambda asked, _: asked.message.update(nonce=ANOTHER_WORD)),
    "chain": (r"domain\.chainId must be 31337", lambda asked, _: asked.domain.update(chainId=1)),
    "token": (r"domain\.verifyingContract must be", lambda asked, _: asked.domain.update(verifyingContract=OTHER)),
    "payment": (r"deposit\.paymentId must be", lambda _, deposit: deposit.update(paymentId=ANOTHER_WORD)),
    "terms": (r"deposit\.termsHash must be", lambda _, deposit: deposit.update(termsHash=ANOTHER_WORD)),
    "quote": (r"deposit\.quoteHash must be", lambda _, deposit: deposit.update(quoteHash=ANOTHER_WORD)),
    "depositor": (r"deposit\.payer must be", lambda _, deposit: deposit.update(payer=OTHER)),
    "reserver": (r"deposit\.reserver must be", lambda _, deposit: deposit.update(reserver=OTHER)),
    "releaser": (r"deposit\.releaser must be", lambda _, deposit: deposit.update(releaser=OTHER)),
    "reservation": ("the deposit would be taken too late", lambda _, deposit: later(deposit, "reserveDeadline")),
    "delivery": (r"deposit\.fulfillmentDeadline must be", lambda _, deposit: later(deposit, "fulfillmentDeadline")),
    "refund": ("the refund would come too late", lambda _, deposit: later(deposit, "refundAfter")),
}


@pytest.mark.parametrize("change", TRANSFERS)
def test_a_transfer_that_is_changed_is_not_signed_and_what_differs_is_named(change: str) -> None:
    rule, edit = TRANSFERS[change]
    with pytest.raises(NotSigned, match=rule):
        check(by_token(PAYING, edit))


MESSAGES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "another digest": ("over something else", lambda message: message.update(message=ANOTHER_WORD)),
    "no deposit": ("deposit is not shown", lambda message: message.update(payload={})),
    "no typed data": ("is not a token's", lambda message: message.update(message_prehash="{}")),
    "another version": ("over something else", lambda message: retell(message, lambda data: data["domain"].update(version="2"))),
    "no name": (r"domain\.name is not a text", lambda message: retell(message, lambda data: data["domain"].pop("name"))),
    "another type": ("primaryType must be", lambda message: retell(message, lambda data: data.update(primaryType="Permit"))),
    "a negative time": ("validBefore", lambda message: retell(message, lambda data: data["message"].update(validBefore=-1))),
    "too many bits": ("256 bits", lambda message: retell(message, lambda data: data["message"].update(value=str(2**256)))),
}


def retell(message: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> None:
    data = json.loads(message["message_prehash"])
    change(data)
    message["message_prehash"] = json.dumps(data)


@pytest.mark.parametrize("change", MESSAGES)
def test_what_is_not_the_transfer_is_not_signed(change: str) -> None:
    rule, edit = MESSAGES[change]
    case = by_token(PAYING)
    edit(case["prepared"]["signed_messages"][0])
    with pytest.raises(NotSigned, match=rule):
        check(case)


def test_earlier_windows_are_the_gateways_to_choose() -> None:
    def earlier(asked: Asked, deposit: dict[str, Any]) -> None:
        later(deposit, "reserveDeadline", -5)
        later(deposit, "refundAfter", -5)
        later(asked.message, "validBefore", -2)

    [message] = check(by_token(PAYING, earlier))
    assert message.payload["refund_after"] == int(witness(PAYING)["refundAfter"]) - 5


def test_for_a_quote_from_its_price_to_the_cap_is_signed_for() -> None:
    own = known(AWARD)
    assert own.price is not None
    assert own.price < own.amount

    def of(value: int) -> dict[str, Any]:
        return by_token(AWARD, lambda asked, _: asked.message.update(value=str(value)))

    for value in (own.price, own.amount):
        [message] = check(of(value))
        assert message.payload["permitted_amount"] == str(value)
    for value in (own.price - 1, own.amount + 1):
        with pytest.raises(NotSigned, match=f"value is {value}"):
            check(of(value))
    with pytest.raises(NotSigned, match=r"deposit\.quoteHash"):
        check(by_token(AWARD, lambda _, deposit: deposit.update(quoteHash="0x" + "00" * 32)))


def test_the_allowance_for_permit2_stands_in_front_of_its_transfer() -> None:
    case = with_allowance(PAYING)
    messages = check(case)
    assert ["0x" + one.digest.hex() for one in messages] == [one["message"] for one in case["prepared"]["signed_messages"]]
    permit, transfer = messages
    assert isinstance(permit, evm.Allowance)
    assert isinstance(transfer, evm.Permit)
    assert (permit.payload["spender"], permit.payload["amount"]) == (PERMIT2, str(2**256 - 1))
    with pytest.raises(NotSigned, match="check_messages"):
        evm.check(known(case), case["prepared"])
    with pytest.raises(NotSigned, match="check_messages"):
        evm.check(known(PAYING), by_token(PAYING)["prepared"])


ALLOWANCES: dict[str, tuple[str, Callable[[Asked], Any]]] = {
    "owner": ("owner must be", lambda asked: asked.message.update(owner=OTHER)),
    "spender": ("spender must be", lambda asked: asked.message.update(spender=OTHER)),
    "amount": ("value must be", lambda asked: asked.message.update(value="1")),
    "deadline": ("could be given too late", lambda asked: later(asked.message, "deadline")),
    "chain": (r"domain\.chainId must be", lambda asked: asked.domain.update(chainId=1)),
    "token": (r"domain\.verifyingContract must be", lambda asked: asked.domain.update(verifyingContract=PERMIT2)),
}


@pytest.mark.parametrize("change", ALLOWANCES)
def test_an_allowance_for_anybody_else_is_not_signed(change: str) -> None:
    rule, edit = ALLOWANCES[change]
    with pytest.raises(NotSigned, match=rule):
        check(with_allowance(PAYING, edit))


def test_other_numbers_and_orders_of_messages_are_not_signed() -> None:
    transfer = by_token(PAYING)
    transfer["prepared"]["signed_messages"] *= 2
    with pytest.raises(NotSigned, match="number of signatures"):
        check(transfer)
    allowed = with_allowance(PAYING)
    allowed["prepared"]["signed_messages"].reverse()
    with pytest.raises(NotSigned, match="domain"):
        check(allowed)
    allowed["prepared"]["signed_messages"] *= 2
    with pytest.raises(NotSigned, match="number of signatures"):
        check(allowed)
    alone = with_allowance(PAYING)
    alone["prepared"]["signed_messages"].pop()
    with pytest.raises(NotSigned, match="not Permit2's"):
        check(alone)


def taking(case: dict[str, Any]) -> World:
    """A world whose gateway takes signatures for tokens."""
    for defaults in case["defaults"].values():
        defaults["message_schemes"] = ["EVM_EIP3009", "EVM_PERMIT2_ESCROW"]
    return World(case=case)


@pytest.mark.parametrize("case", [by_token(PAYING), with_allowance(PAYING)], ids=["transfer", "allowance"])
def test_a_payment_by_the_tokens_own_signatures_sends_no_transaction(case: dict[str, Any]) -> None:
    with taking(case).serving() as world, Gateway(world.url) as gateway:
        payment = gateway.pay(ORDER, world.wallet)
        assert payment.is_completed
        assert (world.sent, payment.sent.approvals) == ([], [])
        assert world.asked.count("/v1/payments/prepare") == 1
        assert gateway.allow(ORDER, world.wallet).approvals == []
        [body] = map(json.loads, world.submitted)
        auth = body["sender_auth"]
        assert auth["message_scheme"] == case["prepared"]["message_scheme"]
        rebuilt = check(case)
        assert [one["message"] for one in auth["signed_messages"]] == ["0x" + one.digest.hex() for one in rebuilt]
        for signed, message in zip(auth["signed_messages"], rebuilt, strict=True):
            assert signed["payload"].items() >= message.payload.items()
            assert Account.recover_message(message.signable, signature=signed["signature"]).lower() == ORDER.account


def test_coins_are_wrapped_where_no_allowance_is_needed() -> None:
    case = with_allowance(PAYING)
    for defaults in case["defaults"].values():
        for asset in defaults["assets"]:
            asset["wraps"] = "eip155:31337/slip44:60"
    world = taking(case)
    world.balance = (ORDER.max_source_amount or 0) - 7
    with world.serving(), Gateway(world.url) as gateway:
        payment = gateway.pay(ORDER, world.wallet, wrap=True)
        assert (len(payment.sent.wrapped), payment.sent.approvals) == (1, [])
        assert selector("deposit()") in world.sent[0]
        # What was prepared before is asked for anew.
        assert world.asked.count("/v1/payments/prepare") == 2


def test_an_allowance_is_given_where_permit2_alone_is_signed_for() -> None:
    with taking(copy.deepcopy(PAYING)).serving() as world, Gateway(world.url) as gateway:
        assert len(gateway.pay(ORDER, world.wallet).sent.approvals) == 1
        assert world.asked.count("/v1/payments/prepare") == 2


def test_nothing_is_sent_or_signed_for_a_gateway_that_lies() -> None:
    case = by_token(PAYING, lambda asked, _: asked.message.update(to=OTHER))
    with taking(case).serving() as world, Gateway(world.url) as gateway:
        with pytest.raises(NotSigned, match="to must be"):
            gateway.pay(ORDER, world.wallet)
        assert (world.sent, world.submitted) == ([], [])


def test_the_payer_of_these_worlds_is_the_one_of_the_order() -> None:
    assert Account.from_key(KEY).address.lower() == ORDER.account
