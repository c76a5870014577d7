"""Mandates as a gateway prepares them, and payments under them.

Addresses and typed data are computed here by eth_abi and eth-account from the contract's artefact, by the letter of the rules,
and without the package that is tested, but for ids, which have tests of their own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import rlp  # type: ignore[import-untyped]
from eth_abi.abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data

from address_world import DEPLOYER, create, create2, creation
from batch_world import OWN, digest
from evm_world import KEY, ORDER, World
from gateway_client import Gateway, Limits, MandateOrder, Order, Payment, SignedMandate, Wallet
from gateway_client.evm import EvmWallet
from gateway_client.keccak import keccak256
from gateway_client.order import unix
from server import Said, Seen, said

Data = dict[str, Any]
MANDATE = "(address,address,address,uint160,uint256,address,address,uint48,uint32,uint32,uint32,bytes32,bytes,bytes)"
CONTRACT = create2(b"\xff", DEPLOYER, bytes(32), creation("Mandates"))
IMPLEMENTATION = create(CONTRACT)
#: The merchant's key. Everyone knows it.
MERCHANT_KEY = keccak256(b"gw dev example merchant").hex()
MERCHANT = EvmWallet.from_key(MERCHANT_KEY, "http://127.0.0.1:1/no-node").account
_DOMAIN = [
    {"name": "name", "type": "string"},
    {"name": "version", "type": "string"},
    {"name": "chainId", "type": "uint256"},
    {"name": "verifyingContract", "type": "address"},
]
PERMIT_TYPES = {
    "PermitSingle": [
        {"name": "details", "type": "PermitDetails"},
        {"name": "spender", "type": "address"},
        {"name": "sigDeadline", "type": "uint256"},
    ],
    "PermitDetails": [
        {"name": "token", "type": "address"},
        {"name": "amount", "type": "uint160"},
        {"name": "expiration", "type": "uint48"},
        {"name": "nonce", "type": "uint48"},
    ],
    "EIP712Domain": [member for member in _DOMAIN if member["name"] != "version"],
}
CHARGE_TYPES = {
    "Charge": [
        {"name": "mandate", "type": "address"},
        {"name": "paymentId", "type": "bytes32"},
        {"name": "fulfillmentAmount", "type": "uint256"},
        {"name": "amount", "type": "uint160"},
        {"name": "reserver", "type": "address"},
        {"name": "reserveDeadline", "type": "uint48"},
        {"name": "fulfillmentDeadline", "type": "uint48"},
        {"name": "refundAfter", "type": "uint48"},
    ],
    "EIP712Domain": _DOMAIN,
}


def mandate_order(**changes: Any) -> MandateOrder:
    """Twice the cap of the example's order in each of three days."""
    known: Data = {"amount": 10_200_000, "least": 10_000_000, "period_seconds": 86_400, "periods": 3, "merchant": MERCHANT}
    return MandateOrder(**{"source": ORDER.source, "destination": ORDER.destination, **known, **changes})


def charged(request_id: str = "month-1", **changes: Any) -> Order:
    """An order under it."""
    known: Data = {"amount": 5_000_000, "max_source_amount": 5_100_000, "request_id": request_id}
    return Order(**{"source": ORDER.source, "destination": ORDER.destination, **known, **changes})


def address_of(body: Data, mandate: Data, contract: bytes = CONTRACT) -> str:
    """Where the contract makes the address of a mandate: a minimal proxy whose salt is all of it."""
    source, owned = body["source"], sorted(body["destination"], key=lambda one: (one["asset_identifier"], one["account"]))

    def canonical(one: Data) -> str:
        return f'{{"account":"{one["account"]}","asset_identifier":"{one["asset_identifier"]}"}}'

    before = f'{{"destination":[{",".join(map(canonical, owned))}],"fulfillment_amount":"'
    after = f'","source":{canonical(source)}}}'
    numbers = [int(mandate[name]) for name in ("begins", "period_seconds", "periods", "lock_seconds")]
    escrow = body.get("escrow_contract_address", OWN["escrow_contract_address"])
    releaser = body.get("fulfillment_verifier", {}).get("account", OWN["releaser"])
    values = (
        *(source["account"], mandate["merchant"], source["asset_identifier"].rpartition(":")[2]),
        *(int(mandate["amount"]), int(mandate.get("least", "0")), escrow, releaser),
        *numbers,
        *(bytes.fromhex(mandate["salt"][2:]), before.encode(), after.encode()),
    )
    proxy = (
        bytes.fromhex("3d602d80600a3d3981f3363d3d373d3d3d363d73")
        + create(contract)
        + bytes.fromhex("5af43d82803e903d91602b57fd5bf3")
    )
    return "0x" + create2(b"\xff", contract, keccak256(encode([MANDATE], [values])), proxy).hex()


