"""The refund on a chain of its own, with the committed contract: `.tools/bin/anvil` runs it, and nobody but the test is there."""

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

from gateway_client import Limits, NodeError, NotDue, payment_id, refund
from gateway_client.escrow_abi import DEPOSIT_OWN, opening, selector, word
from gateway_client.evm import EvmWallet
from gateway_client.evm.wallet import _Sending
from gateway_client.keccak import keccak256, on_chain
from gateway_client.transport import run

ROOT = Path(__file__).resolve().parents[3]
ANVIL = ROOT / ".tools/bin/anvil"
CHAIN_ID, AMOUNT, WINDOW_SECONDS, START_SECONDS_MAX = 31337, 1_000, 100, 30
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

    def deploy(self, contract: str, types: list[str], values: list[Any]) -> str:
        """Puts a committed contract on the chain."""
        artefact = json.loads((ROOT / f"contracts/artifacts/{contract}.json").read_text())
        data = artefact["bytecode"] + encode(types, values).hex()
        sent = self.rpc("eth_sendTransaction", {"from": self.payer.address, "data": data, "gas": hex(10_000_000)})
        return str(self.rpc("eth_getTransactionReceipt", sent)["contractAddress"])

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
