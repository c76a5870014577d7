"""Batches as a gateway prepares and accepts them, and the payer's node.

Leaves, tree and typed data are computed here by eth_abi and eth-account, from the letter of the rules, and without the package
that is tested, but for ids and the hash of terms, which have tests of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from eth_abi.abi import encode
from eth_account.messages import encode_typed_data

from address_world import TERMS
from evm_world import CASE, NOT_FOUND, ORDER, World
from gateway_client import Order, owned
from gateway_client.evm import PAYMENT_BATCHES
from gateway_client.keccak import keccak256
from gateway_client.order import unix
from server import Said, Seen, said

Data = dict[str, Any]
TOKEN = ORDER.source["asset_identifier"]
OWN = CASE["defaults"][ORDER.chain_id]
#: The other token of the source's chain, which wraps its coin.
WRAPPED = next(asset["asset_identifier"] for asset in OWN["assets"] if asset.get("wraps"))
BATCH = "(address,(address,uint256)[],address,uint256,uint256,bytes32)"
TYPES = {
    "EIP712Domain": [
        {"name": "name", "type": "string"},
        {"name": "chainId", "type": "uint256"},
        {"name": "verifyingContract", "type": "address"},
    ],
    "PermitBatchWitnessTransferFrom": [
        {"name": "permitted", "type": "TokenPermissions[]"},
        {"name": "spender", "type": "address"},
        {"name": "nonce", "type": "uint256"},
        {"name": "deadline", "type": "uint256"},
        {"name": "witness", "type": "PaymentBatch"},
    ],
    "PaymentBatch": [{"name": "escrow", "type": "address"}, {"name": "payments", "type": "bytes32"}],
    "TokenPermissions": [{"name": "token", "type": "address"}, {"name": "amount", "type": "uint256"}],
}


def orders(count: int, more: Callable[[int], Data] = lambda _: {}) -> list[Order]:
    """So many orders, of which every third is in the other token."""

    def one(at: int) -> Order:
        cap = 5_100_000 + at
        source = owned(WRAPPED if at % 3 == 1 else TOKEN, ORDER.account)
        known: Data = {"source": source, "max_source_amount": cap, "request_id": f"order-{at}"}
        return Order(**{"destination": ORDER.destination, "amount": 5_000_000 + at, **known, **more(at)})

    return [one(at) for at in range(count)]


def tree_root(leaves: list[bytes]) -> bytes:
    """The root by halves: the left one is the greatest power of two that leaves something for the right one."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return keccak256(b"".join(sorted([tree_root(leaves[:half]), tree_root(leaves[half:])])))


def leaf(escrow: str, token: str, amount: int, deposit: tuple[Any, ...]) -> bytes:
    """Solidity's ABI, hashed twice."""
    return keccak256(keccak256(encode([TERMS], [(escrow, token, amount, deposit)])))


def digest(data: Data) -> str:
    """What is signed of typed data."""
    signable = encode_typed_data(full_message=data)
    return "0x" + keccak256(b"\x19" + signable.version + signable.header + signable.body).hex()


def members(body: Data) -> list[Data]:
    """The payments of a body, each with what stands beside them."""
    shared = {name: value for name, value in body.items() if name not in ("payments", "reserve_deadline", "sender_auth")}
    return [{**shared, **own} for own in body["payments"]]


def typed_data(body: Data) -> Data:
    """What an honest gateway asks to be signed."""
    requests = [Order.of(request) for request in members(body)]
    sums: dict[str, int] = {}
    leaves = []
    for order in requests:
        token, amount = order.source["asset_identifier"].rpartition(":")[2], order.max_source_amount or 0
        sums[token] = sums.get(token, 0) + amount
        fulfilled = unix(order.fulfillment_deadline)
        hashes = keccak256(order.payment_id.encode()), order.terms_hash(), bytes(32)
        times = body["reserve_deadline"], fulfilled, fulfilled + OWN["refund_delay_seconds"]
        deposit = (*hashes, order.account, OWN["reserver"], OWN["releaser"], *times)
        leaves.append(leaf(OWN["escrow_contract_address"], token, amount, deposit))
    root = tree_root(leaves)
    return {
        "types": TYPES,
        "primaryType": "PermitBatchWitnessTransferFrom",
        "domain": {"name": "Permit2", "chainId": 31337, "verifyingContract": OWN["permit2"]},
        "message": {
            "permitted": [{"token": token, "amount": str(sums[token])} for token in sorted(sums)],
            "spender": PAYMENT_BATCHES,
            "nonce": str(int.from_bytes(root, "big")),
            "deadline": str(body["reserve_deadline"]),
            "witness": {"escrow": OWN["escrow_contract_address"], "payments": "0x" + root.hex()},
        },
    }


def asked(body: Data, edit: Callable[[Data], Any] = lambda _: None) -> Data:
    """The answer of `/v1/payments/batches/prepare`; `edit` changes the typed data before it is hashed."""
    data = json.loads(json.dumps(typed_data(body)))
    edit(data)
    return {
        "message_scheme": "EVM_PERMIT2_BATCH",
        "signed_messages": [{"message": digest(data), "message_prehash": json.dumps(data), "payload": {}}],
        "reserve_deadline": body["reserve_deadline"],
        "payments": [{"payment_id": Order.of(request).payment_id} for request in members(body)],
    }


def accepted(body: Data, more: Callable[[int], Data] = lambda _: {}) -> Data:
    """The answer of `/v1/payments/batches`."""
    payments = []
    for at, request in enumerate(members(body)):
        id, changed = Order.of(request).payment_id, more(at)
        status = {"payment_id": id, "status": "pending", "idempotent_replay": False, **changed}
        payments.append({"payment_id": id, **(changed if "error" in changed else {"payment": status})})
    return {"payments": payments}


@dataclass
class BatchWorld(World):
    """A gateway that takes batches."""

    prepare: Callable[[Data], Said] = lambda body: said(asked(body))
    accept: Callable[[Data, int], Said] = lambda body, _: said(accepted(body))
    #: Request ids of payments that are there already.
    known: set[str] = field(default_factory=set)
    #: Bodies that were prepared.
    prepared: list[Data] = field(default_factory=list)

    def answer(self, seen: Seen) -> Said:
        url = urlsplit(seen.path)
        match url.path:
            case "/v1/payments/batches/prepare":
                self.asked.append(url.path)
                self.prepared.append(json.loads(seen.body))
                return self.prepare(self.prepared[-1])
            case "/v1/payments/batches":
                self.asked.append(url.path)
                self.submitted.append(seen.body)
                return self.accept(json.loads(seen.body), len(self.submitted))
            case "/v1/payments/resolve":
                self.asked.append(url.path)
                request_id = parse_qs(url.query)["request_id"][0]
                found = [order for order in orders(8) if order.request_id == request_id and request_id in self.known]
                return said({"payment_id": found[0].payment_id, "status": "finalizing"}) if found else said(NOT_FOUND, 404)
            case _:
                return super().answer(seen)
