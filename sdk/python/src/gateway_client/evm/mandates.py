"""What a payer on an EVM chain signs once for what a merchant will ask for, Permit2's allowance for the address of a mandate,
and what the merchant signs for each payment. Whoever signs it agrees to what is in the address, so that is made of one's own
order, and nothing of it is read from the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eth_account.messages import encode_typed_data

from ..create2 import proxy_address
from ..errors import MandateMismatch
from ..escrow_abi import selector, typed_fields, word
from ..keccak import keccak256, on_chain
from ..mandate_terms import MandateTerms
from ..schemas import (
    PreparedMandate,
    PreparedPayment,
)
from ..schemes import BY_MANDATE
from ..trust import Terms, whole_number
from ..typed import Comparison, Message, Shown
from ..verifiers import check_verifier
from ..wallet import Call, insist_prepared, only_message
from .address import address_bytes, token_of
from .addresses import EVM

#: The contract that keeps mandates, and draws nothing by one but for a deposit that its merchant signed. It is at one address
#: on every chain, which follows from its code alone; another one may do anything with an allowance, so none is taken from the
#: gateway.
MANDATES = "0xdbab82e3a709c159b54e0a0d3546e0071843e727"
#: What the address of each mandate runs: the contract's first creation.
MANDATE_IMPLEMENTATION = "0x0acd3c5377995bee72c2af4eb38b1b49434da8bd"

#: Solidity's type of `Mandate`.
_MANDATE = "(address,address,address,uint160,uint256,address,address,uint48,uint32,uint32,uint32,bytes32,bytes,bytes)"
_CANCEL = f"cancel({_MANDATE},bytes)"
_GIVE_BACK = f"giveBack({_MANDATE},address)"
#: Of Permit2.
_ALLOW = "approve(address,address,uint160,uint48)"
#: Members of a mandate, of which the last two are in its tail.
_WORDS = 14

_DOMAIN = typed_fields("string name,string version,uint256 chainId,address verifyingContract")
_PERMIT_TYPES = {
    "EIP712Domain": typed_fields("string name,uint256 chainId,address verifyingContract"),
    "PermitSingle": typed_fields("PermitDetails details,address spender,uint256 sigDeadline"),
    "PermitDetails": typed_fields("address token,uint160 amount,uint48 expiration,uint48 nonce"),
}
_CHARGE_TYPES = {
    "EIP712Domain": _DOMAIN,
    "Charge": typed_fields(
        "address mandate,bytes32 paymentId,uint256 fulfillmentAmount,uint160 amount,address reserver,"
        "uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter"
    ),
}
_CANCELLATION_TYPES = {"EIP712Domain": _DOMAIN, "Cancellation": typed_fields("address mandate")}
_OWN = Comparison(MandateMismatch)


class MandatePermit(Message):
    """Permit2's allowance for a mandate's address."""


class MandateCancellation(Message):
    """The payer's word that a mandate has ended, which anyone can bring to the contract."""


@dataclass(frozen=True)
class ChargeMessage(Message):
    """What a merchant signs for one payment."""

    #: What the submission says of the mandate and of the windows.
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def payload(self) -> Mapping[str, Any]:
        return self.said


@dataclass(frozen=True)
class Charge:
    """What a merchant asks for, as the contract has it. Amounts are in the smallest unit, times in UNIX seconds."""

    #: Keccak-256 of the payment's id.
    payment_id: bytes
    #: What is delivered.
    fulfillment_amount: int
    #: What is drawn.
    amount: int
    #: Who admits the deposit.
    reserver: str
    #: Last second of the deposit.
    reserve_deadline: int
    #: Last second of the delivery.
    fulfillment_deadline: int
    #: First second of the refund.
    refund_after: int

    @classmethod
    def of(cls, terms: Terms, reserve_deadline: int, refund_after: int) -> Charge:
        """That of a payment, with the windows that the gateway chose. Raises `NotSigned` where these are not within limits."""
        terms.check_windows(reserve_deadline, refund_after)
        order, fulfilled = terms.order, terms.fulfillment_deadline
        payment, amounts = on_chain(order.payment_id), (order.amount, terms.amount)
        return cls(payment, *amounts, terms.reserver, reserve_deadline, fulfilled, refund_after)


