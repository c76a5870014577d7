"""The refund, and what is signed for tokens, on a chain of its own with the committed contracts: `.tools/bin/anvil` runs it, and
nobody but the test is there."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from eth_abi.abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount

from asked import DEPOSIT, PERMIT, RECEIVE, Asked, hash_struct
from gateway_client import Limits, NodeError, NotDue, Order, Terms, evm, payment_id, refund
from gateway_client.escrow_abi import DEPOSIT_OWN, opening, selector, word
from gateway_client.evm import EvmWallet, tokens
from gateway_client.evm.wallet import _Sending
from gateway_client.keccak import keccak256, on_chain
from gateway_client.transport import run
from gateway_client.trust import PERMIT2

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
