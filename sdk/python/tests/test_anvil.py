"""The refund, and what is signed for tokens, batches and mandates, on a chain of its own with the committed contracts:
`.tools/bin/anvil` runs it, and nobody but the test is there."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from eth_abi.abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount

from asked import DEPOSIT, PERMIT, RECEIVE, Asked, hash_struct
from gateway_client import (
    Limits,
    MandateOrder,
    MandateTerms,
    NodeError,
    NotDue,
    Order,
    Terms,
    evm,
    payment_id,
    refund,
)
from gateway_client.escrow_abi import DEPOSIT_OWN, deposit_of, opening, selector, typed_fields, word
from gateway_client.evm import EvmWallet, tokens
from gateway_client.evm.wallet import _Sending
from gateway_client.keccak import keccak256, on_chain
from gateway_client.transport import run
from gateway_client.trust import PERMIT2, BatchTerms

ROOT = Path(__file__).resolve().parents[3]
ANVIL = ROOT / ".tools/bin/anvil"
CHAIN_ID, AMOUNT, WINDOW_SECONDS, START_SECONDS_MAX, MINED_SECONDS_MAX = 31337, 1_000, 100, 30, 60
LIMITS = Limits(fee_wei=10**18)
PAYMENT = payment_id("eip155:0x1", "refunded")

pytestmark = pytest.mark.skipif(not ANVIL.exists(), reason="scripts/tools.sh fetches anvil")


class Chain:
    """A chain, and an account with coins."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.payer: LocalAccount = Account.from_key(keccak256(b"a payer on anvil"))
        self.reserver: LocalAccount = Account.from_key(keccak256(b"a reserver on anvil"))
        self.wallet = EvmWallet(self.payer, url)
        self.rpc("anvil_setBalance", self.payer.address, hex(10**20))

    def rpc(self, method: str, *params: Any) -> Any:
        """What the node answers."""
        with httpx.Client() as client:
            return run(self.wallet.node.call(method, *params), client)

    def send(self, to: str, data: bytes) -> None:
        """Sends a call of the payer's."""
        with httpx.Client() as client:
            run(_Sending(self.wallet, CHAIN_ID, LIMITS).send(to, data), client)

    def call(self, sender: str, to: str, data: bytes) -> bool:
        """Sends a call of anybody's; whether it had its effect."""
        self.rpc("anvil_setBalance", sender, hex(10**20))
        sent = self.rpc("eth_sendTransaction", {"from": sender, "to": to, "data": "0x" + data.hex(), "gas": hex(1_000_000)})
        return bool(self.receipt(sent)["status"] == "0x1")

    def receipt(self, transaction: str) -> dict[str, Any]:
        """The receipt of a transaction, once it is in a block."""
        until = time.monotonic() + MINED_SECONDS_MAX
        while time.monotonic() < until:
            found = self.rpc("eth_getTransactionReceipt", transaction)
            if isinstance(found, dict):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{transaction} is in no block")

    def signature(self, message: evm.Message) -> bytes:
        """The payer's."""
        return bytes(self.payer.sign_message(message.signable).signature)

    def deploy(self, contract: str, types: list[str], values: list[Any]) -> str:
        """Puts a committed contract on the chain."""
        artefact = json.loads((ROOT / f"contracts/artifacts/{contract}.json").read_text())
        data = artefact["bytecode"] + encode(types, values).hex()
        sent = self.rpc("eth_sendTransaction", {"from": self.payer.address, "data": data, "gas": hex(10_000_000)})
        return str(self.receipt(sent)["contractAddress"])

    def held(self, token: str) -> int:
        """What the payer holds."""
        data = selector("balanceOf(address)") + word(bytes.fromhex(self.payer.address[2:]))
        return int(self.rpc("eth_call", {"to": token, "data": "0x" + data.hex()}, "latest"), 16)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    command = [str(ANVIL), "--port", "0", "--chain-id", str(CHAIN_ID), "--auto-impersonate", "--accounts", "0"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Chain(listening(process, tmp_path / "log"))
    finally:
        process.terminate()
        process.wait()


def listening(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until and process.poll() is None:
        _, found, rest = log.read_text().partition("Listening on ")
        if found and "\n" in rest:
            return f"http://{rest.partition(chr(10))[0]}"
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def test_a_deposit_that_nobody_settled_comes_back(chain: Chain) -> None:
    payer, reserver = (bytes.fromhex(account.address[2:]) for account in (chain.payer, chain.reserver))
    escrow = chain.deploy(
        "GatewayEscrow", ["address", "address", "address", "uint256"], [bytes(20), reserver, bytes(20), 300_000]
    )
    token = chain.deploy("DevToken", ["string", "string", "uint8"], ["Development Dollar", "DEV", 6])
    chain.send(token, selector("mint(address,uint256)") + word(payer) + word(AMOUNT))
    chain.send(token, selector("approve(address,uint256)") + word(bytes.fromhex(escrow[2:])) + word(AMOUNT))
    with pytest.raises(NotDue, match="no deposit"):
        refund(chain.wallet, PAYMENT, escrow=escrow)

    now = int(chain.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    deposit: dict[str, Any] = {
        "paymentId": on_chain(PAYMENT),
        "termsHash": word(1),
        "quoteHash": bytes(32),
        "payer": chain.payer.address,
        "reserver": chain.reserver.address,
        "releaser": chain.reserver.address,
        "reserveDeadline": now + WINDOW_SECONDS,
        "fulfillmentDeadline": now + WINDOW_SECONDS,
        "refundAfter": now + 2 * WINDOW_SECONDS,
    }
    signable = encode_typed_data(full_message=opening(deposit, token, AMOUNT, CHAIN_ID, escrow))
    signature = bytes(chain.reserver.sign_message(signable).signature)
    types = DEPOSIT_OWN.removeprefix("depositOwn(").removesuffix(")").rpartition(",address,uint256,bytes")[0]
    arguments = encode([types, "address", "uint256", "bytes"], [tuple(deposit.values()), token, AMOUNT, signature])
    chain.send(escrow, selector(DEPOSIT_OWN) + arguments)
    assert chain.held(token) == 0

    with pytest.raises(NotDue) as early:
        refund(chain.wallet, PAYMENT, escrow=escrow)
    assert early.value.refund_after == deposit["refundAfter"]
    chain.rpc("evm_setNextBlockTimestamp", deposit["refundAfter"])
    chain.rpc("evm_mine")
    with pytest.raises(NodeError, match="no contract"):
        refund(chain.wallet, PAYMENT, escrow=chain.reserver.address)
    back = refund(chain.wallet, PAYMENT, escrow=escrow)
    assert (back.amount, back.owner) == (AMOUNT, chain.payer.address.lower())
    assert chain.held(token) == AMOUNT
    with pytest.raises(NotDue, match="refunded"):
        refund(chain.wallet, PAYMENT, escrow=escrow)


ESCROW = "0x00000000000000000000000000000000000e5c70"
CAP = 700


def known(chain: Chain, token: str) -> Terms:
    """A payment of `CAP` with a token, into an escrow."""
    owned = {"asset_identifier": f"eip155:{CHAIN_ID}/erc20:{token}", "account": chain.payer.address}
    now = int(chain.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    body = {"source": owned, "destination": [owned], "fulfillment_amount": "600", "max_source_amount": str(CAP)}
    order = Order.of({**body, "request_id": "signed"}).timed(now)
    reserver = chain.reserver.address.lower()
    return Terms(order, ESCROW, reserver, reserver, PERMIT2, CAP, bytes(32), 100, LIMITS)


def stablecoin(chain: Chain) -> str:
    """A token that takes signatures, of which the payer has some."""
    token = chain.deploy("DevStablecoin", ["string", "string", "uint8"], ["Signed Dollar", "SD", 6])
    chain.send(token, selector("mint(address,uint256)") + word(bytes.fromhex(chain.payer.address[2:])) + word(AMOUNT))
    return token.lower()


def asked(terms: Terms, name: str, fields: str, message: dict[str, Any]) -> Asked:
    token = terms.order.source["asset_identifier"].rpartition(":")[2]
    domain = {"name": "Signed Dollar", "version": "1", "chainId": CHAIN_ID, "verifyingContract": token}
    return Asked(name, fields, domain, message)


def test_a_token_takes_the_transfer_that_was_rebuilt_from_nobody_but_the_escrow(chain: Chain) -> None:
    token = stablecoin(chain)
    terms = known(chain, token)
    deadline, payer = terms.fulfillment_deadline, terms.order.account
    deposit = {
        "paymentId": "0x" + on_chain(terms.order.payment_id).hex(),
        "termsHash": "0x" + terms.order.terms_hash().hex(),
        "quoteHash": "0x" + "00" * 32,
        "payer": payer,
        "reserver": terms.reserver,
        "releaser": terms.releaser,
        "reserveDeadline": str(deadline),
        "fulfillmentDeadline": str(deadline),
        "refundAfter": str(deadline + 100),
    }
    nonce = hash_struct("GatewayDeposit", DEPOSIT, deposit)
    values = {"from": payer, "to": ESCROW, "value": str(CAP), "validAfter": "0", "validBefore": str(deadline + 1)}
    one = asked(terms, "ReceiveWithAuthorization", RECEIVE, {**values, "nonce": "0x" + nonce.hex()})
    one.payload = {"deposit": deposit}
    signature = chain.signature(tokens.authorization(terms, one.unsigned()))  # type: ignore[arg-type]
    types = ["address", "address", "uint256", "uint256", "uint256", "bytes32"]
    arguments = encode([*types, "bytes"], [payer, ESCROW, CAP, 0, deadline + 1, nonce, signature])
    call = selector(f"receiveWithAuthorization({','.join(types)},bytes)") + arguments
    assert not chain.call(chain.reserver.address, token, call)
    assert chain.call(ESCROW, token, call)
    assert chain.held(token) == AMOUNT - CAP


def test_a_token_gives_permit2_the_allowance_that_was_rebuilt(chain: Chain) -> None:
    token = stablecoin(chain)
    terms = known(chain, token)
    deadline, payer, most = terms.fulfillment_deadline, terms.order.account, 2**256 - 1
    values = {"owner": payer, "spender": PERMIT2, "value": str(most), "nonce": "0", "deadline": str(deadline)}
    one = asked(terms, "Permit", PERMIT, values)
    signature = chain.signature(tokens.allowance(terms, one.unsigned()))  # type: ignore[arg-type]
    arguments = encode(
        ["address", "address", "uint256", "uint256", "uint8", "bytes32", "bytes32"],
        [payer, PERMIT2, most, deadline, signature[64], signature[:32], signature[32:64]],
    )
    permit = selector("permit(address,address,uint256,uint256,uint8,bytes32,bytes32)") + arguments
    # Anybody may bring it, once.
    assert chain.call(chain.reserver.address, token, permit)
    assert not chain.call(chain.reserver.address, token, permit)
    call = selector("allowance(address,address)") + encode(["address", "address"], [payer, PERMIT2])
    assert int(chain.rpc("eth_call", {"to": token, "data": "0x" + call.hex()}, "latest"), 16) == most


TERMS_TYPE = "(address,address,uint256,(bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48))"
BATCH_TYPE = "(address,(address,uint256)[],address,uint256,uint256,bytes32)"
AWARD_TYPE = "(bytes32,bytes32,address,uint256,uint48)"
AWARD = "bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy"
#: The deterministic deployer, which is on every EVM chain.
DEPLOYER = "0x4e59b44847b379578588920ca78fbf26c0b4956c"


def admission(chain: Chain, terms: Terms, deposit: dict[str, Any], award: dict[str, Any]) -> bytes:
    """The reserver's signature over a deposit whose award asks for all of it."""
    token = terms.order.source["asset_identifier"].rpartition(":")[2]
    fields = "GatewayDeposit deposit,Reservation reservation,address token,uint48 admittedUntil"
    message = {"deposit": deposit, "reservation": award, "token": token, "admittedUntil": deposit["reserveDeadline"]}
    data = opening(deposit, token, terms.amount, CHAIN_ID, terms.escrow)
    own = {"Admission": typed_fields(fields), "Reservation": typed_fields(AWARD)}
    kinds = {**{name: kind for name, kind in data["types"].items() if name != "Opening"}, **own}
    signable = encode_typed_data(full_message={**data, "types": kinds, "primaryType": "Admission", "message": message})
    return bytes(chain.reserver.sign_message(signable).signature)


def served(chain: Chain, contract: str) -> str:
    """Puts Permit2 on the chain, a contract that is at one address on all chains, and the escrow, whose address is returned."""
    # `_CACHED_CHAIN_ID` is zero in the committed code, so that Permit2 computes its domain.
    permit2 = json.loads((ROOT / "contracts/artifacts/Permit2.json").read_text())["deployedBytecode"]
    chain.rpc("anvil_setCode", PERMIT2, permit2)
    creation = json.loads((ROOT / f"contracts/artifacts/{contract}.json").read_text())["bytecode"]
    sent = {"from": chain.payer.address, "to": DEPLOYER, "data": "0x" + "00" * 32 + creation[2:], "gas": hex(10_000_000)}
    assert chain.receipt(chain.rpc("eth_sendTransaction", sent))["status"] == "0x1"
    values = [bytes.fromhex(PERMIT2[2:]), bytes.fromhex(chain.reserver.address[2:]), bytes(20), 300_000]
    return chain.deploy("GatewayEscrow", ["address", "address", "address", "uint256"], values).lower()


#: Permit2 may draw of a token whatever is signed for.
APPROVE = selector("approve(address,uint256)") + word(bytes.fromhex(PERMIT2[2:])) + word(2**256 - 1)


def test_the_contract_draws_the_batch_that_was_rebuilt_and_gives_back_what_is_left(chain: Chain) -> None:
    escrow = served(chain, "PaymentBatches")
    held = [stablecoin(chain), stablecoin(chain)]
    for token in held:
        chain.send(token, APPROVE)
    payments = []
    for at, token in enumerate([held[0], held[1], held[0]]):
        terms = known(chain, token)
        payments.append(replace(terms, order=replace(terms.order, request_id=f"of-batch-{at}"), escrow=escrow, amount=300 + at))
    deadline = min(terms.fulfillment_deadline for terms in payments)
    batch = evm.Batch.of(BatchTerms(payments, deadline))
    signature = chain.signature(batch.permit(CHAIN_ID, PERMIT2))
    written = (batch.payer, batch.permitted, batch.escrow, batch.nonce, batch.deadline, batch.payments)

    deposits = [deposit_of(terms, deadline, terms.fulfillment_deadline + 100) for terms in payments]
    tokens_of = [terms.order.source["asset_identifier"].rpartition(":")[2] for terms in payments]
    every = zip(payments, tokens_of, deposits, strict=True)
    under = [evm.AddressTerms(escrow=escrow, token=token, amount=terms.amount, deposit=one) for terms, token, one in every]
    leaves = [evm.payment_leaf(one) for one in under]
    proofs = [[leaves[1], leaves[2]], [leaves[0], leaves[2]], [evm.payment_root(leaves[:2])]]

    def deposit(at: int) -> bool:
        terms, own = payments[at], deposits[at]
        settler, by = chain.reserver.address, own["fulfillmentDeadline"]
        award = {
            "paymentId": own["paymentId"],
            "quoteHash": word(7),
            "settler": settler,
            "sourceAmount": terms.amount,
            "fulfillBy": by,
        }
        kinds = [BATCH_TYPE, "bytes", TERMS_TYPE, "bytes32[]", AWARD_TYPE, "uint48", "bytes"]
        stated = (escrow, tokens_of[at], terms.amount, tuple(own.values()))
        admitted = admission(chain, terms, own, award)
        arguments = [written, signature, stated, proofs[at], tuple(award.values()), deadline, admitted]
        call = selector(f"deposit({','.join(kinds)})") + encode(kinds, arguments)
        return chain.call(chain.reserver.address, evm.PAYMENT_BATCHES, call)

    # The first deposit draws all, and the money of the others is at the batch's address.
    assert deposit(0)
    assert [chain.held(token) for token in held] == [AMOUNT - 602, AMOUNT - 301]
    assert chain.rpc("eth_getCode", batch.address, "latest") != "0x"
    assert deposit(2)
    assert not deposit(2)
    # The payment that nobody deposited is given back, when the time for it is over.
    to, data = evm.give_back_batch_call(batch, held[1])
    assert not chain.call(chain.reserver.address, to, data)
    chain.rpc("evm_setNextBlockTimestamp", deadline + 1)
    chain.rpc("evm_mine")
    assert chain.call(chain.reserver.address, to, data)
    assert [chain.held(token) for token in held] == [AMOUNT - 602, AMOUNT]


MANDATE_TYPE = "(address,address,address,uint160,uint256,address,address,uint48,uint32,uint32,uint32,bytes32,bytes,bytes)"
CHARGE_TYPE = "(bytes32,uint256,uint160,address,uint48,uint48,uint48,bytes)"


def test_the_contract_draws_what_a_merchant_asks_for_under_the_mandate_that_was_rebuilt(chain: Chain) -> None:
    escrow, token = served(chain, "Mandates"), stablecoin(chain)
    chain.send(token, APPROVE)
    merchant: LocalAccount = Account.from_key(keccak256(b"a merchant on anvil"))
    first = replace(known(chain, token), escrow=escrow)
    now = int(chain.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    known_members: Any = {"least": 200, "begins": now, "lock_seconds": 1_000}
    granted = MandateOrder(first.order.source, first.order.destination, merchant.address, 400, 1_000, 2, **known_members)
    mandate = evm.Mandate.of(MandateTerms(granted, first, b"\x05" * 32))
    permit = chain.signature(mandate.permit(CHAIN_ID, PERMIT2))
    stated = [value.lower() if isinstance(value, str) else value for value in vars(mandate).values()]

    def deposit(request_id: str, amount: int, cap: int, permit: bytes = b"", signer: LocalAccount = merchant) -> bool:
        at = int(chain.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
        order = replace(first.order, request_id=request_id, amount=amount, max_source_amount=cap)
        order = replace(order, quote_deadline=None, fulfillment_deadline=None).timed(at)
        terms = replace(first, order=order, amount=cap)
        deadline = terms.fulfillment_deadline
        own = deposit_of(terms, deadline, deadline + 100)
        asked = MandateTerms(granted, terms, b"\x05" * 32)
        signature = bytes(signer.sign_message(evm.rebuild_charge(asked, deadline, deadline + 100).signable).signature)
        charge = (own["paymentId"], amount, cap, terms.reserver, deadline, deadline, deadline + 100, signature)
        award = {
            "paymentId": own["paymentId"],
            "quoteHash": word(7),
            "settler": chain.reserver.address,
            "sourceAmount": cap,
            "fulfillBy": deadline,
        }
        kinds = [MANDATE_TYPE, "bytes", CHARGE_TYPE, AWARD_TYPE, "uint48", "bytes"]
        admitted = admission(chain, terms, own, award)
        arguments = encode(kinds, [tuple(stated), permit, charge, tuple(award.values()), deadline, admitted])
        return chain.call(chain.reserver.address, evm.MANDATES, selector(f"deposit({','.join(kinds)})") + arguments)

    assert not deposit("of-mandate-1", 150, 300)  # nothing was ever allowed
    assert not deposit("of-mandate-1", 150, 300, permit, chain.payer)
    assert not deposit("of-mandate-1", 149, 300, permit)
    assert deposit("of-mandate-1", 150, 300, permit)
    assert chain.rpc("eth_getCode", mandate.address, "latest") != "0x"
    # The payment is one; of the period 100 are left, and the payer's signature is not needed any more.
    assert not deposit("of-mandate-1", 50, 100)
    assert not deposit("of-mandate-2", 51, 101)
    assert deposit("of-mandate-2", 50, 100)
    assert chain.held(token) == AMOUNT - 400
    chain.rpc("evm_setNextBlockTimestamp", now + 1_000)
    chain.rpc("evm_mine")
    assert deposit("of-mandate-3", 50, 100)
    # What strangers send there goes to the payer.
    chain.send(token, selector("transfer(address,uint256)") + word(bytes.fromhex(mandate.address[2:])) + word(7))
    assert chain.held(token) == AMOUNT - 507
    assert chain.call(chain.reserver.address, *evm.give_back_mandate_call(mandate, token))
    assert chain.held(token) == AMOUNT - 500
    # The payer ends it by its signature, which anyone brings.
    assert not chain.call(chain.reserver.address, *evm.cancel_mandate_call(mandate))
    signature = chain.signature(mandate.cancellation(CHAIN_ID))
    assert chain.call(chain.reserver.address, *evm.cancel_mandate_call(mandate, signature))
    assert not deposit("of-mandate-4", 50, 100)
    assert chain.held(token) == AMOUNT - 500
