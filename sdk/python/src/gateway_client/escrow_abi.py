"""The escrow contract of EVM chains and Tron: its types, its calls and a token's, and the terms of a payment out of its events.

contracts/README.md is the reference. Words are 32 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import NodeError, NotDue
from .keccak import keccak256, on_chain
from .node import hex_bytes

if TYPE_CHECKING:
    from .trust import Terms

WORD = 32
_DEPOSIT_FIELDS = (
    "bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,"
    "uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter"
)
_DEPOSIT = "(" + ",".join(field.split(" ")[0] for field in _DEPOSIT_FIELDS.split(",")) + ")"
#: Solidity's type of the terms, `e`.
TERMS = f"({_DEPOSIT},address,uint256,bytes32,address,uint256,uint48)"
#: States of a record.
DEPOSITED, RESERVED, RELEASED, REFUNDED = 1, 2, 3, 4


def typed_fields(text: str) -> list[dict[str, str]]:
    """EIP-712 members, as `encode_typed_data` takes them."""
    return [dict(zip(("type", "name"), field.split(" "), strict=True)) for field in text.split(",")]


#: EIP-712 type of what a payer agrees to.
GATEWAY_DEPOSIT = typed_fields(_DEPOSIT_FIELDS)


def selector(signature: str) -> bytes:
    """The first four bytes of a call."""
    return keccak256(signature.encode())[:4]


def topic(signature: str) -> bytes:
    """The first topic of an event."""
    return keccak256(signature.encode())


DEPOSITED_TOPIC = topic(f"Deposited(bytes32,bytes32,address,{_DEPOSIT},address,uint256)")
RESERVED_TOPIC = topic("Reserved(bytes32,bytes32,address,uint256,uint48)")
RECORD_OF = "recordOf(bytes32)"
REFUND = f"refund({TERMS})"
CLAIMABLE = "claimable(address,address)"
CLAIM_FOR = "claimFor(address,address)"
DEPOSIT_OWN = f"depositOwn({_DEPOSIT},address,uint256,bytes)"
#: Of a token.
APPROVE = "approve(address,uint256)"
ALLOWANCE = "allowance(address,address)"
#: Of the contract that makes deposit addresses: what an address commits to, and the name of the token that goes back.
GIVE_BACK = f"giveBack((address,address,uint256,{_DEPOSIT}),address)"


def word(value: int | bytes) -> bytes:
    """A number, or bytes that are a number, such as an address."""
    return (int.from_bytes(value, "big") if isinstance(value, bytes) else value).to_bytes(WORD, "big")


def words(data: bytes) -> list[bytes]:
    """Bytes as words."""
    if len(data) % WORD:
        raise NodeError(f"the node says {len(data)} bytes, which are not words")
    return [data[at : at + WORD] for at in range(0, len(data), WORD)]


def number(data: bytes) -> int:
    """A word as a number."""
    return int.from_bytes(data, "big")


def deposit_of(terms: Terms, reserve_deadline: int, refund_after: int) -> dict[str, Any]:
    """What the payer agrees to, the escrow's `GatewayDeposit`, with the windows that the gateway chose."""
    order = terms.order
    return {
        "paymentId": on_chain(order.payment_id),
        "termsHash": order.terms_hash(),
        "quoteHash": terms.quote_hash,
        "payer": order.account,
        "reserver": terms.reserver,
        "releaser": terms.releaser,
        "reserveDeadline": reserve_deadline,
        "fulfillmentDeadline": terms.fulfillment_deadline,
        "refundAfter": refund_after,
    }


