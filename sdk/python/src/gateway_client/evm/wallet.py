"""A payer on an EVM chain, with eth-account and a node."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from eth_account import Account

from ..errors import LimitExceeded, NodeError, NotDue, NotSigned
from ..escrow_abi import (
    ALLOWANCE,
    APPROVE,
    CLAIM_FOR,
    CLAIMABLE,
    RECORD_OF,
    REFUND,
    EscrowTerms,
    Log,
    Record,
    number,
    selector,
    word,
)
from ..flow import Flow, outside, sleep
from ..keccak import on_chain
from ..mandate_terms import MandateTerms
from ..node import JsonRpc, hex_bytes, objects, quantity
from ..schemas import (
    ChainDefaults,
    PreparedMandate,
    PreparedPayment,
    PreparedPaymentBatch,
    SignedMessage,
)
from ..trust import BatchTerms, Limits, Terms
from ..typed import Message
from ..wallet import Call, Refund, Sent, Wallet, approvals
from .address import token_of
from .batches import check_batch
from .mandates import check_charge, check_mandate, rebuild_charge, sent_by_wallets
from .messages import check_messages

POLL_SECONDS = 0.5
#: How long a transaction of the payer's own may take into a block.
RECEIPT_SECONDS = 180.0


class Signer(Protocol):
    """What signs: eth-account's `LocalAccount`, or whatever has these."""

    @property
    def address(self) -> Any:
        """The account, 0x and 40 digits."""

    def sign_message(self, signable_message: Any) -> Any:
        """Signs typed data; the answer has `signature`."""

    def sign_transaction(self, transaction_dict: Any) -> Any:
        """Signs a transaction; the answer has `raw_transaction` and `hash`."""


