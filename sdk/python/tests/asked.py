"""What a gateway asks to be signed, made by the letter of EIP-712 and without the package that is tested."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from eth_abi.abi import encode

from gateway_client.keccak import keccak256

DEPOSIT = (
    "bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,"
    "uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter"
)
DOMAIN = "string name,string version,uint256 chainId,address verifyingContract"
RECEIVE = "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce"
PERMIT = "address owner,address spender,uint256 value,uint256 nonce,uint256 deadline"


def members(fields: str) -> list[dict[str, str]]:
    return [{"type": one.split(" ")[0], "name": one.split(" ")[1]} for one in fields.split(",")]


def hash_struct(name: str, fields: str, values: dict[str, Any]) -> bytes:
    """EIP-712: hashStruct(s) = keccak256(typeHash ‖ encodeData(s))."""
    encoded = [keccak256(f"{name}({fields})".encode())]
    for member in members(fields):
        kind, value = member["type"], values[member["name"]]
        if kind == "string":
            encoded.append(keccak256(value.encode()))
        elif kind == "bytes32":
            encoded.append(bytes.fromhex(value[2:]))
        else:
            encoded.append(encode([kind], [value.lower() if kind == "address" else int(value)]))
    return keccak256(b"".join(encoded))


@dataclass
class Asked:
    """Typed data that a gateway asks to be signed."""

    primary_type: str
    fields: str
    domain: dict[str, Any]
    message: dict[str, Any]
    payload: dict[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        separator = hash_struct("EIP712Domain", DOMAIN, self.domain)
        return "0x" + keccak256(b"\x19\x01" + separator + hash_struct(self.primary_type, self.fields, self.message)).hex()

    def unsigned(self) -> dict[str, Any]:
        """The message as `/v1/payments/prepare` has it."""
        types = {"EIP712Domain": members(DOMAIN), self.primary_type: members(self.fields)}
        data = {"types": types, "primaryType": self.primary_type, "domain": self.domain, "message": self.message}
        return {"message": self.digest, "message_prehash": json.dumps(data), "payload": self.payload}
