"""Batches: what is signed and drawn is that of contracts/vectors/payment-batches.json, and the contract where its code leads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eth_abi.abi import encode

from address_world import DEPLOYER, create, create2, creation
from batch_world import BATCH, tree_root
from gateway_client import evm
from gateway_client.escrow_abi import selector
from gateway_client.keccak import keccak256
from network import ROOT

VECTORS: dict[str, Any] = json.loads((ROOT / "contracts/vectors/payment-batches.json").read_text())


def test_the_contract_is_where_its_code_leads() -> None:
    contract = create2(b"\xff", DEPLOYER, bytes(32), creation("PaymentBatches"))
    known = {"0x" + contract.hex(): "0x" + create(contract).hex()}
    assert known == {evm.PAYMENT_BATCHES: evm.BATCH_IMPLEMENTATION}
    assert known == {VECTORS["contract"]: VECTORS["implementation"]}


def vector(n: int) -> evm.AddressTerms:
    """The terms of payment n of the vectors, by their rule."""
    rule, deadline = VECTORS["rule"], VECTORS["deadline"]
    fulfilled = deadline + n % 7
    deposit = {
        "paymentId": keccak256(f"payment-{n}".encode()),
        "termsHash": keccak256(f"terms-{n}".encode()),
        "quoteHash": bytes(32),
        "payer": VECTORS["payer"],
        "reserver": rule["reserver"],
        "releaser": rule["releaser"],
        "reserveDeadline": deadline,
        "fulfillmentDeadline": fulfilled,
        "refundAfter": fulfilled + 30 + n % 3,
    }
    return evm.AddressTerms(escrow=VECTORS["escrow"], token=rule["token"][n % 3], amount=10**18 * (n + 1) + n, deposit=deposit)


def test_leaves_roots_digests_and_addresses_are_those_of_the_vectors() -> None:
    for n, written in enumerate(VECTORS["payments"]):
        own, shown = vector(n), written["deposit"]
        assert "0x" + evm.payment_leaf(own).hex() == written["leaf"]
        assert (own.escrow, own.token, str(own.amount)) == (written["escrow"], written["token"], written["amount"])
        texts = ["0x" + value.hex() if isinstance(value, bytes) else value for value in own.deposit.values()]
        assert texts == list(shown.values())
    assert [batch["count"] for batch in VECTORS["batches"]] == [1, 2, 3, 5, 6, 7, 256]
    for written in VECTORS["batches"]:
        root = evm.payment_root([evm.payment_leaf(vector(n)) for n in range(written["count"])])
        assert "0x" + root.hex() == written["payments"]
        permitted = [(one["token"], int(one["amount"])) for one in written["permitted"]]
        deadline, payer, escrow = VECTORS["deadline"], VECTORS["payer"], VECTORS["escrow"]
        batch = evm.Batch(payer, permitted, escrow, int.from_bytes(root, "big"), deadline, root)
        assert "0x" + batch.permit(VECTORS["chain_id"], VECTORS["permit2"]).digest.hex() == written["digest"]
        assert batch.address == written["address"]
        encoded = encode([BATCH], [(payer, permitted, escrow, batch.nonce, deadline, root)])
        assert "0x" + keccak256(encoded).hex() == written["salt"]
        to, data = evm.give_back_batch_call(batch, permitted[0][0])
        arguments = encode([BATCH, "address"], [(payer, permitted, escrow, batch.nonce, deadline, root), permitted[0][0]])
        assert (to, data) == (VECTORS["contract"], selector(f"giveBack({BATCH},address)") + arguments)


def test_a_tree_of_any_size_has_the_root_that_its_halves_have() -> None:
    leaves = [keccak256(f"leaf {n}".encode()) for n in range(40)]
    for count in range(1, 41):
        assert evm.payment_root(leaves[:count]) == tree_root(leaves[:count])
    with pytest.raises(ValueError, match="has a payment"):
        evm.payment_root([])