@dataclass(frozen=True)
class Record:
    """What the escrow keeps of a payment. The blocks are as the contract sees them; 0 before."""

    state: int
    deposited_at: int
    reserved_at: int
    commitment: bytes

    @classmethod
    def read(cls, data: bytes) -> Record:
        """The answer of `recordOf`."""
        parts = words(data)
        if len(parts) != 6:
            raise NodeError("the contract does not answer as an escrow")
        state, _round, deposited_at, reserved_at, _ended = map(number, parts[:5])
        return cls(state, deposited_at, reserved_at, parts[5])

    def insist_open(self, payment_id: str) -> None:
        """Raises `NotDue` where there is no money in the escrow for the payment."""
        if self.state == 0:
            raise NotDue(f"the escrow has no deposit of {payment_id}")
        if self.state in (RELEASED, REFUNDED):
            ended = "released to the settler" if self.state == RELEASED else "refunded"
            raise NotDue(f"the deposit of {payment_id} was {ended}")
        if self.state not in (DEPOSITED, RESERVED):
            raise NodeError(f"the contract says a state that there is not, {self.state}")


@dataclass(frozen=True)
class Log:
    """An event of the escrow."""

    topics: Sequence[bytes]
    data: bytes

    @classmethod
    def read(cls, log: dict[str, Any]) -> Log:
        """An event as nodes show it."""
        topics = log.get("topics")
        return cls([hex_bytes(topic) for topic in topics] if isinstance(topics, list) else [], hex_bytes(log.get("data") or ""))


@dataclass(frozen=True)
class EscrowTerms:
    """The terms of a payment as they stand, `e`: fifteen words."""

    encoded: bytes

    @classmethod
    def found(cls, record: Record, payment: bytes, logs: Sequence[Log]) -> EscrowTerms:
        """The terms out of the payment's events. Nobody is believed: they have to hash to the record's commitment.

        Of an escrow that was reassigned the events may be there of each settler that it was reserved for."""
        deposited = _events(logs, DEPOSITED_TOPIC, payment, 11)[0]
        if record.reserved_at:
            found = _events(logs, RESERVED_TOPIC, payment, 2)
            rests = [reserved.topics[2] + reserved.topics[3] + reserved.data for reserved in found]
        else:
            rests = [deposited.topics[2] + bytes(3 * WORD)]
        for rest in rests:
            if keccak256(deposited.data + rest) == record.commitment:
                return cls(deposited.data + rest)
        raise NodeError("the node's events are not what the escrow has committed to")

    @property
    def payer(self) -> bytes:
        """Whose money it is, 20 bytes."""
        return words(self.encoded)[3][12:]

    @property
    def refund_after(self) -> int:
        """From when on it can be refunded, UNIX seconds."""
        return number(words(self.encoded)[8])

    @property
    def token(self) -> bytes:
        """The token, 20 bytes."""
        return words(self.encoded)[9][12:]

    @property
    def deposited(self) -> int:
        """What was taken of it, smallest unit."""
        return number(words(self.encoded)[10])

    def insist_due(self, now: int) -> None:
        """Raises `NotDue` before the refund window."""
        if now < self.refund_after:
            raise NotDue(f"it can be refunded from {self.refund_after} on, in {self.refund_after - now} s", self.refund_after)


def _events(logs: Sequence[Log], first: bytes, payment: bytes, size: int) -> list[Log]:
    def is_one(log: Log) -> bool:
        topics = log.topics
        return len(topics) == 4 and topics[0] == first and topics[1] == payment and len(log.data) == size * WORD

    found = [log for log in logs if is_one(log)]
    if not found:
        raise NodeError("the node does not show the payment's events in the blocks that the escrow names")
    return found


def opening(deposit: dict[str, Any], token: str, amount: int, chain_id: int, escrow: str) -> dict[str, Any]:
    """The typed data of the reserver's signature under a payer's own deposit."""
    return {
        "domain": {"name": "GatewayEscrow", "version": "1", "chainId": chain_id, "verifyingContract": escrow},
        "types": {
            "EIP712Domain": typed_fields("string name,string version,uint256 chainId,address verifyingContract"),
            "Opening": typed_fields("GatewayDeposit deposit,address token,uint256 amount"),
            "GatewayDeposit": GATEWAY_DEPOSIT,
        },
        "primaryType": "Opening",
        "message": {"deposit": deposit, "token": token, "amount": amount},
    }