class EvmWallet(Wallet):
    """A key and a node of the chain that is paid on."""

    family = "evm"
    namespace = "eip155"

    def __init__(self, signer: Signer, node: str, headers: Mapping[str, str] | None = None) -> None:
        """`node` is the address of its JSON-RPC, `headers` what it wants besides, such as a key."""
        self._signer = signer
        self.node = JsonRpc(node, headers)

    @classmethod
    def from_key(cls, key: str, node: str, headers: Mapping[str, str] | None = None) -> EvmWallet:
        """The wallet of a private key in hex."""
        return cls(Account.from_key(key.strip()), node, headers)

    @property
    def account(self) -> str:
        return str(self._signer.address).lower()

    def check_chain(self, chain_id: str, defaults: ChainDefaults) -> Flow[None]:
        found = yield from self.node.number("eth_chainId")
        if chain_id != f"eip155:{found}":
            raise NodeError(f"the node at {self.node.url} is not of {chain_id}")

    def allow(self, terms: Terms, wrap: bool, needs_no_allowance: bool = False, allowance: int | None = None) -> Flow[Sent]:
        chain_id, token = token_of(terms.order.source["asset_identifier"])
        sending = _Sending(self, chain_id, terms.limits)
        wrapped, approved = [], []
        if wrap:
            held = yield from self._read(token, "balanceOf(address)", word(_address(self.account)))
            if held < terms.amount:
                wrapped.append((yield from sending.send(token, selector("deposit()"), terms.amount - held)))
        if needs_no_allowance:
            return Sent(wrapped)
        for data in (yield from self._approvals(terms, token, allowance)):
            approved.append((yield from sending.send(token, data)))
        return Sent(wrapped, approved)

    def approval_calls(self, terms: Terms, allowance: int | None = None) -> Flow[list[Call]]:
        _, token = token_of(terms.order.source["asset_identifier"])
        missing = yield from self._approvals(terms, token, allowance)
        return [sent_by_wallets(token, data) for data in missing]

    def _approvals(self, terms: Terms, token: str, allowance: int | None) -> Flow[list[bytes]]:
        """The data of the token's calls by which Permit2 gets the allowance that it lacks."""
        permit2 = word(_address(terms.known_permit2()))
        standing = yield from self._read(token, ALLOWANCE, word(_address(self.account)) + permit2)
        return [selector(APPROVE) + permit2 + word(amount) for amount in approvals(standing, terms.amount, allowance)]

    def send_call(self, call: Call, limits: Limits) -> Flow[str]:
        sending = _Sending(self, (yield from self.node.number("eth_chainId")), limits)
        return (yield from sending.send(call["to"], hex_bytes(call["data"]), int(call.get("value", "0x0"), 16)))

    def signed(self, terms: Terms, prepared: PreparedPayment) -> Flow[list[SignedMessage]]:
        signed: list[SignedMessage] = []
        rebuilt = check_messages(terms, prepared)
        for asked, message in zip(prepared["signed_messages"], rebuilt, strict=True):
            given = yield from self._signature(message)
            signed.append({**asked, "payload": {**asked["payload"], **message.payload}, "signature": given})
        return signed

    def check_batch(self, batch: BatchTerms, prepared: PreparedPaymentBatch) -> None:
        check_batch(batch, prepared)

    def signed_batch(self, batch: BatchTerms, prepared: PreparedPaymentBatch) -> Flow[list[SignedMessage]]:
        message = check_batch(batch, prepared)
        given = yield from self._signature(message)
        # The gateway makes the typed data of the payments, and bodies have a limit.
        return [{"message": "0x" + message.digest.hex(), "signature": given}]

    def check_mandate(self, terms: MandateTerms, prepared: PreparedMandate) -> None:
        check_mandate(terms, prepared)

    def signed_mandate(self, terms: MandateTerms, prepared: PreparedMandate) -> Flow[str]:
        return (yield from self._signature(check_mandate(terms, prepared)))

    def signed_charge(self, terms: MandateTerms, prepared: PreparedPayment | None) -> Flow[list[SignedMessage]]:
        fulfilled, delay = terms.payment.fulfillment_deadline, terms.payment.refund_delay_seconds
        message = check_charge(terms, prepared) if prepared else rebuild_charge(terms, fulfilled, fulfilled + delay)
        given = yield from self._signature(message)
        signed: SignedMessage = {"message": "0x" + message.digest.hex(), "payload": dict(message.payload), "signature": given}
        return [{**prepared["signed_messages"][0], **signed} if prepared else signed]

    def _signature(self, message: Message) -> Flow[str]:
        given = yield from outside(lambda: self._signer.sign_message(message.signable))
        return "0x" + bytes(given.signature).hex()

    def refund(self, escrow: str, payment_id: str, limits: Limits) -> Flow[Refund]:
        payment = on_chain(payment_id)
        record = Record.read((yield from self._call(escrow, selector(RECORD_OF) + payment)))
        record.insist_open(payment_id)
        logs: list[Log] = []
        for block in {record.deposited_at, record.reserved_at} - {0}:
            logs += yield from self._logs(escrow, payment, block, block)
        terms = EscrowTerms.found(record, payment, logs)
        latest = yield from self.node.call("eth_getBlockByNumber", "latest", False)
        terms.insist_due(quantity(latest["timestamp"] if isinstance(latest, dict) else None))
        sending = _Sending(self, (yield from self.node.number("eth_chainId")), limits)
        sent = yield from sending.send(escrow, selector(REFUND) + terms.encoded)
        return Refund([sent], terms.deposited, "0x" + terms.payer.hex())

    def claim(self, escrow: str, token: str, owner: str, limits: Limits) -> Flow[Refund]:
        """Brings what waits in the escrow to its owner. Raises `NotDue` where nothing does."""
        parties = word(_address(owner)) + word(_address(token))
        amount = yield from self._read(escrow, CLAIMABLE, parties)
        if not amount:
            raise NotDue(f"nothing of {token} waits for {owner}")
        sending = _Sending(self, (yield from self.node.number("eth_chainId")), limits)
        sent = yield from sending.send(escrow, selector(CLAIM_FOR) + parties)
        return Refund([sent], amount, owner)

    def _logs(self, escrow: str, payment: bytes, first: int, last: int) -> Flow[list[Log]]:
        asked = {
            "address": escrow,
            "fromBlock": hex(first),
            "toBlock": hex(last),
            "topics": [None, "0x" + payment.hex()],
        }
        found = yield from self.node.call("eth_getLogs", asked)
        return [Log.read(log) for log in objects(found)]

    def _read(self, contract: str, signature: str, arguments: bytes) -> Flow[int]:
        return number((yield from self._call(contract, selector(signature) + arguments))[:32])

    def _call(self, contract: str, data: bytes) -> Flow[bytes]:
        answer = yield from self.node.call("eth_call", {"to": contract, "data": "0x" + data.hex()}, "latest")
        value = hex_bytes(answer)
        if not value:
            raise NodeError(f"there is no contract at {contract}, or it does not have this call")
        return value


