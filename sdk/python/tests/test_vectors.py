"""Known values: those of the gateway's own tests, and what a gateway prepared."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from gateway_client import NotDue, Order, owned, payment_id, quotes
from gateway_client.escrow_abi import DEPOSITED_TOPIC, TERMS, selector
from gateway_client.keccak import keccak256, on_chain
from gateway_client.solana import message as solana_message
from gateway_client.solana import program
from gateway_client.tron.address import address_bytes, address_text
from gateway_client.tron.transaction import Call

ROOT = Path(__file__).resolve().parents[3]


def read(path: str) -> object:
    return json.loads((ROOT / path).read_text())


def test_payment_ids() -> None:
    # `id_of_a_known_key_never_changes` of events/src/ids.rs.
    known = "pay_5u3uedbzhw2omp4cgvym2jxmn6sy4wwjrcqibir5cbnvh4dma6vq"
    assert payment_id("did:example:payer", "order-1") == known


def order(cap: int | None, *destinations: str) -> Order:
    account = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    source = owned("eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", account)
    return Order(source, tuple(owned(one, account) for one in destinations), 25, cap)


def test_terms_hashes() -> None:
    # `canonical_form_is_the_documented_one` of events/src/terms.rs.
    account = '"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"'
    canonical = (
        f'{{"destination":[{{{account},"asset_identifier":"eip155:10/slip44:60"}},'
        f'{{{account},"asset_identifier":"eip155:137/slip44:966"}}],"fulfillment_amount":"25","max_source_amount":"30",'
        f'"source":{{{account},"asset_identifier":"eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"}}}}'
    )
    ordered = order(30, "eip155:137/slip44:966", "eip155:10/slip44:60", "eip155:10/slip44:60")
    assert ordered.terms_hash() == sha256(canonical.encode()).digest()
    assert order(None, "eip155:10/slip44:60").terms_hash() != order(25, "eip155:10/slip44:60").terms_hash()


def test_terms_on_tron_are_the_same_however_the_chain_is_written() -> None:
    account = "TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top"
    both = [owned(f"tron:{chain}/slip44:195", account) for chain in ("728126428", "0x2B6653DC")]
    assert both[0] == both[1]


def test_quote_hashes() -> None:
    # The worked example of `/docs/quote-hash`, made with npm `jsonld`.
    document = read("api/src/docs/quote.json")
    assert isinstance(document, dict)
    assert quotes.nquads(document) == (ROOT / "api/src/docs/quote.nq").read_text()
    named = {**document, "id": "urn:uuid:1"}
    assert quotes.nquads(named).startswith("<urn:uuid:1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type>")


def test_deposits_on_solana() -> None:
    vectors = read("contracts/solana/vectors.json")
    assert isinstance(vectors, dict)
    deposit, fields = vectors["deposit"], vectors["deposit"]["fields"]
    preimage = bytes.fromhex(deposit["preimage"])
    assert preimage.startswith(solana_message.PREFIX + bytes([solana_message.DOMAIN_VERSION]))
    assert solana_message.Deposit(preimage, Pubkey.default()).digest.hex() == deposit["digest"]
    signer = Keypair.from_seed(bytes.fromhex(deposit["signer_secret_key_seed"]))
    assert bytes(signer.sign_message(bytes.fromhex(deposit["digest"]))).hex() == deposit["signature"]
    # The addresses that the program derives.
    program_id, payer = Pubkey(preimage[42:74]), Pubkey.from_string(fields["payer"])
    payment = bytes.fromhex(fields["payment_id"])
    assert str(solana_message.delegate_of(program_id, signer.pubkey())) == vectors["addresses"]["delegate"]["key"]
    found = [str(address) for address in program.Escrow.addresses(program_id, payment)]
    assert found == [vectors["addresses"][name]["key"] for name in ("escrow", "vault")]
    account = program.token_account(payer, program.TOKEN_PROGRAM, Pubkey.from_string(fields["mint"]))
    assert str(account) == vectors["addresses"]["payer_token"]["key"]


def test_escrows_on_solana_are_read_however_often_they_were_reassigned() -> None:
    vectors = read("contracts/solana/vectors.json")
    assert isinstance(vectors, dict)
    account = bytes.fromhex(vectors["escrow_account"])
    fields = vectors["deposit"]["fields"]
    payment, program_id = bytes.fromhex(fields["payment_id"]), Pubkey.from_string(vectors["domain"]["program_id"])

    def escrow(state: int) -> program.Escrow:
        return program.Escrow.read(program_id, payment, account[:2] + bytes([state]) + account[3:])

    # Above the state it stands how often.
    for state in (1, 0b101, 0b11111101):
        escrow(state).insist_due(int(fields["refund_after"]))
    for state, ended in ((2, "released"), (0b110, "released"), (3, "refunded"), (0b111, "refunded")):
        with pytest.raises(NotDue, match=ended):
            escrow(state).insist_due(int(fields["refund_after"]))


def trondev() -> list[dict[str, str]]:
    vectors = read("tools/trondev/tests/tronweb/vectors.json")
    assert isinstance(vectors, list)
    return [vector for vector in vectors if vector["kind"] == "trigger"]


@pytest.mark.parametrize("vector", trondev())
def test_transactions_of_tron(vector: dict[str, str]) -> None:
    # Made by tronweb.
    raw = bytes.fromhex(vector["raw_data_hex"])
    read = Call.read(raw)
    assert (read.raw_data(), read.id.hex()) == (raw, vector["id"])
    assert read.signed(bytes.fromhex(vector["signature"])).hex() == vector["message"]
    assert address_text(read.owner) == vector["base58"]
    assert address_bytes(vector["base58"]).hex() == vector["hex"].removeprefix("41")


def test_payments_on_tron() -> None:
    vectors = read("chains/tron/tests/client/vectors.json")
    assert isinstance(vectors, list)
    for vector in vectors:
        assert "0x" + on_chain(vector["payment_id"]).hex() == vector["deposit"]["paymentId"]
        ordered = Order.of(vector["terms"])
        assert "0x" + ordered.terms_hash().hex() == vector["deposit"]["termsHash"]


@pytest.mark.parametrize("text", ["TAfdACjkJvcr9gutCjhXsRAe8GX6PBspL4", "TAfd", "", "1" * 34, "z" * 34, "0" * 34])
def test_addresses_of_tron_have_a_checksum(text: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        address_bytes(text)


def test_calls_and_events_are_those_of_the_contract() -> None:
    # Selectors and topics of the committed artefact.
    artefact = json.dumps(read("contracts/artifacts/GatewayEscrow.json"))
    assert selector(f"refund({TERMS})").hex() in artefact
    assert DEPOSITED_TOPIC.hex() in artefact
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"


def test_a_mistyped_address_is_refused() -> None:
    right = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    for spelling in (right, right.lower(), "0x" + right[2:].upper()):
        assert owned("eip155:10/slip44:60", spelling)["account"] == right.lower()
    with pytest.raises(ValueError, match="EIP-55"):
        owned("eip155:10/slip44:60", "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
    with pytest.raises(ValueError, match="EIP-55"):
        owned("eip155:1/erc20:0xa0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", right)