@dataclass(frozen=True)
class Mandate:
    """A mandate, as the contract has it. Amounts are in the smallest unit, times in UNIX seconds."""

    payer: str
    merchant: str
    token: str
    #: The most that is drawn in a period.
    amount: int
    #: What is delivered at least where all of `amount` is drawn for it; zero for no bound.
    least: int
    escrow: str
    releaser: str
    begins: int
    period_seconds: int
    periods: int
    lock_seconds: int
    salt: bytes
    #: A payment's terms up to the amount to be delivered, and from behind the most that it may cost.
    terms_before: bytes
    terms_after: bytes

    @classmethod
    def of(cls, terms: MandateTerms) -> Mandate:
        """The mandate of these terms. Raises `ValueError` where its source is not an ERC-20."""
        order, payment, body = terms.order, terms.payment, terms.body
        _, token = token_of(payment.order.source["asset_identifier"])
        before, after = payment.order.around_amounts()
        return cls(
            payer=payment.order.account,
            merchant=order.merchant,
            token=token,
            amount=order.amount,
            least=order.least or 0,
            escrow=payment.escrow,
            releaser=payment.releaser,
            begins=body["begins"],
            period_seconds=order.period_seconds,
            periods=order.periods,
            lock_seconds=body["lock_seconds"],
            salt=terms.salt,
            terms_before=before,
            terms_after=after,
        )

    @property
    def encoded(self) -> bytes:
        """Solidity's ABI of it, behind the word that says where it begins."""
        accounts = [address_bytes(one) for one in (self.payer, self.merchant, self.token, self.escrow, self.releaser)]
        payer, merchant, token, escrow, releaser = accounts
        before, after = _tail(self.terms_before), _tail(self.terms_after)
        times = (self.begins, self.period_seconds, self.periods, self.lock_seconds)
        head: list[int | bytes] = [payer, merchant, token, self.amount, self.least, escrow, releaser, *times, self.salt]
        places = _WORDS * 32, _WORDS * 32 + len(before)
        return b"".join(word(value) for value in [*head, *places]) + before + after

    @property
    def address(self) -> str:
        """The address that commits to it, whether it has its code or not: its salt is the hash of all of the mandate."""
        return proxy_address(EVM, address_bytes(MANDATES), keccak256(word(32) + self.encoded))

    @property
    def all(self) -> int:
        """All periods together, smallest unit."""
        return self.amount * self.periods

    @property
    def last(self) -> int:
        """The last second of the last period, UNIX: of the allowance, and in which the payer's signature is taken."""
        return self.begins + self.period_seconds * self.periods - 1

    def permit(self, chain_id: int, permit2: str) -> MandatePermit:
        """What the payer signs in the domain of a chain's Permit2, whatever anybody asks to be signed."""
        details = {"token": self.token, "amount": self.all, "expiration": self.last, "nonce": 0}
        typed_data: dict[str, Any] = {
            "domain": {"name": "Permit2", "chainId": chain_id, "verifyingContract": permit2},
            "types": _PERMIT_TYPES,
            "primaryType": "PermitSingle",
            "message": {"details": details, "spender": self.address, "sigDeadline": self.last},
        }
        return MandatePermit(typed_data, encode_typed_data(full_message=typed_data))

    def charge(self, chain_id: int, charge: Charge, said: Mapping[str, Any] | None = None) -> ChargeMessage:
        """What the merchant signs for a payment; `said` is what the submission says besides."""
        message = {
            "mandate": self.address,
            "paymentId": charge.payment_id,
            "fulfillmentAmount": charge.fulfillment_amount,
            "amount": charge.amount,
            "reserver": charge.reserver,
            "reserveDeadline": charge.reserve_deadline,
            "fulfillmentDeadline": charge.fulfillment_deadline,
            "refundAfter": charge.refund_after,
        }
        typed_data = _typed_data(chain_id, "Charge", _CHARGE_TYPES, message)
        return ChargeMessage(typed_data, encode_typed_data(full_message=typed_data), said or {})

    def cancellation(self, chain_id: int) -> MandateCancellation:
        """What the payer signs who has somebody else end it, by `cancel_mandate_call` with that signature."""
        typed_data = _typed_data(chain_id, "Cancellation", _CANCELLATION_TYPES, {"mandate": self.address})
        return MandateCancellation(typed_data, encode_typed_data(full_message=typed_data))