class _Sending:
    """Sends transactions of the payer's own. The node says nonce, gas and fees alone, and what these come to is bounded."""

    def __init__(self, wallet: EvmWallet, chain_id: int, limits: Limits) -> None:
        self._wallet = wallet
        self._chain_id = chain_id
        self._fee_wei_max = limits.fee_wei

    def send(self, to: str, data: bytes, value: int = 0) -> Flow[str]:
        """Sends a call, and waits until it is in a block and has had its effect."""
        wallet, node = self._wallet, self._wallet.node
        written = {"from": wallet.account, "to": to, "data": "0x" + data.hex(), "value": hex(value)}
        tip = yield from node.number("eth_maxPriorityFeePerGas")
        latest = yield from node.call("eth_getBlockByNumber", "latest", False)
        per_gas = 2 * quantity(latest.get("baseFeePerGas") if isinstance(latest, dict) else None) + tip
        gas = (yield from node.number("eth_estimateGas", written)) * 5 // 4
        fee = gas * per_gas
        if fee > self._fee_wei_max:
            message = f"a transaction to {to} could cost {fee} wei by what the node says, and {self._fee_wei_max} are allowed"
            raise LimitExceeded(message, "fee_wei", fee, self._fee_wei_max)
        transaction = {
            # eth-account takes no `from`, and an address in its mixed-case form or as bytes only.
            "to": _address(to),
            "data": written["data"],
            "value": value,
            "chainId": self._chain_id,
            "type": 2,
            "nonce": (yield from node.number("eth_getTransactionCount", wallet.account, "pending")),
            "gas": gas,
            "maxPriorityFeePerGas": tip,
            "maxFeePerGas": per_gas,
        }
        signed = yield from outside(lambda: wallet._signer.sign_transaction(transaction))
        hash = "0x" + bytes(signed.hash).hex()
        until = time.monotonic() + RECEIPT_SECONDS
        refused: NodeError | None = None
        try:
            yield from node.call("eth_sendRawTransaction", "0x" + bytes(signed.raw_transaction).hex())
        except NodeError as fault:
            # A node that was asked twice refuses the second time: then it has it.
            refused = fault
        while not (receipt := (yield from node.call("eth_getTransactionReceipt", hash))):
            if refused and not (yield from node.call("eth_getTransactionByHash", hash)):
                raise refused
            if time.monotonic() > until:
                raise NodeError(f"the transaction {hash} is in no block")
            yield from sleep(POLL_SECONDS)
        if quantity(receipt.get("status") if isinstance(receipt, dict) else None) != 1:
            raise NodeError(f"the transaction {hash} reverted")
        return hash


def _address(text: str) -> bytes:
    """The twenty bytes of an address."""
    digits = text.removeprefix("0x")
    if len(digits) != 40:
        raise NotSigned(f"{text} is not an address")
    return bytes.fromhex(digits)
