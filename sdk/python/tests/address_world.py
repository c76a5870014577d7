"""Deposit addresses as a gateway gives them, on an EVM chain, on Solana and on Tron.

They are computed here from the contracts' artefacts, by eth_abi, hashlib and the letter of the rules, and without the package
that is tested.
"""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, cast

from eth_abi.abi import encode

from evm_world import CASES
from gateway_client import Limits, Order, Pins
from gateway_client.addresses import CheckedAddress, address_terms, check_address
from gateway_client.keccak import keccak256
from gateway_client.order import payment_id, quote_request_id, rfc3339, unix
from gateway_client.schemas import ChainDefaults, DepositAddress, PaymentResponse, QuoteRequestRead
from network import ROOT
from solana_keys import base58, from_base58, program_addresses

TERMS = "(address,address,uint256,(bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48))"
HASH = "0x" + keccak256(b"another").hex()
ZERO = bytes(20)
#: The deterministic deployer, which is on every EVM chain.
DEPLOYER = bytes.fromhex("4e59b44847b379578588920ca78fbf26c0b4956c")
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

Given = dict[str, Any]


def creation(contract: str) -> bytes:
    """The code that makes a contract, of its artefact."""
    return bytes.fromhex(json.loads((ROOT / f"contracts/artifacts/{contract}.json").read_text())["bytecode"][2:])


def create2(prefix: bytes, deployer: bytes, salt: bytes, code: bytes) -> bytes:
    """EIP-1014, and what Tron makes of it."""
    return keccak256(prefix + deployer + salt + keccak256(code))[12:]


def create(deployer: bytes) -> bytes:
    """A contract's first creation: RLP of its address and the number 1."""
    return keccak256(b"\xd6\x94" + deployer + b"\x01")[12:]


def base58check(account: bytes) -> str:
    """An account of Tron."""
    raw = b"\x41" + account
    rest = int.from_bytes(raw + sha256(sha256(raw).digest()).digest()[:4], "big")
    digits = []
    while rest:
        rest, digit = divmod(rest, 58)
        digits.append(_BASE58[digit])
    return "".join(reversed(digits))


def from_base58check(text: str) -> bytes:
    """The twenty bytes of an account of Tron, whose checksum is not looked at."""
    value = 0
    for digit in text:
        value = value * 58 + _BASE58.index(digit)
    return value.to_bytes(25, "big")[1:21]


@dataclass(frozen=True)
class Side(ABC):
    """A chain on which a payment by deposit address is made."""

    name: str
    case: Mapping[str, Any]
    #: What makes the addresses.
    factory: bytes
    written: Callable[[bytes], str]
    read: Callable[[str], bytes]
    link: str

    def __str__(self) -> str:
        return self.name

    @property
    def order(self) -> Order:
        """What is paid for."""
        return Order.of(self.case["order"])

    @property
    def defaults(self) -> ChainDefaults:
        """What the gateway says of the chain."""
        return cast(ChainDefaults, self.case["defaults"][self.order.chain_id])

    @property
    def pins(self) -> Pins:
        """All that a payer can know by itself."""
        said = self.defaults
        return Pins(
            said["escrow_contract_address"],
            said["reserver"],
            said["releaser"],
            deposit_address_factory=self.written(self.factory),
        )

    @property
    def fulfilled(self) -> int:
        """By when it has to be there, UNIX seconds."""
        return unix(self.order.fulfillment_deadline)

    @property
    def stranger(self) -> bytes:
        """An account that has no part in it."""
        return bytes.fromhex("deadbeef").rjust(len(self.factory), b"\0")

    @property
    def other(self) -> str:
        """The same as it is written."""
        return self.written(self.stranger)

    @property
    def originator(self) -> str:
        """Who asks."""
        return f"{self.order.chain_id.partition(':')[0]}:{self.order.account}"

    @property
    def token(self) -> str:
        """What is paid with."""
        return self.order.source["asset_identifier"].rpartition(":")[2]

    def batch_id(self, secret: str | None = None) -> str:
        """The quote-request's id."""
        return quote_request_id(self.originator, self.order.request_id, secret)

    def payment_id(self, secret: str | None = None) -> str:
        """The payment's id."""
        return payment_id(self.originator, self.batch_id(secret))

    def batch(self, order: Order | None = None, secret: str | None = None) -> QuoteRequestRead:
        """The quote-request of an order, of the usual one where none is named."""
        order = order or self.order
        own = quote_request_id(self.originator, order.request_id, secret)
        return cast(QuoteRequestRead, {**order.body(), "quote_request_id": own, "status": "collecting"})

    @abstractmethod
    def encoded(self, given: Given) -> bytes:
        """The terms that are shown, as the contract reads them."""

    @abstractmethod
    def computed(self, given: Given, factory: bytes | None = None) -> str:
        """The address of the terms that are shown, of another factory where one is named."""

    @abstractmethod
    def misled(self, given: Given) -> str:
        """An address of the same factory and terms that somebody else commands, or nobody."""

    def give(self, edit: Callable[[Given], Any] = lambda given: None, order: Order | None = None) -> DepositAddress:
        """What a gateway gives; its address and link follow what is changed in it, unless they are changed, too."""
        own, said, order = self.order, self.defaults, order or self.order
        fulfilled = unix(order.fulfillment_deadline)
        given: Given = {
            "chain_id": own.chain_id,
            "asset_identifier": own.source["asset_identifier"],
            "amount": str(own.max_source_amount),
            "pay_by": rfc3339(fulfilled - 120),
            "refund_account": own.account,
            "factory": self.written(self.factory),
            "terms": {
                "escrow": said["escrow_contract_address"],
                "token": self.token,
                "amount": str(own.max_source_amount),
                "deposit": {
                    "payment_id": "0x" + keccak256(self.payment_id().encode()).hex(),
                    "terms_hash": "0x" + own.terms_hash().hex(),
                    "quote_hash": "0x" + bytes(32).hex(),
                    "payer": own.account,
                    "reserver": said["reserver"],
                    "releaser": said["releaser"],
                    "reserve_deadline": fulfilled - 60,
                    "fulfillment_deadline": fulfilled,
                    "refund_after": fulfilled + said["refund_delay_seconds"],
                },
            },
        }
        edit(given)
        if "address" not in given and isinstance(given["terms"], dict):
            given["address"] = self.computed(given)
        given.setdefault("uri", self.link.format(token=self.token, **{"address": "", **given}))
        return cast(DepositAddress, given)

    def payment(self, given: DepositAddress, status: str = "pending") -> PaymentResponse:
        """The payment as the gateway shows it."""
        return cast(PaymentResponse, {"payment_id": self.payment_id(), "status": status, "deposit_address": given})

    def check(
        self, given: DepositAddress, pins: Pins | None = None, limits: Limits | None = None, **options: Any
    ) -> CheckedAddress:
        """What is tested: the comparison, three minutes before the end where nothing else is said."""
        terms = address_terms(self.order, self.batch(), self.case["defaults"], pins or Pins(), limits or Limits())
        status = options.pop("status", "pending")
        return check_address(terms, self.payment(given, status), **{"now": self.fulfilled - 200, **options})