def _typed_data(chain_id: int, primary: str, types: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """Typed data in the contract's domain."""
    domain = {"name": "GatewayMandates", "version": "1", "chainId": chain_id, "verifyingContract": MANDATES}
    return {"domain": domain, "types": types, "primaryType": primary, "message": message}


def check_mandate(terms: MandateTerms, prepared: PreparedMandate) -> MandatePermit:
    """What the gateway asks to be signed for a mandate, where it is the payer's own. Nothing in it is the gateway's to choose,
    and its calls are not read: `cancel_mandate_call` and `allow_mandate_call` make them.

    Raises `MandateMismatch` with the member that differs, and other `NotSigned`.
    """
    mandate, payment = Mandate.of(terms), terms.payment
    _OWN.insist("message_scheme", BY_MANDATE, prepared["message_scheme"])
    _OWN.whole("mandate", dict(terms.body), prepared["mandate"])
    _OWN.insist("contract", MANDATES, prepared["contract"])
    _OWN.insist("address", mandate.address, prepared["address"])
    check_verifier("eip155", payment.releaser, prepared.get("fulfillment_verifier"))
    chain_id, _ = token_of(payment.order.source["asset_identifier"])
    rebuilt = mandate.permit(chain_id, payment.known_permit2())
    _OWN.typed_data(rebuilt, prepared["permit"], "permit", "Permit2's allowance")
    return rebuilt


def check_charge(terms: MandateTerms, prepared: PreparedPayment) -> ChargeMessage:
    """What the gateway asks the merchant to sign for a payment, where it is for the merchant's own order under this mandate. Of
    what the gateway says only the windows are taken, within limits.

    Raises `MandateMismatch` with the member that differs, and other `NotSigned`.
    """
    payment = terms.payment
    _OWN.insist("payment_id", payment.order.payment_id, prepared["payment_id"])
    insist_prepared(payment, prepared, BY_MANDATE)
    asked = only_message(prepared)
    shown = Shown.read(asked["message_prehash"], "a charge under a mandate")
    reserve_deadline = whole_number(shown.message.get("reserveDeadline"), "reserveDeadline")
    refund_after = whole_number(shown.message.get("refundAfter"), "refundAfter")
    rebuilt = rebuild_charge(terms, reserve_deadline, refund_after)
    _OWN.typed_data(rebuilt, asked, "signed_messages[0]", "a charge under a mandate")
    return rebuilt


def rebuild_charge(terms: MandateTerms, reserve_deadline: int, refund_after: int) -> ChargeMessage:
    """What the merchant signs for a payment with these windows. Raises `NotSigned` where they are not within limits."""
    charge = Charge.of(terms.payment, reserve_deadline, refund_after)
    chain_id, _ = token_of(terms.payment.order.source["asset_identifier"])
    said = {"reserve_deadline": reserve_deadline, "refund_after": refund_after, **terms.payload}
    return Mandate.of(terms).charge(chain_id, charge, said)


def cancel_mandate_call(mandate: Mandate, signature: bytes = b"") -> tuple[str, bytes]:
    """Receiver and data of the call by which payer or merchant ends a mandate for ever. Anyone else brings the payer's signature
    over `Mandate.cancellation`."""
    encoded = mandate.encoded
    return MANDATES, selector(_CANCEL) + word(2 * 32) + word(2 * 32 + len(encoded)) + encoded + _tail(signature)


def allow_mandate_call(mandate: Mandate, permit2: str) -> tuple[str, bytes]:
    """Receiver and data of the call by which a payer that is a contract, and signs nothing, gives the mandate's allowance at
    Permit2 itself. The merchant's payload then has no `permit`."""
    arguments: tuple[int | bytes, ...] = (address_bytes(mandate.token), address_bytes(mandate.address), mandate.all, mandate.last)
    return permit2, selector(_ALLOW) + b"".join(word(value) for value in arguments)


def give_back_mandate_call(mandate: Mandate, token: str) -> tuple[str, bytes]:
    """Receiver and data of the call by which anyone has sent to the payer what strangers sent to the mandate's address: all of
    `token`, or of the chain's coin by the zero address."""
    return MANDATES, selector(_GIVE_BACK) + word(2 * 32) + word(address_bytes(token)) + mandate.encoded


def sent_by_wallets(to: str, data: bytes) -> Call:
    """A call, as `eth_sendTransaction` takes it."""
    return {"to": to, "data": "0x" + data.hex(), "value": "0x0"}


def is_cancellation(call: Call) -> bool:
    """Whether a call is the contract's `cancel`."""
    begins = call["data"].startswith("0x" + selector(_CANCEL).hex())
    return call["to"].lower() == MANDATES and begins and int(call.get("value", "0x0"), 16) == 0


def _tail(data: bytes) -> bytes:
    """Bytes behind their length, in whole words."""
    return word(len(data)) + data + bytes(-len(data) % 32)
