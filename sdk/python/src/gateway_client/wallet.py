"""Wallets: who pays. One for each family of chains: `gateway_client.evm`, `gateway_client.solana`, `gateway_client.tron`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import NotSigned
from .flow import Flow
from .mandate_terms import MandateTerms
from .schemas import (
    ChainDefaults,
    PreparedMandate,
    PreparedPayment,
    PreparedPaymentBatch,
    SignedMessage,
    UnsignedMessage,
)
from .trust import BatchTerms, Limits, Terms
from .verifiers import check_verifier

#: A call of an EVM chain as `eth_sendTransaction` takes it: `to`, `data` and `value`, each hex with 0x.
Call = dict[str, str]


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
    def allow(self, terms: Terms, wrap: bool, needs_no_allowance: bool = False, allowance: int | None = None) -> Flow[Sent]:
        """Gives an allowance where one is missing, of `allowance` or what may be drawn, after wrapping coins for what is missing
        of the token where `wrap` says so. None is given where what is signed has it, or needs none: `needs_no_allowance`.

        Raises `NotSigned`, before anything is sent, where it would be for a Permit2 that the payer does not know.
        """

    @abstractmethod
    def signed(self, terms: Terms, prepared: PreparedPayment) -> Flow[list[SignedMessage]]:
        """Rebuilds what has to be signed from the terms alone, compares, and signs what it has rebuilt.

        Raises `NotSigned` at the first difference.
        """

    def check_batch(self, batch: BatchTerms, prepared: PreparedPaymentBatch) -> None:
        """Rebuilds what has to be signed for a batch from its terms alone, and compares.

        Raises `NotSigned` at the first difference, and `ValueError` where the wallet's chains have no batches.
        """
        raise ValueError(f"batches are paid on EVM chains, and not by the wallet of {self.account}")

    def signed_batch(self, batch: BatchTerms, prepared: PreparedPaymentBatch) -> Flow[list[SignedMessage]]:
        """As `check_batch`; then one signature over what was rebuilt."""
        raise ValueError(f"batches are paid on EVM chains, and not by the wallet of {self.account}")

    def check_mandate(self, terms: MandateTerms, prepared: PreparedMandate) -> None:
        """Rebuilds what has to be signed for a mandate from its terms alone, and compares.

        Raises `NotSigned` at the first difference, and `ValueError` where the wallet's chains have no mandates, as the next four.
        """
        raise self._without_mandates()

    def signed_mandate(self, terms: MandateTerms, prepared: PreparedMandate) -> Flow[str]:
        """As `check_mandate`; then the payer's signature over what was rebuilt."""
        raise self._without_mandates()

    def signed_charge(self, terms: MandateTerms, prepared: PreparedPayment | None) -> Flow[list[SignedMessage]]:
        """Rebuilds what the merchant has to sign for a payment under a mandate from its terms alone, compares, and signs. Where
        nothing was prepared the windows are as long as may be.

        Raises `NotSigned` at the first difference.
        """
        raise self._without_mandates()

    def approval_calls(self, terms: Terms, allowance: int | None = None) -> Flow[list[Call]]:
        """The calls by which `allow` gives an allowance where one is missing, without sending them."""
        raise self._without_mandates()

    def send_call(self, call: Call, limits: Limits) -> Flow[str]:
        """Sends a call, and waits until it has had its effect. Returns its hash."""
        raise self._without_mandates()

    def _without_mandates(self) -> ValueError:
        return ValueError(f"mandates are for EVM chains, and not for the wallet of {self.account}")

    @abstractmethod
    def refund(self, escrow: str, payment_id: str, limits: Limits) -> Flow[Refund]:
        """Sends the refund of a payment whose window is open to the escrow itself.

        Raises `NotDue` where nothing can be refunded, or not yet.
        """


def approvals(standing: int, needed: int, allowance: int | None) -> list[int]:
    """The amounts to approve, in this order, so that an allowance suffices: `allowance`, or what is needed. A token like Tether
    refuses a new one while another stands, so that is taken back first."""
    if standing >= needed:
        return []
    wanted = needed if allowance is None else allowance
    return [0, wanted] if standing else [wanted]


def with_signatures(prepared: PreparedPayment, signatures: list[str]) -> list[SignedMessage]:
    """The prepared messages as a submission has them."""
    return [{**message, "signature": one} for message, one in zip(prepared["signed_messages"], signatures, strict=True)]


def only_message(prepared: PreparedPayment) -> UnsignedMessage:
    """The message of a scheme that has one."""
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