def shown(data: Data, payload: Data) -> Data:
    """A message as the gateway shows it."""
    return {"message": digest(data), "message_prehash": json.dumps(data), "payload": payload}


def permit_of(body: Data, mandate: Data, address: str) -> Data:
    """What an honest gateway asks the payer to sign."""
    last = str(mandate["begins"] + mandate["period_seconds"] * mandate["periods"] - 1)
    token, whole = body["source"]["asset_identifier"].rpartition(":")[2], str(int(mandate["amount"]) * mandate["periods"])
    return {
        "types": PERMIT_TYPES,
        "primaryType": "PermitSingle",
        "domain": {"name": "Permit2", "chainId": 31337, "verifyingContract": OWN["permit2"]},
        "message": {
            "details": {"token": token, "amount": whole, "expiration": last, "nonce": "0"},
            "spender": address,
            "sigDeadline": last,
        },
    }


def granted(body: Data, edit: Callable[[Data], Any] = lambda _: None, contract: bytes = CONTRACT) -> Data:
    """The answer of `/v1/payments/mandates/prepare`; `edit` changes the typed data before it is hashed."""
    mandate = body["mandate"]
    address, written = address_of(body, mandate, contract), "0x" + contract.hex()
    data = json.loads(json.dumps(permit_of(body, mandate, address)))
    edit(data)
    call = {"to": written, "data": "0x", "value": "0x0"}
    return {
        "message_scheme": "EVM_PERMIT2_MANDATE",
        "mandate": mandate,
        "address": address,
        "contract": written,
        "permit": shown(data, {}),
        "allowance": {**call, "to": OWN["permit2"]},
        "fulfillment_verifier": OWN["fulfillment_verifier"],
        "cancel": {"call": call, "message": {"message": "0x", "message_prehash": "{}", "payload": {}}},
    }


def charge_of(body: Data, contract: bytes = CONTRACT) -> Data:
    """What an honest gateway asks the merchant to sign."""
    order, fulfilled = Order.of(body), unix(body["fulfillment_deadline"])
    return {
        "types": CHARGE_TYPES,
        "primaryType": "Charge",
        "domain": {"name": "GatewayMandates", "version": "1", "chainId": 31337, "verifyingContract": "0x" + contract.hex()},
        "message": {
            "mandate": address_of(body, body["payload"]["mandate"], contract),
            "paymentId": "0x" + keccak256(order.payment_id.encode()).hex(),
            "fulfillmentAmount": body["fulfillment_amount"],
            "amount": body["max_source_amount"],
            "reserver": OWN["reserver"],
            "reserveDeadline": str(fulfilled),
            "fulfillmentDeadline": str(fulfilled),
            "refundAfter": str(fulfilled + OWN["refund_delay_seconds"]),
        },
    }


def prepared(body: Data, edit: Callable[[Data], Any] = lambda _: None) -> Data:
    """The answer of `/v1/payments/prepare` for a payment under a mandate."""
    data = json.loads(json.dumps(charge_of(body)))
    edit(data)
    windows = {name: int(data["message"][member]) for name, member in _WINDOWS.items()}
    return {
        "payment_id": Order.of(body).payment_id,
        "message_scheme": "EVM_PERMIT2_MANDATE",
        "signed_messages": [shown(data, {**windows, **body["payload"]})],
        "fulfillment_verifier": OWN["fulfillment_verifier"],
    }


