"""Wallets: who pays. One for each family of chains: `gateway_client.evm`, `gateway_client.solana`, `gateway_client.tron`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .errors import NotSigned
from .flow import Flow
from .schemas import ChainDefaults, PreparedPayment, SignedMessage, UnsignedMessage
from .trust import Limits, Terms
from .verifiers import check_verifier

#: The scheme of EVM chains by which a token itself takes a signature for a transfer (ERC-3009).
BY_TOKEN = "EVM_EIP3009"


@dataclass(frozen=True)
class Sent:
    """The payer's own transactions that made a payment possible, by their hashes."""

    wrapped: list[str] = field(default_factory=list)
    approvals: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Refund:
    """What became of a payment's escrow."""

    #: The transactions that were sent.
    transactions: list[str]
    #: Smallest units that they brought to `owner`.
    amount: int
    owner: str


class Wallet(ABC):
    """A payer with its key and a node of its chain."""

    #: As `family` of `/v1/defaults`.
    family: str
    #: CAIP-2 namespace of its chains.
    namespace: str

    @property
    @abstractmethod
    def account(self) -> str:
        """The account that pays, as requests have it."""

    @abstractmethod
    def check_chain(self, chain_id: str, defaults: ChainDefaults) -> Flow[None]:
        """Raises `NodeError` where the node is of another chain."""

    @abstractmethod
    def allow(self, terms: Terms, wrap: bool, by_signature: bool = False) -> Flow[Sent]:
        """Gives the allowance that is missing, after wrapping coins for what is missing of the token where `wrap` says so. Where
        what is signed has the allowance, or needs none, as `by_signature` says, none is given."""

    @abstractmethod
    def signed(self, terms: Terms, prepared: PreparedPayment) -> Flow[list[SignedMessage]]:
        """Rebuilds what has to be signed from the terms alone, compares, and signs what it has rebuilt.

        Raises `NotSigned` at the first difference.
        """

    @abstractmethod
    def refund(self, escrow: str, payment_id: str, limits: Limits) -> Flow[Refund]:
        """Sends the refund of a payment whose window is open to the escrow itself.

        Raises `NotDue` where nothing can be refunded, or not yet.
        """


def with_signatures(prepared: PreparedPayment, signatures: list[str]) -> list[SignedMessage]:
    """The prepared messages as a submission has them."""
    return [{**message, "signature": one} for message, one in zip(prepared["signed_messages"], signatures, strict=True)]


def takes_token_signatures(defaults: ChainDefaults) -> bool:
    """Whether the gateway takes signatures for tokens, in which case it says before anything is sent what is to be signed."""
    schemes: Sequence[str] = defaults.get("message_schemes") or ()
    return BY_TOKEN in schemes


def is_allowed_by_signature(prepared: PreparedPayment) -> bool:
    """Whether what is to be signed needs no allowance, or has it among its messages, which a wallet compares before it signs."""
    scheme: str = prepared["message_scheme"]
    return scheme == BY_TOKEN or len(prepared["signed_messages"]) > 1


def only_message(prepared: PreparedPayment) -> UnsignedMessage:
    """The one message that a payer on EVM chains or Solana signs."""
    return messages_of(prepared, 1)[0]


def messages_of(prepared: PreparedPayment, most: int) -> list[UnsignedMessage]:
    """What the gateway asks to be signed, one message at least, in its form."""
    messages = prepared["signed_messages"]
    if not 1 <= len(messages) <= most:
        raise NotSigned("the gateway asks for a number of signatures that makes no sense")
    for message in messages:
        is_message = isinstance(message, Mapping) and isinstance(message.get("payload"), Mapping)
        if not is_message or not all(isinstance(message.get(name), str) for name in ("message", "message_prehash")):
            raise NotSigned("the gateway asks for a signature over nothing")
    return messages


def insist_prepared(terms: Terms, prepared: PreparedPayment, scheme: str) -> None:
    """Whether the gateway prepared what this package rebuilds, for a delivery that the releaser's verifiers attest."""
    if prepared["message_scheme"] != scheme:
        raise NotSigned(f"the gateway asks for a signature under {prepared['message_scheme']}, not {scheme}")
    check_verifier(terms.order.chain_id.partition(":")[0], terms.releaser, prepared.get("fulfillment_verifier"))
