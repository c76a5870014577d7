"""What a payer on an EVM chain signs for many payments at once: Permit2's batch transfer, whose witness is their escrow and their
Merkle root. Whoever signs it agrees to what is under the root, so the root is made of the payer's own orders, and nothing of it
is read from the gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eth_account.messages import encode_typed_data

from ..create2 import proxy_address
from ..errors import BatchMismatch
from ..escrow_abi import deposit_of, selector, typed_fields, word
from ..keccak import keccak256
from ..schemas import PreparedPaymentBatch
from ..schemes import BY_BATCH
from ..trust import BatchTerms, Terms
from ..typed import Comparison, Message
from .address import address_bytes, token_of
from .addresses import EVM, AddressTerms

#: The contract that draws batches, and brings what it draws nowhere but into the escrow that was signed, or back. It is at one
#: address on every chain, which follows from its code alone; whom another spender pays is its own affair, so none is taken from
#: the gateway.
PAYMENT_BATCHES = "0xd435ce48aea0b68f80bc2fe11a245f4c29d2260d"
#: What the address of each batch runs: the contract's first creation.
BATCH_IMPLEMENTATION = "0xe1ed4548784b2d88277776246fcdc0d2af959a87"
#: Most tokens of a batch.
TOKENS_MAX = 8

_PRIMARY = "PermitBatchWitnessTransferFrom"
_TYPES = {
    "EIP712Domain": typed_fields("string name,uint256 chainId,address verifyingContract"),
    _PRIMARY: typed_fields("TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline,PaymentBatch witness"),
    "PaymentBatch": typed_fields("address escrow,bytes32 payments"),
    "TokenPermissions": typed_fields("address token,uint256 amount"),
}
_OWN = Comparison(BatchMismatch)
_GIVE_BACK = "giveBack((address,(address,uint256)[],address,uint256,uint256,bytes32),address)"


class BatchPermit(Message):
    """Permit2's transfer for a batch of payments."""


@dataclass(frozen=True)
class Batch:
    """A batch, as the contract has it."""

    payer: str
    #: The tokens in ascending order, and how much of each is drawn, in its smallest unit.
    permitted: Sequence[tuple[str, int]]
    #: Where all payments are deposited: once it is drawn the money goes there or back.
    escrow: str
    nonce: int
    #: Last second of the deposits, UNIX: from the next on what is left is given back.
    deadline: int
    #: Root of the payments.
    payments: bytes

    @classmethod
    def of(cls, batch: BatchTerms) -> Batch:
        """The batch of these payments. Its nonce is its root, so that one batch is drawn once, whoever signs it again.

        Raises `ValueError` where the payments have not one payer, chain and escrow, or too many tokens.
        """
        first = batch.payments[0]
        sums: dict[str, int] = {}
        for terms in batch.payments:
            _, token = token_of(terms.order.source["asset_identifier"])
            if _of_all(terms) != _of_all(first):
                raise ValueError("the payments of a batch have one payer, chain, escrow and Permit2")
            sums[token] = sums.get(token, 0) + terms.amount
        if len(sums) > TOKENS_MAX:
            raise ValueError(f"a batch draws {TOKENS_MAX} tokens at most, and not {len(sums)}")
        permitted = sorted(sums.items(), key=lambda drawn: address_bytes(drawn[0]))
        root = payment_root([payment_leaf(_address_terms(terms, batch.reserve_deadline)) for terms in batch.payments])
        number = int.from_bytes(root, "big")
        return cls(first.order.account, permitted, first.escrow, number, batch.reserve_deadline, root)

    @property
    def encoded(self) -> bytes:
        """Solidity's ABI of it, behind the word that says where it begins."""
        payer, escrow = address_bytes(self.payer), address_bytes(self.escrow)
        head: list[int | bytes] = [payer, 6 * 32, escrow, self.nonce, self.deadline, self.payments, len(self.permitted)]
        tokens = [part for token, amount in self.permitted for part in (address_bytes(token), amount)]
        return b"".join(word(value) for value in [*head, *tokens])

    @property
    def address(self) -> str:
        """Where its money is between its first deposit and its last, whether the address has its code or not."""
        return proxy_address(EVM, address_bytes(PAYMENT_BATCHES), keccak256(word(32) + self.encoded))

    def permit(self, chain_id: int, permit2: str) -> BatchPermit:
        """What is signed for it in the domain of a chain's Permit2, whatever anybody asks to be signed."""
        typed_data: dict[str, Any] = {
            "domain": {"name": "Permit2", "chainId": chain_id, "verifyingContract": permit2},
            "types": _TYPES,
            "primaryType": _PRIMARY,
            "message": {
                "permitted": [{"token": token, "amount": amount} for token, amount in self.permitted],
                "spender": PAYMENT_BATCHES,
                "nonce": self.nonce,
                "deadline": self.deadline,
                "witness": {"escrow": self.escrow, "payments": self.payments},
            },
        }
        return BatchPermit(typed_data, encode_typed_data(full_message=typed_data))