_WINDOWS = {"reserve_deadline": "reserveDeadline", "refund_after": "refundAfter"}


def completed(body: Data, **more: Any) -> Said:
    """The answer of `/v1/payments`."""
    status = {"payment_id": Order.of(body).payment_id, "status": "completed", "updated_at": "2030-01-01T00:00:00Z"}
    return said({**status, "idempotent_replay": False, **more})


@dataclass
class MandateWorld(World):
    """A gateway that takes mandates."""

    grant: Callable[[Data], Said] = lambda body: said(granted(body))
    prepare: Callable[[Data], Said] = lambda body: said(prepared(body))
    accept: Callable[[Data, int], Said] = lambda body, _: completed(body)
    #: Bodies that mandates and payments were prepared of.
    grants: list[Data] = field(default_factory=list)
    asked_of: list[Data] = field(default_factory=list)

    @property
    def merchant(self) -> EvmWallet:
        """The merchant, who has no node."""
        return EvmWallet.from_key(MERCHANT_KEY, "http://127.0.0.1:1/no-node")

    def answer(self, seen: Seen) -> Said:
        path = urlsplit(seen.path).path
        match path:
            case "/v1/payments/mandates/prepare":
                self.asked.append(path)
                self.grants.append(json.loads(seen.body))
                return self.grant(self.grants[-1])
            case "/v1/payments/prepare":
                self.asked.append(path)
                self.asked_of.append(json.loads(seen.body))
                return self.prepare(self.asked_of[-1])
            case path if path.endswith("/status"):
                self.asked.append(path)
                return said({"payment_id": path.split("/")[-2], "status": "pending"})
            case "/v1/payments":
                self.asked.append(path)
                self.submitted.append(seen.body)
                return self.accept(json.loads(seen.body), len(self.submitted))
            case _:
                return super().answer(seen)


def given(**changes: Any) -> Data:
    """What the merchant was given: the mandate, and the payer's signature."""
    order = mandate_order(**changes)
    mandate = {
        **{"merchant": order.merchant, "amount": str(order.amount), "least": str(order.least), "begins": int(time.time()) - 60},
        **{"period_seconds": order.period_seconds, "periods": order.periods, "lock_seconds": Limits().lock_seconds},
        "salt": "0x" + "05" * 32,
    }
    body = {"source": order.source, "destination": list(order.destination)}
    data = permit_of(body, mandate, address_of(body, mandate))
    signature = Account.from_key(KEY).sign_message(encode_typed_data(full_message=data)).signature
    return {"mandate": mandate, "permit": "0x" + bytes(signature).hex()}


#: An account that nobody knows.
OTHER = "0x00000000000000000000000000000000deadbeef"


def sign(world: MandateWorld, order: MandateOrder | None = None, **options: Any) -> SignedMandate:
    """The payer's signature."""
    with Gateway(world.url) as gateway:
        return gateway.sign_mandate(order or mandate_order(), world.wallet, **options)


def charge(world: MandateWorld, payload: Any, wallet: Wallet | None = None, order: Any = None, **options: Any) -> Payment:
    """The merchant's payment, of `charged` where no other is given."""
    with Gateway(world.url) as gateway:
        return gateway.charge(order or charged(), payload, wallet or world.merchant, **options)


def calls(world: MandateWorld) -> list[tuple[bytes, int, bytes]]:
    """Receiver, value and data of what was sent."""
    decoded = [rlp.decode(raw[1:]) for raw in world.sent]
    return [(one[5], int.from_bytes(one[6], "big"), one[7]) for one in decoded]


def signer(data: Data, signature: str) -> str:
    """Who signed typed data."""
    return str(Account.recover_message(encode_typed_data(full_message=data), signature=signature)).lower()


def of(path: str, value: Any) -> Callable[[Data], None]:
    """Writes a member of typed data."""
    *above, last = path.split(".")

    def write(data: Any) -> None:
        for step in above:
            data = data[step]
        data[last] = value(data[last]) if callable(value) else value

    return write


def more_by(amount: int) -> Callable[[str], str]:
    """A number in a text, so much larger."""
    return lambda text: str(int(text) + amount)
