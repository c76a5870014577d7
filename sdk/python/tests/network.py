"""A running network of gw-dev, and the scenarios that every SDK makes on it: sdk/README.md says how both are read."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import httpx
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from gateway_client import Gateway, Order, Pins, Wallet, new_request_id, owned
from gateway_client.escrow_abi import selector, word
from gateway_client.evm import EvmWallet
from gateway_client.flow import Flow
from gateway_client.order import QUOTE_SECONDS
from gateway_client.solana import SolanaWallet, program
from gateway_client.transport import run
from gateway_client.tron import TronWallet
from gateway_client.tron.address import address_bytes, address_text

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = json.loads((ROOT / "sdk/scenarios.json").read_text())
#: Environment variable of a node's address, and the wallet, by the namespace of chains.
_FAMILIES: dict[str, tuple[str, str, Any]] = {
    "eip155": ("EVM", "EVM_RPC_URL", EvmWallet),
    "solana": ("SOLANA", "SOLANA_RPC_URL", SolanaWallet),
    "tron": ("TRON", "TRON_API_URL", TronWallet),
}

#: Sun that a transfer may burn for energy: as much as an account of which the token knows nothing takes.
TRANSFER_FEE_SUN = 100_000_000
#: Tag of a transfer in both token programs of Solana.
TRANSFER = 3


@dataclass
class Network:
    """The addresses, keys and pins that gw-dev leaves in its directory."""

    directory: Path
    environment: dict[str, str]
    #: The `request_id` of each scenario that has run.
    request_ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def found(cls) -> Network:
        """The network in `GW_DEV_DIRECTORY`."""
        directory = Path(os.environ.get("GW_DEV_DIRECTORY", ROOT / ".dev"))
        lines = re.findall(r"^export ([A-Z0-9_]+)='(.*)'$", (directory / "env").read_text(), re.MULTILINE)
        return cls(directory, dict(lines))

    @property
    def url(self) -> str:
        """The gateway."""
        return self.environment["GATEWAY_URL"]

    def has(self, chain: str) -> bool:
        """Whether the network has the family of a chain."""
        return _FAMILIES[chain.partition(":")[0]][1] in self.environment

    def wallet(self, chain: str) -> Wallet:
        """The payer on a chain."""
        namespace = chain.partition(":")[0]
        family, address, kind = _FAMILIES[namespace]
        key = (self.directory / f"examples/{family.lower()}.key").read_text()
        wallet: Wallet = kind.from_key(key, self.environment[address])
        return wallet

    def pins(self, chain: str) -> Pins:
        """What the payer knows by itself."""
        family = _FAMILIES[chain.partition(":")[0]][0]
        escrow, reserver, releaser = (self.environment[f"{family}_{name}"] for name in ("ESCROW", "RESERVER", "RELEASER"))
        factory, permit2 = (self.environment.get(f"{family}_{name}") for name in ("DEPOSIT_ADDRESS_FACTORY", "PERMIT2"))
        return Pins(escrow, reserver, releaser, permit2, factory)

    def order(self, scenario: dict[str, Any]) -> Order:
        """The order of a scenario."""
        chains = _chains(self.url)
        source = _asset(chains, scenario["source"])
        destination = [
            owned(_asset(chains, one), one.get("account") or SCENARIOS["recipients"][one["chain"].partition(":")[0]])
            for one in scenario["destination"]
        ]
        earlier = scenario.get("request_id_of")
        chain = scenario["source"]["chain"]
        is_by_address = scenario.get("way") == "address"
        payer = exchange(self, chain).refund_account(token_of(source)) if is_by_address else self.wallet(chain).account
        return Order(
            source=owned(source, payer),
            destination=tuple(destination),
            amount=int(scenario["amount"]),
            max_source_amount=int(scenario["cap"]),
            request_id=self.request_ids[earlier] if earlier else new_request_id(),
            members=scenario.get("members", {}),
            quote_seconds=scenario.get("quote_seconds", QUOTE_SECONDS),
            fulfillment_seconds=scenario.get("fulfillment_seconds"),
        )


def token_of(asset_identifier: str) -> str:
    """A token as its chain writes it."""
    return asset_identifier.rpartition(":")[2]


class Exchange(Protocol):
    """The payer's own account, which sends money as an exchange does: by an ordinary transfer."""

    def refund_account(self, token: str) -> str:
        """A new account that a token can go back to. It has no money, and nobody has its key."""

    def held(self, token: str, account: str) -> int:
        """How much of a token an account has."""

    def send(self, token: str, to: str, amount: int) -> None:
        """Sends so much of a token, and waits until it is in a block."""


def exchange(network: Network, chain: str) -> Exchange:
    """That of the network's examples on a chain."""
    match network.wallet(chain):
        case TronWallet() as wallet:
            return TronExchange(wallet)
        case SolanaWallet() as wallet:
            return SolanaExchange(wallet)
    key = (network.directory / "examples/evm.key").read_text().strip()
    return EvmExchange(Account.from_key(key), network.environment["EVM_RPC_URL"])


