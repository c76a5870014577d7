"""Deposit addresses on Solana: what the program's own tests publish, and the instructions by which money goes back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from address_world import SOLANA, Given
from gateway_client import Limits, NotSigned, Pins
from gateway_client.solana import (
    AddressTerms,
    CheckedAddress,
    address_terms,
    check_address,
    give_back_call,
    give_back_lamports_call,
)
from gateway_client.solana.program import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, token_account
from network import ROOT
from solana_keys import is_on_curve, program_addresses

VECTORS = json.loads((ROOT / "contracts/solana/vectors.json").read_text())


def published() -> tuple[dict[str, Any], AddressTerms]:
    """What the program's tests publish, and its terms."""
    kept = VECTORS["deposit_address"]
    fields = kept["fields"]
    deposit = {
        "paymentId": bytes.fromhex(fields["payment_id"]),
        "termsHash": bytes.fromhex(fields["terms_hash"]),
        "quoteHash": bytes.fromhex(fields["quote_hash"]),
        "payer": fields["payer"],
        "reserver": fields["reserver"],
        "releaser": fields["releaser"],
        "reserveDeadline": fields["reserve_deadline"],
        "fulfillmentDeadline": fields["fulfillment_deadline"],
        "refundAfter": fields["refund_after"],
    }
    return kept, AddressTerms(kept["program_id"], fields["mint"], fields["amount"], deposit)


def shown(instruction: Instruction) -> dict[str, Any]:
    """An instruction as it is published."""
    accounts = [{"key": str(one.pubkey), "signer": one.is_signer, "writable": one.is_writable} for one in instruction.accounts]
    return {"program": str(instruction.program_id), "accounts": accounts, "data": bytes(instruction.data).hex()}


def test_the_published_terms_have_the_published_address() -> None:
    kept, terms = published()
    assert terms.encoded.hex() == kept["terms"]
    assert (terms.address, terms.factory) == (kept["address"], kept["program_id"])
    assert str(token_account(terms.key, TOKEN_PROGRAM, Pubkey.from_string(terms.token))) == kept["token_account"]
    assert VECTORS["deposit"]["preimage"].endswith(kept["terms"]), "they are what other payers sign"


def test_the_instructions_that_give_back_are_the_published_ones() -> None:
    kept, terms = published()
    carrier = kept["instructions"]["give_back"]["accounts"][0]["key"]
    assert shown(give_back_call(terms, carrier)) == kept["instructions"]["give_back"]
    assert shown(give_back_lamports_call(terms)) == kept["instructions"]["give_back_lamports"]


def test_another_token_account_of_the_address_is_emptied_by_its_name() -> None:
    kept, terms = published()
    instruction, own = kept["instructions"]["give_back"], SOLANA.written(b"\7" * 32)
    carrier = instruction["accounts"][0]["key"]
    accounts = list(instruction["accounts"])
    accounts[3] = {"key": own, "signer": False, "writable": True}
    assert shown(give_back_call(terms, carrier, from_account=own)) == instruction | {"accounts": accounts}
    # The associated one by its name is the one that is taken without it.
    assert shown(give_back_call(terms, carrier, from_account=kept["token_account"])) == instruction
    for wrong in ("", "0x", "1"):
        with pytest.raises(ValueError, match="is not an account of Solana"):
            give_back_call(terms, carrier, from_account=wrong)


def test_an_address_has_no_key() -> None:
    checked = SOLANA.check(SOLANA.give())
    assert not is_on_curve(SOLANA.read(checked.address))
    # Of the payer there is one.
    assert is_on_curve(SOLANA.read(SOLANA.order.account))


@pytest.mark.parametrize("token_program", [TOKEN_PROGRAM, TOKEN_2022_PROGRAM], ids=["spl-token", "token-2022"])
def test_any_token_is_given_back_to_the_refund_account_or_where_that_signs_for(token_program: Pubkey) -> None:
    checked = SOLANA.check(SOLANA.give())
    terms, program, carrier, other = checked.terms, SOLANA.factory, SOLANA.defaults["reserver"], SOLANA.other
    assert isinstance(terms, AddressTerms)

    def associated(owner: str, token: str) -> str:
        seeds = [SOLANA.read(owner), bytes(token_program), SOLANA.read(token)]
        return SOLANA.written(next(program_addresses(SOLANA.read("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"), seeds)))

    escrow = SOLANA.written(next(program_addresses(program, [b"escrow", terms.deposit["paymentId"]])))
    for token in (terms.token, other):
        for to in (None, SOLANA.written(b"\7" * 32)):
            call = shown(give_back_call(terms, carrier, token, token_program, to=to, closes=to is None))
            accounts = [(one["key"], one["signer"], one["writable"]) for one in call["accounts"]]
            assert accounts == [
                (carrier, False, True),
                (escrow, False, False),
                (checked.address, False, False),
                (associated(checked.address, token), False, True),
                (to or associated(SOLANA.order.account, token), False, True),
                (SOLANA.order.account, to is not None, False),
                (token, False, False),
                (str(token_program), False, False),
            ]
            assert call["data"] == "0b" + terms.encoded.hex() + ("01" if to is None else "00")
            assert call["program"] == SOLANA.defaults["escrow_contract_address"]


def test_nothing_but_the_escrow_program_makes_addresses() -> None:
    terms = SOLANA.check(SOLANA.give()).terms
    assert AddressTerms(terms.escrow, terms.token, terms.amount, terms.deposit, terms.escrow) == terms
    with pytest.raises(ValueError, match="factory must be the escrow program"):
        AddressTerms(terms.escrow, terms.token, terms.amount, terms.deposit, SOLANA.other)


@pytest.mark.parametrize("change", ["escrow", "token", "payer", "reserver", "releaser", "amount", "refundAfter"])
def test_every_term_leads_to_another_address(change: str) -> None:
    terms = SOLANA.check(SOLANA.give()).terms
    own: dict[str, Any] = {"escrow": terms.escrow, "token": terms.token, "amount": terms.amount, "deposit": dict(terms.deposit)}
    place = own if change in own else own["deposit"]
    place[change] = place[change] + 1 if isinstance(place[change], int) else SOLANA.other
    assert AddressTerms(**own).address != terms.address


def test_an_amount_that_no_token_has_is_refused() -> None:
    terms = address_terms(SOLANA.order, SOLANA.batch(), SOLANA.case["defaults"], Pins(), Limits())

    def checked(amount: int) -> CheckedAddress:
        def edit(given: Given) -> None:
            given.update(amount=str(amount))
            given["terms"].update(amount=str(amount))
            given.update(address=SOLANA.computed(given) if amount < 2**64 else SOLANA.other)

        return check_address(replace(terms, amount=amount), SOLANA.payment(SOLANA.give(edit)), now=SOLANA.fulfilled - 200)

    assert checked(2**64 - 1).amount == 2**64 - 1
    with pytest.raises(NotSigned, match="max_source_amount has more than 64 bits"):
        checked(2**64)
