"""A gateway that takes Permit2's transfers on Tron, and a node of Tron's HTTP API: both answer as they are told, and remember
what was sent.

What is asked to be signed is made here as a gateway writes it, and hashed by eth_account with each address in hex.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eth_account.messages import encode_typed_data

from address_world import from_base58check
from asked import DEPOSIT, members
from evm_world import CASES, World
from gateway_client import Order
from gateway_client.escrow_abi import word
from gateway_client.keccak import keccak256
from gateway_client.order import unix
from gateway_client.tron import TronWallet
from gateway_client.tron.wallet import REFERENCES
from server import Said, Seen, said

#: The payer of gw-dev's examples. Everyone knows its key.
KEY = keccak256(b"gw dev tron example payer").hex()
#: SUN.io's on the main network, and one of a network of one's own.
PERMIT2, OWN_PERMIT2 = "TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9", "TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top"
MAIN, OWN = "tron:728126428", "tron:31339"
SCHEME = "TRON_PERMIT2_ESCROW"
TYPES = {
    "TokenPermissions": members("address token,uint256 amount"),
    "PermitWitnessTransferFrom": members(
        "TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,GatewayDeposit witness"
    ),
    "GatewayDeposit": members(DEPOSIT),
    "EIP712Domain": members("string name,uint256 chainId,address verifyingContract"),
}

Data = dict[str, Any]


def case_on(network: str, name: str = "tron-to-evm") -> dict[str, Any]:
    """A recorded case, as it would be on a network with Permit2; what is to be signed is left to `asking`."""
    recorded = next(case for case in CASES if case["name"] == name)
    case: dict[str, Any] = json.loads(json.dumps(recorded).replace(OWN, network))
    permit2 = PERMIT2 if network == MAIN else OWN_PERMIT2
    case["defaults"][network] |= {"permit2": permit2, "message_schemes": [SCHEME, "TRON"]}
    return case


def typed_data(case: dict[str, Any]) -> Data:
    """What a gateway asks to be signed for a case without a quote."""
    order = Order.of(case["order"])
    said, deadline = case["defaults"][order.chain_id], unix(order.fulfillment_deadline)
    payment, terms = keccak256(order.payment_id.encode()), order.terms_hash()
    return {
        "types": copy.deepcopy(TYPES),
        "primaryType": "PermitWitnessTransferFrom",
        "domain": {
            "name": "Permit2",
            "chainId": int(order.chain_id.partition(":")[2]),
            "verifyingContract": said["permit2"],
        },
        "message": {
            "permitted": {
                "token": order.source["asset_identifier"].rpartition(":")[2],
                "amount": str(order.max_source_amount),
            },
            "spender": said["escrow_contract_address"],
            "nonce": str(int.from_bytes(keccak256(payment + terms))),
            "deadline": str(deadline),
            "witness": {
                "paymentId": "0x" + payment.hex(),
                "termsHash": "0x" + terms.hex(),
                "quoteHash": "0x" + "00" * 32,
                "payer": order.account,
                "reserver": said["reserver"],
                "releaser": said["releaser"],
                "reserveDeadline": str(deadline),
                "fulfillmentDeadline": str(deadline),
                "refundAfter": str(deadline + said["refund_delay_seconds"]),
            },
        },
    }


def in_hex(value: Any) -> Any:
    """Typed data with each address of Tron in hex."""
    if isinstance(value, dict):
        return {name: in_hex(one) for name, one in value.items()}
    is_address = isinstance(value, str) and len(value) == 34 and value.startswith("T")
    return "0x" + from_base58check(value).hex() if is_address else value


def digest(data: Data) -> str:
    """The digest of typed data, as EIP-712 has it of the same values in hex."""
    signable = encode_typed_data(full_message=in_hex(data))
    return "0x" + keccak256(b"\x19" + signable.version + signable.header + signable.body).hex()


def asking(
    case: dict[str, Any], change: Callable[[Data], Any] = lambda data: None, is_hashed: bool = True, **others: Any
) -> dict[str, Any]:
    """The case with Permit2's transfer to be signed, and `others` beside it in the answer. The digest is that of what `change`
    made of the typed data, or, where that is not hashed, of what it was before."""
    data = typed_data(case)
    before, witness = digest(data), data["message"]["witness"]
    payload = {
        "reserve_deadline": int(witness["reserveDeadline"]),
        "refund_after": int(witness["refundAfter"]),
        "permit_deadline": int(data["message"]["deadline"]),
    }
    change(data)
    hashed = digest(data) if is_hashed else before
    message = {"message": hashed, "message_prehash": json.dumps(data), "payload": payload}
    own = Order.of(case["order"]).payment_id
    prepared = {"payment_id": own, "message_scheme": SCHEME, "signed_messages": [message], **others}
    return {**case, "prepared": prepared}


@dataclass
class TronWorld(World):
    """What both say."""

    #: What transactions name of the hash of each block but the first.
    reference: bytes = bytes(8)
    #: Transactions that were broadcast, encoded.
    broadcast: list[bytes] = field(default_factory=list)
    #: Bodies that were prepared.
    prepared: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        status = {"payment_id": Order.of(self.case["order"]).payment_id, "status": "completed"}
        self.submissions = [said({**status, "updated_at": "2030-01-01T00:00:00Z", "idempotent_replay": False})]

    @property
    def payer(self) -> TronWallet:
        """The payer."""
        return TronWallet.from_key(KEY, f"{self.url}/tron")

    def answer(self, seen: Seen) -> Said:
        if seen.path.startswith("/tron/"):
            return said(self.tron(seen.path.removeprefix("/tron"), json.loads(seen.body)))
        if seen.path == "/v1/payments/prepare":
            self.prepared.append(json.loads(seen.body))
        return super().answer(seen)

    def tron(self, path: str, body: dict[str, Any]) -> Any:
        """What the node answers."""
        match path:
            case "/wallet/getblockbynum":
                network = Order.of(self.case["order"]).chain_id.partition(":")[2]
                return block(body["num"], 7, self.reference) if body["num"] else block(0, int(network))
            case "/wallet/getnowblock" | "/walletsolidity/getnowblock":
                return block(REFERENCES + 7, 7, self.reference)
            case "/wallet/triggerconstantcontract":
                held = {"allowance(address,address)": self.allowance, "balanceOf(address)": self.balance}
                answer = word(held[body["function_selector"]]).hex()
                return {"result": {"result": True}, "constant_result": [answer]}
            case "/wallet/broadcasthex":
                self.broadcast.append(bytes.fromhex(body["transaction"]))
                return {"result": True}
            case _:
                return {"id": body["value"], "receipt": {"result": "SUCCESS"}}


def block(number: int, end: int, reference: bytes = bytes(8)) -> dict[str, Any]:
    """A block whose id has these bytes in its midst, and ends with four bytes of a number."""
    raw = {"number": number, "timestamp": 1_900_000_000_000}
    return {"blockID": "00" * 8 + reference.hex() + "00" * 12 + f"{end:08x}", "block_header": {"raw_data": raw}}
