"""Mandates: what is signed is that of contracts/vectors/mandates.json, and the contract where its code leads."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_account import Account

from address_world import create, creation
from gateway_client import Limits, MandateOrder, MandateTerms, Order, Terms, evm
from gateway_client.escrow_abi import selector
from gateway_client.keccak import keccak256
from mandate_world import CONTRACT, MANDATE
from network import ROOT

VECTORS: dict[str, Any] = json.loads((ROOT / "contracts/vectors/mandates.json").read_text())
CHAIN_ID, PERMIT2 = VECTORS["chain_id"], VECTORS["permit2"]
ONES: list[dict[str, Any]] = VECTORS["mandates"]


def test_the_contract_is_where_its_code_leads() -> None:
    known = {"0x" + CONTRACT.hex(): "0x" + create(CONTRACT).hex()}
    assert creation("Mandates")
    assert known == {evm.MANDATES: evm.MANDATE_IMPLEMENTATION}
    assert known == {VECTORS["contract"]: VECTORS["implementation"]}


def terms_of(written: dict[str, Any]) -> MandateTerms:
    """The terms by which a mandate of the vectors is made, of a payment's that they have."""
    body = json.loads(written["charges"][0]["terms"])
    payment = Order.of({**body, "request_id": "of-the-vectors"})
    order = MandateOrder(
        payment.source,
        payment.destination,
        written["merchant"],
        int(written["amount"]),
        written["period_seconds"],
        written["periods"],
        int(written["least"]) or None,
        written["begins"],
        written["lock_seconds"],
    )
    accounts = {"escrow": written["escrow"], "reserver": "0x" + "99" * 20, "releaser": written["releaser"], "permit2": PERMIT2}
    known: dict[str, Any] = {"quote_hash": bytes(32), "refund_delay_seconds": 30, "limits": Limits()}
    terms = Terms(order=payment, amount=1, **accounts, **known)
    return MandateTerms(order, terms, bytes.fromhex(written["salt"][2:]))


def values(written: dict[str, Any]) -> tuple[Any, ...]:
    """A mandate as the contract takes it."""
    return (
        *(written[name] for name in ("payer", "merchant", "token")),
        *(int(written["amount"]), int(written["least"]), written["escrow"], written["releaser"]),
        *(written[name] for name in ("begins", "period_seconds", "periods", "lock_seconds")),
        *(bytes.fromhex(written["salt"][2:]), written["terms_before"].encode(), written["terms_after"].encode()),
    )


def signature_of(message: evm.Message, key: str) -> str:
    return "0x" + bytes(Account.from_key(key).sign_message(message.signable).signature).hex()


@pytest.mark.parametrize("at", range(len(ONES)))
def test_addresses_digests_and_signatures_are_those_of_the_vectors(at: int) -> None:
    written = ONES[at]
    mandate = evm.Mandate.of(terms_of(written))
    assert mandate.terms_before.decode() == written["terms_before"]
    assert mandate.terms_after.decode() == written["terms_after"]
    encoded = encode([MANDATE], [values(written)])
    assert encoded[32:] == mandate.encoded
    assert "0x" + keccak256(encoded).hex() == written["create2_salt"]
    assert mandate.address == written["address"]
    permit, expected = mandate.permit(CHAIN_ID, PERMIT2), written["permit"]
    details = permit.typed_data["message"]["details"]
    assert [str(details[name]) for name in ("amount", "expiration", "nonce")] == [
        str(expected[name]) for name in ("amount", "expiration", "nonce")
    ]
    assert permit.typed_data["message"]["sigDeadline"] == expected["sig_deadline"]
    assert "0x" + permit.digest.hex() == expected["digest"]
    assert signature_of(permit, written["payer_private_key"]) == expected["signature"]
    cancellation = mandate.cancellation(CHAIN_ID)
    assert "0x" + cancellation.digest.hex() == written["cancellation"]["digest"]
    assert signature_of(cancellation, written["payer_private_key"]) == written["cancellation"]["signature"]
    # The body says the same again.
    payment = terms_of(written).payment
    again = MandateTerms.of(payment, json.loads(json.dumps(terms_of(written).payload)))
    assert evm.Mandate.of(again) == mandate


@pytest.mark.parametrize("at", range(len(ONES)))
def test_what_a_merchant_signs_is_that_of_the_vectors(at: int) -> None:
    written = ONES[at]
    mandate = evm.Mandate.of(terms_of(written))
    for asked in written["charges"]:
        order = Order.of(json.loads(asked["terms"]))
        whole = f'{order.amount}","max_source_amount":"{order.max_source_amount}'.encode().join(order.around_amounts())
        assert whole.decode() == asked["terms"]
        assert "0x" + sha256(whole).hexdigest() == asked["terms_hash"] == "0x" + order.terms_hash().hex()
        charge = evm.Charge(
            bytes.fromhex(asked["payment_id"][2:]),
            int(asked["fulfillment_amount"]),
            int(asked["amount"]),
            asked["reserver"],
            asked["reserve_deadline"],
            asked["fulfillment_deadline"],
            asked["refund_after"],
        )
        message = mandate.charge(CHAIN_ID, charge)
        assert "0x" + message.digest.hex() == asked["digest"]
        assert signature_of(message, written["merchant_private_key"]) == asked["signature"]


@pytest.mark.parametrize("at", range(len(ONES)))
def test_calls_are_those_of_the_contracts(at: int) -> None:
    written = ONES[at]
    mandate, all_of_it = evm.Mandate.of(terms_of(written)), values(written)
    for signature in (b"", b"\x01" * 65):
        data = selector(f"cancel({MANDATE},bytes)") + encode([MANDATE, "bytes"], [all_of_it, signature])
        assert evm.cancel_mandate_call(mandate, signature) == (VECTORS["contract"], data)
    data = selector(f"giveBack({MANDATE},address)") + encode([MANDATE, "address"], [all_of_it, written["token"]])
    assert evm.give_back_mandate_call(mandate, written["token"]) == (VECTORS["contract"], data)
    allowed = (written["token"], written["address"], int(written["permit"]["amount"]), written["permit"]["expiration"])
    data = selector("approve(address,address,uint160,uint48)") + encode(["address", "address", "uint160", "uint48"], allowed)
    assert evm.allow_mandate_call(mandate, PERMIT2) == (PERMIT2, data)
