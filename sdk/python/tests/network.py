"""A running network of gw-dev, and the scenarios that every SDK makes on it: sdk/README.md says how both are read."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gateway_client import Gateway, Order, Pins, Wallet, new_request_id, owned
from gateway_client.evm import EvmWallet
from gateway_client.order import QUOTE_SECONDS
from gateway_client.solana import SolanaWallet
from gateway_client.tron import TronWallet

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = json.loads((ROOT / "sdk/scenarios.json").read_text())
#: Environment variable of a node's address, and the wallet, by the namespace of chains.
_FAMILIES: dict[str, tuple[str, str, Any]] = {
    "eip155": ("EVM", "EVM_RPC_URL", EvmWallet),
    "solana": ("SOLANA", "SOLANA_RPC_URL", SolanaWallet),
    "tron": ("TRON", "TRON_API_URL", TronWallet),
}


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
        names = [self.environment[f"{family}_{name}"] for name in ("ESCROW", "RESERVER", "RELEASER")]
        return Pins(*names)

    def order(self, scenario: dict[str, Any]) -> Order:
        """The order of a scenario."""
        chains = _chains(self.url)
        source = _asset(chains, scenario["source"])
        destination = [
            owned(_asset(chains, one), one.get("account") or SCENARIOS["recipients"][one["chain"].partition(":")[0]])
            for one in scenario["destination"]
        ]
        earlier = scenario.get("request_id_of")
        return Order(
            source=owned(source, self.wallet(scenario["source"]["chain"]).account),
            destination=tuple(destination),
            amount=int(scenario["amount"]),
            max_source_amount=int(scenario["cap"]),
            request_id=self.request_ids[earlier] if earlier else new_request_id(),
            members=scenario.get("members", {}),
            quote_seconds=scenario.get("quote_seconds", QUOTE_SECONDS),
            fulfillment_seconds=scenario.get("fulfillment_seconds"),
        )


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
