"""Verifier sets: the id that a payer signs for is that of the escrows' own vectors, and a gateway that shows other verifiers than
those it has the payer sign for is refused."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from solders.pubkey import Pubkey

from gateway_client import Limits, NotSigned, Order, PinMismatch, Pins, releaser_of, terms, verifier_set_id
from gateway_client.keccak import keccak256
from gateway_client.tron.address import address_bytes, address_text
from test_prepared import CASES, CHECKS, ELSEWHERE, namespace

ROOT = Path(__file__).resolve().parents[3]
MEMBERS = {
    "eip155": ["0x" + digit * 40 for digit in "123"],
    "solana": [str(Pubkey(bytes([digit] * 32))) for digit in (1, 2, 3)],
    "tron": [address_text(bytes([digit] * 20)) for digit in (1, 2, 3)],
}
FAMILIES = pytest.mark.parametrize("family", MEMBERS)
#: One case of each family, of those without a quote.
OWN = {family: next(case for case in CASES if namespace(case) == family and "quote" not in case) for family in MEMBERS}


def of(accounts: list[str], threshold: int = 2) -> dict[str, Any]:
    members = [{"account": account, "endpoint": f"https://v{at}.example"} for at, account in enumerate(accounts)]
    return {"threshold": threshold, "members": members}


def showing(family: str, where: str, **shown: Any) -> dict[str, Any]:
    """A case in which the gateway shows the releaser as these verifiers."""
    case = copy.deepcopy(OWN[family])
    own = case["defaults"][Order.of(case["order"]).chain_id]
    place = own if where == "defaults" else case["prepared"]
    place["fulfillment_verifier"] = {"account": own["releaser"], "endpoint": "https://v0.example", **shown}
    return case


def check(case: dict[str, Any], pins: Pins | None = None, order: Order | None = None) -> None:
    known = terms(order or Order.of(case["order"]), case["defaults"], pins or Pins(), Limits())
    CHECKS[namespace(case)](known, case["prepared"])


def releaser(case: dict[str, Any]) -> str:
    return str(case["defaults"][Order.of(case["order"]).chain_id]["releaser"])


def test_ids_are_those_of_the_evm_escrow() -> None:
    sets = json.loads((ROOT / "contracts/vectors/verifier-set.json").read_text())["sets"]
    assert len(sets) > 1
    for known in sets:
        for accounts in (known["members"], known["members"][::-1]):
            assert verifier_set_id("eip155", known["threshold"], accounts) == known["id"]


@FAMILIES
@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_an_id_is_the_hash_of_threshold_and_members(family: str, threshold: int) -> None:
    read = {
        "eip155": lambda account: bytes.fromhex(account[2:]),
        "solana": lambda account: bytes(Pubkey.from_string(account)),
        "tron": address_bytes,
    }[family]
    accounts = MEMBERS[family]
    preimage = b"gw-verifier-set" + bytes([1, threshold, 3]) + b"".join(sorted(map(read, accounts)))
    expected = {
        "eip155": "0x" + keccak256(preimage)[12:].hex(),
        "solana": str(Pubkey(sha256(preimage).digest())),
        "tron": address_text(keccak256(preimage)[12:]),
    }[family]
    assert verifier_set_id(family, threshold, accounts) == verifier_set_id(family, threshold, accounts[::-1]) == expected
    assert releaser_of(family, threshold, accounts) == expected
    assert releaser_of(family, 1, accounts[:1]) == accounts[0] != verifier_set_id(family, 1, accounts[:1])


@FAMILIES
def test_what_is_no_set_has_no_id(family: str) -> None:
    one, two, _ = MEMBERS[family]
    foreign = MEMBERS["tron" if family == "eip155" else "eip155"][0]
    for accounts in ([], [one] * 17, [one, one], [one, foreign], [one, ""], [one, one[:-1]]):
        with pytest.raises(ValueError, match=r"."):
            verifier_set_id(family, 1, accounts)
    for threshold in (0, 3, -1, 1.5, True, "2", None):
        with pytest.raises(ValueError, match="cannot be needed"):
            verifier_set_id(family, threshold, [one, two])  # type: ignore[arg-type]
    # Spaces are no digits of an address.
    with pytest.raises(ValueError, match="20 bytes"):
        verifier_set_id("eip155", 1, ["0x" + "11" * 19 + "  "])
    with pytest.raises(ValueError, match="not a family"):
        verifier_set_id("bip122", 1, [one])


@FAMILIES
@pytest.mark.parametrize("where", ["defaults", "prepared"])
def test_verifiers_that_are_shown_are_those_of_the_releaser(family: str, where: str) -> None:
    accounts, own = MEMBERS[family], releaser(OWN[family])
    check(showing(family, where, **of([own], 1)))
    # An older gateway says who, and no more.
    check(showing(family, where))
    for shown, said in (
        (of(accounts), verifier_set_id(family, 2, accounts)),
        (of([own, *accounts], 1), "the 1 of 4 verifiers"),
        (of(accounts[:1], 1), accounts[0]),
        ({"account": accounts[1]}, accounts[1]),
        ({"threshold": 1}, "cannot be"),
        ({"members": [{"account": own}]}, "cannot be"),
        (of([own], 2), "cannot be"),
        (of([], 0), "cannot be"),
        ({"threshold": 1, "members": [None]}, "cannot be"),
        ({"threshold": 1, "members": own}, "cannot be"),
        ({"threshold": 1, "members": 7}, "cannot be"),
    ):
        with pytest.raises(NotSigned, match=said):
            check(showing(family, where, **shown))
    broken = showing(family, where)
    place = broken["prepared"] if where == "prepared" else broken["defaults"][Order.of(broken["order"]).chain_id]
    place["fulfillment_verifier"] = own
    with pytest.raises(NotSigned, match="no object"):
        check(broken)


@FAMILIES
def test_a_set_is_pinned_by_its_releaser(family: str) -> None:
    case = copy.deepcopy(OWN[family])
    order, accounts = Order.of(case["order"]), MEMBERS[family]
    own = case["defaults"][order.chain_id]
    known = releaser_of(family, 2, accounts)
    own |= {"releaser": known, "fulfillment_verifier": {"account": known, "endpoint": "https://v0.example", **of(accounts)}}
    assert terms(order, case["defaults"], Pins(releaser=known), Limits()).releaser == known
    with pytest.raises(PinMismatch):
        terms(order, case["defaults"], Pins(releaser=ELSEWHERE[family]), Limits())
    own["fulfillment_verifier"]["threshold"] = 1
    with pytest.raises(NotSigned, match="the 1 of 3 verifiers"):
        terms(order, case["defaults"], Pins(releaser=known), Limits())


@FAMILIES
def test_verifiers_that_an_order_names_are_looked_for_among_the_known_ones(family: str) -> None:
    case = copy.deepcopy(OWN[family])
    accounts = MEMBERS[family]
    known = releaser_of(family, 2, accounts)
    order = replace(
        Order.of(case["order"]), members={"fulfillment_verifier": {"account": known, "endpoint": "https://v1.example"}}
    )
    own = case["defaults"][order.chain_id]
    assert terms(order, case["defaults"], Pins(), Limits()).releaser == known
    own["fulfillment_verifiers"].append({"account": known, "endpoint": "https://v0.example", **of(accounts)})
    assert terms(order, case["defaults"], Pins(), Limits()).releaser == known
    own["fulfillment_verifiers"][-1]["threshold"] = 3
    with pytest.raises(NotSigned, match="the 3 of 3 verifiers"):
        terms(order, case["defaults"], Pins(), Limits())
