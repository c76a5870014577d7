"""A gateway and a node of an EVM chain that answer as they are told, and remember what was sent."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from gateway_client import Order
from gateway_client.escrow_abi import selector
from gateway_client.evm import EvmWallet
from gateway_client.keccak import keccak256
from server import SILENCE, Said, Seen, said, serving

CASES = json.loads((Path(__file__).parent / "prepared.json").read_text())["cases"]
CASE: dict[str, Any] = next(case for case in CASES if case["name"] == "evm-to-evm")
#: The payer of gw-dev's examples. Everyone knows its key.
KEY = keccak256(b"gw dev example payer").hex()
#: Deadlines of quotes are not signed, so this one may lie where it is needed.
ORDER = replace(Order.of(CASE["order"]), quote_deadline="2099-01-01T00:00:00Z")
STATUS = {"payment_id": ORDER.payment_id, "status": "completed", "updated_at": "2030-01-01T00:00:00Z"}
NOT_FOUND = {"code": "PAYMENT_NOT_FOUND", "message": "There is no payment with this id."}


@dataclass
class World:
    """What both say."""

    case: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(CASE))
    #: Answers to submissions, in order, the last one from then on.
    submissions: list[Said] = field(default_factory=lambda: [said({**STATUS, "idempotent_replay": False})])
    is_known: bool = False
    allowance: int = 0
    balance: int = 10**10
    chain_id: int = 31337
    base_fee: str = hex(10**9)
    gas: str = hex(60_000)
    receipt: dict[str, Any] | None = field(default_factory=lambda: {"status": "0x1"})
    #: The answer of another call of a contract, by its selector and arguments.
    contract: Callable[[bytes], bytes] | None = None
    logs: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None
    now: int = 0
    #: Raw transactions that were sent.
    sent: list[bytes] = field(default_factory=list)
    #: Bodies that were submitted.
    submitted: list[bytes] = field(default_factory=list)
    #: Asked of the gateway, in order.
    asked: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def wallet(self) -> EvmWallet:
        """The payer."""
        return EvmWallet.from_key(KEY, f"{self.url}/node")

    @contextmanager
    def serving(self) -> Iterator[Self]:
        """Serves both on loopback."""
        with serving(self.answer) as server:
            self.url = server.url
            yield self

    def answer(self, seen: Seen) -> Said:
        """What a request is answered with."""
        if seen.path == "/node":
            call = json.loads(seen.body)
            return said({"jsonrpc": "2.0", "id": 1, "result": self.node(call["method"], call["params"])})
        url = urlsplit(seen.path)
        self.asked.append(url.path)
        match seen.method, url.path:
            case "GET", "/v1/defaults":
                return said(self.case["defaults"][parse_qs(url.query)["chain_id"][0]])
            case "GET", "/v1/payments/resolve":
                return said(STATUS) if self.is_known else said(NOT_FOUND, 404)
            case "POST", "/v1/payments/prepare":
                return said(self.case["prepared"])
            case "POST", path if path == "/v1/payments" or path.endswith("/award"):
                self.submitted.append(seen.body)
                return self.submissions[min(len(self.submitted), len(self.submissions)) - 1]
            case _:
                return SILENCE

    def node(self, method: str, params: list[Any]) -> Any:
        """The result of a node's call."""
        match method:
            case "eth_chainId":
                return hex(self.chain_id)
            case "eth_call":
                data = bytes.fromhex(params[0]["data"][2:])
                if data[:4] == selector("allowance(address,address)"):
                    return f"0x{self.allowance:064x}"
                if data[:4] == selector("balanceOf(address)"):
                    return f"0x{self.balance:064x}"
                return "0x" + (self.contract(data).hex() if self.contract else "")
            case "eth_getLogs":
                return self.logs(params[0]) if self.logs else []
            case "eth_maxPriorityFeePerGas":
                return "0x1"
            case "eth_getBlockByNumber":
                return {"baseFeePerGas": self.base_fee, "timestamp": hex(self.now)}
            case "eth_estimateGas":
                return self.gas
            case "eth_getTransactionCount":
                return hex(len(self.sent))
            case "eth_sendRawTransaction":
                self.sent.append(bytes.fromhex(params[0][2:]))
                return params[0]
            case _:
                return self.receipt