@dataclass
class TronExchange:
    """An exchange on Tron."""

    wallet: TronWallet

    def refund_account(self, token: str) -> str:
        """A new account that a token can go back to."""
        return address_text(os.urandom(20))

    def held(self, token: str, account: str) -> int:
        """How much of a token an account has."""
        asked = self.wallet._read(address_bytes(token), "balanceOf(address)", word(address_bytes(account)))
        with httpx.Client() as client:
            return int.from_bytes(run(asked, client), "big")

    def send(self, token: str, to: str, amount: int) -> None:
        """Sends so much of a token, and waits until it is in a block."""
        data = selector("transfer(address,uint256)") + word(address_bytes(to)) + word(amount)
        with httpx.Client() as client:
            run(self.wallet._send(address_bytes(token), data, TRANSFER_FEE_SUN), client)


@dataclass
class SolanaExchange:
    """An exchange on Solana, which makes the token account that it sends to where there is none."""

    wallet: SolanaWallet

    def refund_account(self, token: str) -> str:
        """A new account that a token can go back to: it has its token account already."""
        mint, account = Pubkey.from_string(token), Keypair().pubkey()
        self._run(self.wallet._send([self._made(mint, account)]))
        return str(account)

    def held(self, token: str, account: str) -> int:
        """How much of a token an account has."""
        mint = Pubkey.from_string(token)
        lies_at = program.token_account(Pubkey.from_string(account), self._token_program(mint), mint)
        data = self._run(self.wallet._data(lies_at))
        return program.TokenAccount.read(data).amount if data else 0

    def send(self, token: str, to: str, amount: int) -> None:
        """Sends so much of a token, and waits until it is in a block."""
        mint, own, receiver = Pubkey.from_string(token), Pubkey.from_string(self.wallet.account), Pubkey.from_string(to)
        token_program = self._token_program(mint)
        accounts = [
            AccountMeta(program.token_account(own, token_program, mint), False, True),
            AccountMeta(program.token_account(receiver, token_program, mint), False, True),
            AccountMeta(own, True, False),
        ]
        transfer = Instruction(token_program, bytes([TRANSFER]) + amount.to_bytes(8, "little"), accounts)
        self._run(self.wallet._send([self._made(mint, receiver), transfer]))

    def _made(self, mint: Pubkey, owner: Pubkey) -> Instruction:
        own = Pubkey.from_string(self.wallet.account)
        return program.create_token_account(own, owner, self._token_program(mint), mint)

    def _token_program(self, mint: Pubkey) -> Pubkey:
        return self._run(self.wallet._token_program(mint))

    def _run(self, flow: Flow[T]) -> T:
        with httpx.Client() as client:
            return run(flow, client)


@dataclass
class EvmExchange:
    """An exchange on an EVM chain."""

    account: LocalAccount
    url: str

    def refund_account(self, token: str) -> str:
        """A new account that a token can go back to."""
        return "0x" + os.urandom(20).hex()

    def rpc(self, method: str, *params: Any) -> Any:
        """The result of a call of the node."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx.post(self.url, json=call).json()
        return answer["result"]

    def held(self, token: str, account: str) -> int:
        """How much of a token an account has."""
        data = selector("balanceOf(address)") + word(bytes.fromhex(account[2:]))
        return int(self.rpc("eth_call", {"to": token, "data": "0x" + data.hex()}, "latest"), 16)

    def send(self, token: str, to: str, amount: int) -> None:
        """Sends so much of a token, and waits until it is in a block."""
        data = selector("transfer(address,uint256)") + word(bytes.fromhex(to[2:])) + word(amount)
        price = int(self.rpc("eth_gasPrice"), 16)
        transaction: dict[str, Any] = {
            "chainId": int(self.rpc("eth_chainId"), 16),
            "nonce": int(self.rpc("eth_getTransactionCount", self.account.address, "pending"), 16),
            "to": to_checksum_address(token),
            "value": 0,
            "data": data,
            "gas": 200_000,
            "gasPrice": 2 * price,
        }
        sent = self.rpc("eth_sendRawTransaction", "0x" + self.account.sign_transaction(transaction).raw_transaction.hex())
        until = time.monotonic() + 60
        while (receipt := self.rpc("eth_getTransactionReceipt", sent)) is None and time.monotonic() < until:
            time.sleep(0.1)
        assert receipt["status"] == "0x1", receipt


@cache
def _chains(url: str) -> dict[str, Any]:
    with Gateway(url) as gateway:
        return dict(gateway.all_defaults()["chains"])


def _asset(chains: dict[str, Any], named: dict[str, str]) -> str:
    """The asset that a scenario names by its chain and symbol."""
    if "asset" in named:
        return named["asset"]
    [chain] = [chain for chain in chains if chain == named["chain"] or chain.startswith(named["chain"] + ":")]
    [asset] = [asset for asset in chains[chain]["assets"] if asset["symbol"] == named["symbol"]]
    return str(asset["asset_identifier"])
