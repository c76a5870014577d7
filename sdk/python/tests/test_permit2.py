"""Permit2's transfer on Tron: what a payer signs, what it does not, and the allowance in front of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest
from eth_account import Account

from address_world import base58check
from gateway_client import Choice, Gateway, Limits, NotSigned, Order, PinMismatch, Pins, Terms, evm, quotes, terms, tron, trust
from gateway_client.escrow_abi import selector, word
from gateway_client.schemas import QuoteRequestRead
from gateway_client.transport import run
from gateway_client.tron.address import address_bytes
from gateway_client.tron.transaction import Call
from gateway_client.tron.wallet import APPROVE_FEE_SUN
from tron_world import MAIN, OWN, OWN_PERMIT2, PERMIT2, SCHEME, Data, TronWorld, asking, case_on, digest, typed_data

#: Of `typed_data(case_on(MAIN))` by tronweb 6.5.1, `trx.signTypedData` with the addresses in Base58Check.
KNOWN_DIGEST = "0xfe638e61bb20ce0f824573eba9d9f22bd3f5d49b6872c2468c0fbc8f0aeb854d"
KNOWN_SIGNATURE = (
    "0x2592fa8ba3f41b4f53f9b8be37988d67d56fd78680fb3beced0ac39b69df38ab"
    "0356d8ba230ad29f9787e3ed4d967544e560da9abecf503df401b62cbe5fe23b1b"
)
OTHER = base58check(bytes.fromhex("00000000000000000000000000000000deadbeef"))
ANOTHER_WORD = "0x" + "11" * 32
NAMED = Pins(permit2=OWN_PERMIT2)


def known(case: dict[str, Any], pins: Pins | None = None) -> Terms:
    order = Order.of(case["order"])
    quote = quotes.taken(order, case["quote"]["quote_id"], case["quote"]["fulfillment_quote"]) if "quote" in case else None
    return terms(order, case["defaults"], pins or Pins(), Limits(), quote)


def check(case: dict[str, Any], pins: Pins | None = None) -> tron.Permit:
    checked = tron.check(known(case, pins), case["prepared"])
    assert isinstance(checked, tron.Permit)
    return checked


def payable(case: dict[str, Any]) -> Order:
    """The order, whose quotes may still be collected."""
    return replace(Order.of(case["order"]), quote_deadline="2099-01-01T00:00:00Z")


def test_the_digest_is_that_of_the_same_values_in_hex_and_that_of_tronweb() -> None:
    case = asking(case_on(MAIN))
    message = check(case)
    [asked] = case["prepared"]["signed_messages"]
    assert asked["message"] == digest(typed_data(case)) == KNOWN_DIGEST == "0x" + message.digest.hex()
    # What a wallet of a browser is given has addresses as Tron writes them.
    assert message.typed_data["domain"] == {"name": "Permit2", "chainId": 728126428, "verifyingContract": PERMIT2}
    assert message.typed_data["message"]["witness"]["payer"] == Order.of(case["order"]).account
    deposit = message.typed_data["message"]["witness"]
    windows = (message.typed_data["message"]["deadline"], deposit["reserveDeadline"], deposit["refundAfter"])
    assert tron.rebuild(known(case), *windows).digest == message.digest


def test_a_network_of_ones_own_has_its_own_permit2() -> None:
    case = asking(case_on(OWN))
    assert check(case, NAMED).typed_data["domain"] == {"name": "Permit2", "chainId": 31339, "verifyingContract": OWN_PERMIT2}
    assert check(case, NAMED).digest != check(asking(case_on(MAIN))).digest


def test_for_a_quote_its_hash_is_signed() -> None:
    case = case_on(OWN, "award-tron-to-evm")
    # The document names the network that it was recorded on.
    quote_hash = known(case, NAMED).quote_hash
    asked = asking(case, lambda data: data["message"]["witness"].update(quoteHash="0x" + quote_hash.hex()))
    assert check(asked, NAMED).typed_data["message"]["witness"]["quoteHash"] == quote_hash != bytes(32)
    with pytest.raises(NotSigned, match="quoteHash must be"):
        check(asking(case), NAMED)


def of(path: str) -> Callable[[Data, Any], None]:
    """Writes a member of typed data."""
    *above, name = path.split(".")

    def write(data: Data, value: Any) -> None:
        for step in above:
            data = data[step]
        data[name] = value(data[name]) if callable(value) else value

    return write


def later(seconds: int) -> Callable[[str], str]:
    return lambda text: str(int(text) + seconds)


WITNESS = "message.witness"
CHANGES: dict[str, tuple[str, str, Any]] = {
    "another chain": (r"domain\.chainId must be 728126428", "domain.chainId", 31339),
    "an EVM chain": (r"domain\.chainId must be 728126428", "domain.chainId", 1),
    "another Permit2": (r"domain\.verifyingContract must be TTJx", "domain.verifyingContract", OTHER),
    "another name": (r"domain\.name must be Permit2", "domain.name", "Permit3"),
    "another escrow": (r"message\.spender must be", "message.spender", OTHER),
    "another token": (r"message\.permitted\.token must be", "message.permitted.token", OTHER),
    "more": (r"message\.permitted\.amount must be 5100000", "message.permitted.amount", later(1)),
    "less": (r"message\.permitted\.amount must be 5100000", "message.permitted.amount", later(-1)),
    "another nonce": (r"message\.nonce must be", "message.nonce", later(1)),
    "another payment": (r"witness\.paymentId must be", f"{WITNESS}.paymentId", ANOTHER_WORD),
    "other terms": (r"witness\.termsHash must be", f"{WITNESS}.termsHash", ANOTHER_WORD),
    "another quote": (r"witness\.quoteHash must be", f"{WITNESS}.quoteHash", ANOTHER_WORD),
    "another payer": (r"witness\.payer must be", f"{WITNESS}.payer", OTHER),
    "another reserver": (r"witness\.reserver must be", f"{WITNESS}.reserver", OTHER),
    "another releaser": (r"witness\.releaser must be", f"{WITNESS}.releaser", OTHER),
    "another delivery": (r"witness\.fulfillmentDeadline must be", f"{WITNESS}.fulfillmentDeadline", later(-1)),
    "a late deposit": ("the deposit would be taken too late", f"{WITNESS}.reserveDeadline", later(1)),
    "a late refund": ("the refund would come too late", f"{WITNESS}.refundAfter", later(1)),
    "an early refund": ("the refund would come before", f"{WITNESS}.refundAfter", later(-30)),
    "a late signature": ("the signature would hold for too long", "message.deadline", later(1)),
    "an early signature": ("the signature would not hold", "message.deadline", later(-1)),
    "another account in hex": (r"message\.spender must be", "message.spender", "0x" + "00" * 16 + "deadbeef"),
}


@pytest.mark.parametrize("is_hashed", [True, False], ids=["hashed", "shown"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_is_not_signed_and_what_differs_is_named(change: str, is_hashed: bool) -> None:
    rule, path, value = CHANGES[change]
    with pytest.raises(NotSigned, match=rule):
        check(asking(case_on(MAIN), lambda data: of(path)(data, value), is_hashed))


def extra_type(data: Data) -> None:
    data["types"]["PermitWitnessTransferFrom"].append({"name": "feeTo", "type": "address"})
    data["message"]["feeTo"] = OTHER


def extra_domain(data: Data) -> None:
    data["types"]["EIP712Domain"].append({"name": "salt", "type": "bytes32"})
    data["domain"]["salt"] = "0x" + "22" * 32


TYPES: dict[str, tuple[str, Callable[[Data], Any]]] = {
    "a member more": ("types are not", extra_type),
    "a member of the domain more": ("types are not", extra_domain),
    "a wider number": ("types are not", lambda data: data["types"]["GatewayDeposit"][6].update(type="uint256")),
    "another order": ("types are not", lambda data: data["types"]["TokenPermissions"].reverse()),
}


@pytest.mark.parametrize("is_hashed", [True, False], ids=["hashed", "shown"])
@pytest.mark.parametrize("change", TYPES)
def test_other_types_are_not_signed(change: str, is_hashed: bool) -> None:
    rule, edit = TYPES[change]
    with pytest.raises(NotSigned, match=rule):
        check(asking(case_on(MAIN), edit, is_hashed))


SHOWN: dict[str, tuple[str, Callable[[Data], Any]]] = {
    "no types": ("types are not", lambda data: data.pop("types")),
    "another name of the type": ("primaryType must be", lambda data: data.update(primaryType="GatewayDeposit")),
    "no witness": ("not Permit2's", lambda data: data["message"].pop("witness")),
    "no number": ("deadline is", lambda data: of("message.deadline")(data, "soon")),
    "a member that is not of the type": ("other members", lambda data: data["message"].update(feeTo=OTHER)),
    "a version": ("other members", lambda data: data["domain"].update(version="1")),
    "a member less": ("other members", lambda data: data["message"].pop("nonce")),
    "an account with its prefix in hex": ("spender must be", lambda data: of("message.spender")(data, prefixed)),
    "an account with another letter": ("spender must be", lambda data: of("message.spender")(data, mistyped)),
    "an account that is a number": ("spender must be", lambda data: of("message.spender")(data, 5)),
}


def prefixed(account: str) -> str:
    return "0x41" + address_bytes(account).hex()


def mistyped(account: str) -> str:
    return account[:-1] + ("1" if account[-1] != "1" else "2")


@pytest.mark.parametrize("change", SHOWN)
def test_what_is_shown_is_what_is_signed(change: str) -> None:
    rule, edit = SHOWN[change]
    with pytest.raises(NotSigned, match=rule):
        check(asking(case_on(MAIN), edit, is_hashed=False))


def test_accounts_may_be_shown_in_hex() -> None:
    def hexed(data: Data) -> None:
        for path in ("domain.verifyingContract", "message.permitted.token", "message.spender", f"{WITNESS}.payer"):
            of(path)(data, lambda account: "0x" + address_bytes(account).hex().upper())

    assert check(asking(case_on(MAIN), hexed)).digest == check(asking(case_on(MAIN))).digest


def test_no_digit_of_the_digest_may_differ() -> None:
    for at in range(2, 66):
        case = asking(case_on(MAIN))
        message = case["prepared"]["signed_messages"][0]
        digit = "1" if message["message"][at] == "0" else "0"
        message["message"] = message["message"][:at] + digit + message["message"][at + 1 :]
        with pytest.raises(NotSigned, match="over something else"):
            check(case)


def test_one_message_of_one_scheme_is_signed() -> None:
    case = asking(case_on(MAIN))
    case["prepared"]["signed_messages"] *= 2
    with pytest.raises(NotSigned, match="number of signatures"):
        check(case)
    case = asking(case_on(MAIN))
    with pytest.raises(NotSigned, match="TRON_PERMIT2_ESCROW"):
        evm.check_messages(known(case), case["prepared"])


def test_permit2_is_pinned_on_the_main_network_and_named_elsewhere() -> None:
    case = case_on(MAIN)
    assert known(case).known_permit2() == PERMIT2
    case["defaults"][MAIN]["permit2"] = OTHER
    with pytest.raises(PinMismatch) as refused:
        check(asking(case))
    assert refused.value.name == "permit2"
    with pytest.raises(NotSigned, match=r"tron:31339 .* Pins\(permit2="):
        check(asking(case_on(OWN)))
    with pytest.raises(PinMismatch):
        check(asking(case_on(OWN)), Pins(permit2=OTHER))
    # A gateway that says one thing and asks for another.
    case = asking(case_on(OWN), lambda data: data["domain"].update(verifyingContract=OTHER))
    with pytest.raises(NotSigned, match=r"verifyingContract must be"):
        check(case, NAMED)


def test_a_pin_counts_on_the_chains_whose_form_it_has() -> None:
    evm_chain, elsewhere = "eip155:1", "0x" + "11" * 20
    assert (Pins().permit2_on(evm_chain), Pins().permit2_on(MAIN), Pins().permit2_on(OWN)) == (trust.PERMIT2, PERMIT2, None)
    assert Pins().permit2_on("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp") is None
    assert (NAMED.permit2_on(evm_chain), NAMED.permit2_on(MAIN), NAMED.permit2_on(OWN)) == (trust.PERMIT2, *[OWN_PERMIT2] * 2)
    pinned = Pins(permit2=elsewhere)
    assert (pinned.permit2_on(evm_chain), pinned.permit2_on(MAIN), pinned.permit2_on(OWN)) == (elsewhere, PERMIT2, None)
    assert check(asking(case_on(MAIN)), pinned).digest == check(asking(case_on(MAIN))).digest


@pytest.mark.parametrize("member", ["escrow", "reserver", "releaser", "permit2"])
def test_a_pin_that_is_not_an_account_is_a_fault_of_the_callers(member: str) -> None:
    for account in ("", "T" + "1" * 33, PERMIT2[:-1]):
        with pytest.raises(ValueError, match=rf"Pins\.{member}: .* is not an address of Tron"):
            known(case_on(MAIN), Pins(**{member: account}))


#: Which Permit2 a gateway names on a network of one's own, and which the payer does.
UNKNOWN: dict[str, tuple[str | None, Pins, str]] = {
    "the payer knows none": (OWN_PERMIT2, Pins(), "name it"),
    "the payer knows one on EVM chains": (OWN_PERMIT2, Pins(permit2="0x" + "11" * 20), "name it"),
    "the gateway names another": (OTHER, NAMED, "another Permit2"),
    "the gateway names one of an EVM chain": ("0x" + "11" * 20, NAMED, "another Permit2"),
    "the gateway names none": (None, NAMED, "no Permit2 on tron:31339"),
    "nobody knows one": (None, Pins(), "name it"),
}
unknown = pytest.mark.parametrize("unknown", UNKNOWN)


def naming(case: dict[str, Any], permit2: str | None) -> dict[str, Any]:
    """The case of a gateway that names this Permit2."""
    case["defaults"][OWN].pop("permit2")
    case["defaults"][OWN] |= {"permit2": permit2} if permit2 else {}
    return case


@unknown
def test_where_permit2_is_not_known_the_payer_signs_transactions(unknown: str) -> None:
    named, pins, _ = UNKNOWN[unknown]
    # As it was recorded.
    case = naming(case_on(OWN), named)
    given = Call.read(bytes.fromhex(case["prepared"]["signed_messages"][-1]["message_prehash"][2:]))
    with TronWorld(case=case, reference=given.ref_block_hash).serving() as world, Gateway(world.url) as gateway:
        assert gateway.allow(payable(case), world.payer, pins=pins).approvals == []
        assert world.prepared == []
        assert gateway.pay(payable(case), world.payer, pins=pins).is_completed
        assert [body["message_scheme"] for body in world.prepared] == ["TRON"]
        [body] = map(json.loads, world.submitted)
        assert body["sender_auth"]["message_scheme"] == "TRON"
        assert world.broadcast == []


@unknown
def test_nobody_signs_for_a_permit2_that_is_not_known(unknown: str) -> None:
    named, pins, rule = UNKNOWN[unknown]
    case = naming(asking(case_on(OWN)), named)
    for asset in case["defaults"][OWN]["assets"]:
        asset["wraps"] = f"{OWN}/slip44:195"
    with TronWorld(case=case, balance=0).serving() as world, Gateway(world.url) as gateway:
        # Whatever it was asked for.
        with pytest.raises(NotSigned, match="TRON_PERMIT2_ESCROW, not TRON"):
            gateway.pay(payable(case), world.payer, pins=pins)
        world.prepared.clear()
        for pay in (gateway.pay, gateway.allow):
            with pytest.raises(NotSigned, match=rule):
                pay(payable(case), world.payer, pins=pins, wrap=True, message_scheme=SCHEME)
        # Nor does a wallet by itself send anything before that.
        with httpx.Client() as client, pytest.raises(NotSigned, match=rule):
            run(world.payer.allow(known(case, pins), wrap=True), client)
        assert (world.broadcast, world.prepared, world.submitted) == ([], [], [])


@pytest.mark.parametrize("account", ["", "0x" + "11" * 20, "TKcn9AZtYfC9f9SnkeHQLArwzZS6mMJyhh"])
def test_a_releaser_that_is_not_an_account_of_tron_is_not_signed_for(account: str) -> None:
    case = asking(case_on(MAIN))
    case["defaults"][MAIN] |= {"releaser": account, "fulfillment_verifier": None}
    with pytest.raises(NotSigned, match="not an address of Tron"):
        check(case)


def test_where_the_allowance_stands_one_signature_is_all() -> None:
    case = asking(case_on(MAIN))
    with TronWorld(case=case).serving() as world, Gateway(world.url) as gateway:
        payment = gateway.pay(payable(case), world.payer)
        assert payment.is_completed
        assert (world.broadcast, payment.sent.approvals) == ([], [])
        # The gateway chooses.
        assert ["message_scheme" in body for body in world.prepared] == [False]
        assert gateway.allow(payable(case), world.payer).approvals == []
        [body] = map(json.loads, world.submitted)
        assert body["sender_auth"]["message_scheme"] == SCHEME
        [signed] = body["sender_auth"]["signed_messages"]
        assert signed == {**case["prepared"]["signed_messages"][0], "signature": KNOWN_SIGNATURE}
        payer = Account._recover_hash(bytes.fromhex(signed["message"][2:]), signature=signed["signature"])
        assert base58check(bytes.fromhex(payer[2:])) == payment.order.account


def test_nothing_is_signed_for_a_gateway_that_lies() -> None:
    case = asking(case_on(MAIN), lambda data: data["message"].update(spender=OTHER))
    with TronWorld(case=case).serving() as world, Gateway(world.url) as gateway:
        with pytest.raises(NotSigned, match="spender must be"):
            gateway.pay(payable(case), world.payer)
        assert (world.broadcast, world.submitted) == ([], [])


def calls(world: TronWorld) -> list[tuple[bytes, bytes, bytes, int, int]]:
    """Payer, contract, data, coins and fee limit of what was broadcast, each signed by the payer."""
    found = []
    for signed in world.broadcast:
        length, begins = (signed[1], 2) if signed[1] < 0x80 else (signed[1] & 0x7F | signed[2] << 7, 3)
        call = Call.read(signed[begins : begins + length])
        assert call.signed(signed[-65:]) == signed
        assert Account._recover_hash(call.id, signature=signed[-65:]).lower() == "0x" + call.owner.hex()
        found.append((call.owner, call.contract, call.data, call.value_sun, call.fee_limit_sun))
    return found


def lying_approval(case: dict[str, Any]) -> dict[str, Any]:
    """What a gateway would like to have approved."""
    source = case["order"]["source"]
    call = {
        "owner_address": source["account"],
        "contract_address": OTHER,
        "function_selector": "approve(address,uint256)",
        "parameter": (word(address_bytes(OTHER)) + word(2**256 - 1)).hex(),
        "call_value": 0,
        "fee_limit": 10**9,
        "visible": True,
    }
    return {"asset_identifier": source["asset_identifier"], "spender": OTHER, "amount": str(2**256 - 1), "call": call}


@pytest.mark.parametrize(("standing", "amounts"), [(0, [5100000]), (1, [0, 5100000]), (5100000, []), (2**256 - 1, [])])
def test_where_the_scheme_is_named_permit2_gets_the_allowance_that_is_missing(standing: int, amounts: list[int]) -> None:
    bare = case_on(MAIN)
    case = asking(bare, approval=lying_approval(bare))
    order = payable(case)
    with TronWorld(case=case, allowance=standing).serving() as world, Gateway(world.url) as gateway:
        payment = gateway.pay(order, world.payer, message_scheme=SCHEME)
        payer, token, permit2 = (
            address_bytes(account) for account in (order.account, order.source["asset_identifier"].rpartition(":")[2], PERMIT2)
        )
        approve = selector("approve(address,uint256)") + word(permit2)
        assert calls(world) == [(payer, token, approve + word(amount), 0, APPROVE_FEE_SUN) for amount in amounts]
        assert len(payment.sent.approvals) == len(amounts)
        # What was prepared before an allowance is asked for anew.
        assert [body["message_scheme"] for body in world.prepared] == [SCHEME] * (2 if amounts else 1)
        [body] = map(json.loads, world.submitted)
        assert (body["sender_auth"]["message_scheme"], body.keys()) == (SCHEME, {*order.body(), "sender_auth"})
        # The allowance alone, for later payments, too, and within what the payer allows.
        world.broadcast.clear()
        limits = Limits(fee_sun=7)
        sent = gateway.allow(order, world.payer, limits=limits, message_scheme=SCHEME, allowance=10**12)
        given = [10**12 if amount else 0 for amount in amounts]
        assert calls(world) == [(payer, token, approve + word(amount), 0, 7) for amount in given]
        assert len(sent.approvals) == len(given)


def test_coins_are_wrapped_before_the_allowance() -> None:
    case = asking(case_on(MAIN))
    for asset in case["defaults"][MAIN]["assets"]:
        asset["wraps"] = "tron:728126428/slip44:195"
    with TronWorld(case=case, balance=5_000_000).serving() as world, Gateway(world.url) as gateway:
        sent = gateway.allow(payable(case), world.payer, wrap=True, message_scheme=SCHEME)
        assert (len(sent.wrapped), len(sent.approvals)) == (1, 1)
        assert [(call[2][:4], call[3]) for call in calls(world)] == [
            (selector("deposit()"), 100_000),
            (selector("approve(address,uint256)"), 0),
        ]


def test_an_allowance_is_given_to_the_permit2_that_is_named() -> None:
    case = asking(case_on(OWN))
    with TronWorld(case=case).serving() as world, Gateway(world.url) as gateway:
        assert len(gateway.allow(payable(case), world.payer, pins=NAMED, message_scheme=SCHEME).approvals) == 1
        [(_, _, data, _, fee)] = calls(world)
        assert data == selector("approve(address,uint256)") + word(address_bytes(OWN_PERMIT2)) + word(5100000)
        assert fee == APPROVE_FEE_SUN == 50_000_000


@pytest.mark.parametrize(("balance", "count"), [(5099999, 0), (5100000, 1)])
def test_no_allowance_is_given_where_the_tokens_are_missing(balance: int, count: int) -> None:
    case = asking(case_on(MAIN))
    with TronWorld(case=case, balance=balance).serving() as world, Gateway(world.url) as gateway:
        sent = gateway.allow(payable(case), world.payer, message_scheme=SCHEME)
        assert (len(sent.approvals), len(world.broadcast)) == (count, count)


@pytest.mark.parametrize("scheme", [None, "TRON"])
def test_how_much_is_allowed_counts_where_permit2_is_named(scheme: str | None) -> None:
    case = asking(case_on(MAIN))
    with TronWorld(case=case).serving() as world, Gateway(world.url) as gateway:
        for pay in (gateway.pay, gateway.allow):
            with pytest.raises(ValueError, match='allowance is for Permit2, with message_scheme="TRON_PERMIT2_ESCROW"'):
                pay(payable(case), world.payer, message_scheme=scheme, allowance=10**12)
        assert (world.broadcast, world.prepared, world.asked) == ([], [], [])
        # A request that was kept may name it, too.
        named = replace(payable(case), members={"message_scheme": SCHEME})
        assert len(gateway.allow(named, world.payer, allowance=10**12).approvals) == 1


def test_an_allowance_of_less_than_may_be_drawn_is_not_given() -> None:
    case = asking(case_on(MAIN))
    with TronWorld(case=case).serving() as world, Gateway(world.url) as gateway:
        with pytest.raises(ValueError, match="less than may be drawn"):
            gateway.allow(payable(case), world.payer, message_scheme=SCHEME, allowance=5099999)
        assert (world.broadcast, world.prepared) == ([], [])


def test_another_scheme_than_was_asked_for_is_not_signed() -> None:
    case = asking(case_on(MAIN))
    with TronWorld(case=case).serving() as world, Gateway(world.url) as gateway:
        with pytest.raises(NotSigned, match="TRON_PERMIT2_ESCROW, not TRON"):
            gateway.pay(payable(case), world.payer, message_scheme="TRON")
        # A request that was kept may name it, too.
        with pytest.raises(NotSigned, match="TRON_PERMIT2_ESCROW, not TRON"):
            gateway.pay(replace(payable(case), members={"message_scheme": "TRON"}), world.payer)
        assert [body["message_scheme"] for body in world.prepared] == ["TRON"] * 2
        assert (world.broadcast, world.submitted) == ([], [])


def test_without_an_allowance_the_payer_signs_its_own_transactions_and_sends_none() -> None:
    # As it was recorded: what the node says of the allowance is not asked for.
    case = case_on(OWN)
    with TronWorld(case=case).serving() as world, Gateway(world.url) as gateway:
        assert gateway.allow(payable(case), world.payer).approvals == []
        assert (world.broadcast, world.prepared) == ([], [])
    assert isinstance(tron.check(known(case), case["prepared"]), tron.Deposit)


def test_an_award_is_prepared_under_the_scheme_that_is_named() -> None:
    bare = case_on(OWN, "award-tron-to-evm")
    quote_hash = known(bare, NAMED).quote_hash
    case = asking(bare, lambda data: data["message"]["witness"].update(quoteHash="0x" + quote_hash.hex()))
    deadlines = {name: case["order"][name] for name in ("quote_deadline", "fulfillment_deadline")}
    batch = {"quote_request_id": "qrq_1", "status": "ready", "quotes": [case["quote"]], **deadlines}
    choice = Choice(cast(QuoteRequestRead, batch), case["quote"]["quote_id"])
    with TronWorld(case=case, allowance=2**256 - 1).serving() as world, Gateway(world.url) as gateway:
        assert gateway.pay(Order.of(case["order"]), world.payer, pins=NAMED, choice=choice, message_scheme=SCHEME).is_completed
        assert [(body["quote_id"], body["message_scheme"]) for body in world.prepared] == [(choice.quote_id, SCHEME)]
        with pytest.raises(NotSigned, match="TRON_PERMIT2_ESCROW, not TRON"):
            gateway.pay(Order.of(case["order"]), world.payer, choice=choice)
        assert [(body["quote_id"], body["message_scheme"]) for body in world.prepared[1:]] == [(choice.quote_id, "TRON")]
        [body] = map(json.loads, world.submitted)
        assert body["sender_auth"]["message_scheme"] == SCHEME