@dataclass(frozen=True)
class ContractSide(Side):
    """A chain on which a contract makes the addresses, with CREATE2."""

    #: CREATE2's first byte.
    prefix: bytes
    #: What the addresses of a factory run.
    implementation: Callable[[bytes], bytes]

    def values(self, given: Given) -> list[Any]:
        """The terms that are shown, as Solidity's ABI has them."""
        terms = given["terms"]

        def value(shown: Any) -> Any:
            if not isinstance(shown, str):
                return shown
            return bytes.fromhex(shown[2:]) if len(shown) == 66 else "0x" + self.read(shown).hex()

        deposit = [value(one) for one in terms["deposit"].values()]
        return [value(terms["escrow"]), value(terms["token"]), int(terms["amount"]), deposit]

    def encoded(self, given: Given) -> bytes:
        return encode([TERMS], [self.values(given)])

    def computed(self, given: Given, factory: bytes | None = None, implementation: bytes | None = None) -> str:
        """By the letter of ERC-1167."""
        factory = factory or self.factory
        runs = (implementation or self.implementation(factory)).hex()
        code = bytes.fromhex(f"3d602d80600a3d3981f3363d3d373d3d3d363d73{runs}5af43d82803e903d91602b57fd5bf3")
        return self.written(create2(self.prefix, factory, keccak256(self.encoded(given)), code))

    def misled(self, given: Given) -> str:
        return self.computed(given, implementation=self.stranger)


@dataclass(frozen=True)
class SolanaSide(Side):
    """A chain on which the escrow program makes the addresses."""

    @property
    def pins(self) -> Pins:
        """Nothing more than other payers pin."""
        return replace(super().pins, deposit_address_factory=None)

    def encoded(self, given: Given) -> bytes:
        """By the letter of contracts/solana/README.md."""
        terms, deposit = given["terms"], given["terms"]["deposit"]
        hashes = [bytes.fromhex(deposit[name][2:]) for name in ("payment_id", "terms_hash", "quote_hash")]
        payer, mint, reserver, releaser = map(
            self.read, (deposit["payer"], terms["token"], deposit["reserver"], deposit["releaser"])
        )
        times = (deposit[name] for name in ("reserve_deadline", "fulfillment_deadline", "refund_after"))
        amount = int(terms["amount"])
        return struct.pack("<x32s32s32s32s32sQ32s32sQQQ", *hashes, payer, mint, amount, reserver, releaser, *times)

    def computed(self, given: Given, factory: bytes | None = None) -> str:
        return self.written(next(self._addresses(given, factory or self.factory)))

    def misled(self, given: Given) -> str:
        """By another bump than the canonical one, of which the program knows nothing."""
        found = self._addresses(given, self.factory)
        next(found)
        return self.written(next(found))

    def _addresses(self, given: Given, program: bytes) -> Iterator[bytes]:
        return program_addresses(program, [b"address", sha256(b"gw-address\x01" + self.encoded(given)).digest()])


def _case(name: str) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], next(case for case in CASES if case["name"] == name))


EVM = ContractSide(
    name="evm",
    case=_case("evm-to-evm"),
    factory=create2(b"\xff", DEPLOYER, bytes(32), creation("DepositAddresses")),
    written=lambda account: "0x" + account.hex(),
    read=lambda text: bytes.fromhex(text[2:]),
    link="ethereum:{token}@31337/transfer?address={address}&uint256={amount}",
    prefix=b"\xff",
    implementation=create,
)
_SOLANA = _case("solana-to-evm")
SOLANA = SolanaSide(
    name="solana",
    case=_SOLANA,
    factory=from_base58(_SOLANA["defaults"][Order.of(_SOLANA["order"]).chain_id]["escrow_contract_address"]),
    written=base58,
    read=from_base58,
    link="solana:{address}?spl-token={token}",
)
TRON = ContractSide(
    name="tron",
    case=_case("tron-to-evm"),
    factory=bytes.fromhex("f4c70000000000000000000000000000000000f4"),
    written=base58check,
    read=from_base58check,
    link="tron:{address}",
    prefix=b"\x41",
    implementation=lambda factory: create2(b"\x41", factory, bytes(32), creation("DepositAddress")),
)