def _of_all(terms: Terms) -> tuple[object, ...]:
    return terms.order.account, terms.order.chain_id, terms.escrow.lower(), terms.permit2


def _address_terms(terms: Terms, reserve_deadline: int) -> AddressTerms:
    """A payment under the root of its batch: its cap, which is deposited whole, and what a payer who signs for it alone signs."""
    if any(terms.quote_hash):
        raise ValueError("a payment of a batch is for no quote")
    refund_after = terms.fulfillment_deadline + terms.refund_delay_seconds
    terms.check_windows(reserve_deadline, refund_after)
    _, token = token_of(terms.order.source["asset_identifier"])
    deposit = deposit_of(terms, reserve_deadline, refund_after)
    return AddressTerms(escrow=terms.escrow, token=token, amount=terms.amount, deposit=deposit)


def payment_leaf(terms: AddressTerms) -> bytes:
    """The leaf of a payment. It is hashed twice, so that no pair of hashes is one."""
    return keccak256(keccak256(terms.encoded))


def payment_root(leaves: Sequence[bytes]) -> bytes:
    """The root of a tree with these leaves: neighbours are hashed as pairs, the lesser one first, level by level; who has no
    neighbour goes up as it is. Raises `ValueError` where there are none."""
    if not leaves:
        raise ValueError("a batch has a payment")
    level = list(leaves)
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [keccak256(b"".join(sorted(pair))) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def check_batch(batch: BatchTerms, prepared: PreparedPaymentBatch) -> BatchPermit:
    """What the gateway asks to be signed for a batch, where it is the payer's own. Nothing in it is the gateway's to choose.

    Raises `BatchMismatch` with the member that differs, and other `NotSigned`.
    """
    messages, shown_payments = prepared["signed_messages"], prepared["payments"]
    _OWN.insist("message_scheme", BY_BATCH, prepared["message_scheme"])
    _OWN.insist("signed_messages.length", 1, len(messages))
    _OWN.insist("payments.length", len(batch.payments), len(shown_payments))
    for at, (terms, one) in enumerate(zip(batch.payments, shown_payments, strict=True)):
        payment_id = one.get("payment_id") if isinstance(one, Mapping) else None
        _OWN.insist(f"payments[{at}].payment_id", terms.order.payment_id, payment_id)
    _OWN.insist("reserve_deadline", batch.reserve_deadline, prepared["reserve_deadline"])
    [asked] = messages
    first = batch.payments[0]
    chain_id, _ = token_of(first.order.source["asset_identifier"])
    rebuilt = Batch.of(batch).permit(chain_id, first.known_permit2())
    _OWN.typed_data(rebuilt, asked, "signed_messages[0]", "Permit2's transfer for a batch")
    return rebuilt


def give_back_batch_call(batch: Batch, token: str) -> tuple[str, bytes]:
    """Receiver and data of the call by which anyone has sent to the payer what is left at the batch's address after its deadline:
    all of `token`, or of the chain's coin by the zero address. The gateway does it by itself."""
    return PAYMENT_BATCHES, selector(_GIVE_BACK) + word(2 * 32) + word(address_bytes(token)) + batch.encoded
