"""A payer on Tron, with eth-account's keys and a node's HTTP API."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Protocol

from eth_account import Account

from ..errors import NodeError, NotDue, NotSigned
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
from ..node import asked_patiently, hex_bytes, objects
from ..permit2 import Permit
from ..schemas import ChainDefaults, PreparedPayment, SignedMessage
from ..trust import Limits, Terms
from ..wallet import Refund, Sent, Wallet, approvals, with_signatures
from .address import address_bytes, address_text, token_of
from .message import check
from .transaction import Call

POLL_SECONDS = 0.5
#: How long a transaction of the payer's own may be sent.
EXPIRATION_MS = 60_000
#: How long after that it may still be found in a block that this node has not seen yet.
EXPIRED_SECONDS = 30
#: The most TRX, in sun, that wrapping may burn for energy: `deposit()` of a wrapped coin takes far less.
WRAP_FEE_SUN = 30_000_000
#: The same of an allowance for Permit2.
APPROVE_FEE_SUN = 50_000_000
#: Blocks that a transaction may name.
REFERENCES = 1 << 16
_REFERENCE_ATTEMPTS = 5


class Signer(Protocol):
    """What signs: eth-account's `LocalAccount`, or whatever has these."""

    @property
    def address(self) -> Any:
        """The key's account as EVM chains write it."""

    def unsafe_sign_hash(self, message_hash: Any) -> Any:
        """Signs a transaction's id, or a message's digest; the answer has `signature`, 65 bytes."""


class TronWallet(Wallet):
    """A key and a node of the network that is paid on."""

    family = "tron"
    namespace = "tron"

    def __init__(self, signer: Signer, node: str, headers: Mapping[str, str] | None = None) -> None:
        """`node` is the address of its HTTP API, `headers` what it wants besides, such as `TRON-PRO-API-KEY`."""
        self._signer = signer
        self.node = node.rstrip("/")
        self._headers = dict(headers or {})
        self._own = hex_bytes(str(signer.address))

    @classmethod
    def from_key(cls, key: str, node: str, headers: Mapping[str, str] | None = None) -> TronWallet:
        """The wallet of a private key in hex."""
        return cls(Account.from_key(key.strip()), node, headers)

    @property
    def account(self) -> str:
        return address_text(self._own)

    def check_chain(self, chain_id: str, defaults: ChainDefaults) -> Flow[None]:
        # The network's number is the end of its first block's id.
        first = yield from self._block_id(0)
        if chain_id != f"tron:{number(first[28:])}":
            raise NodeError(f"the node at {self.node} is not of {chain_id}")

    def allow(self, terms: Terms, wrap: bool, needs_no_allowance: bool = False, allowance: int | None = None) -> Flow[Sent]:
        """Wraps coins, and gives Permit2 the allowance that is missing. That of the escrow, under the scheme without Permit2, is
        one of the messages that are signed with the payment."""
        sent = Sent()
        if needs_no_allowance and not wrap:
            return sent
        permit2 = None if needs_no_allowance else word(_address(terms.known_permit2()))
        token = _address(token_of(terms.order.source["asset_identifier"])[1])
        held = number((yield from self._read(token, "balanceOf(address)", word(self._own)))[:32])
        if held < terms.amount:
            if not wrap:
                # The gateway says what is missing; an allowance would burn TRX for nothing.
                return sent
            fee = min(terms.limits.fee_sun, WRAP_FEE_SUN)
            sent.wrapped.append((yield from self._send(token, selector("deposit()"), fee, terms.amount - held)))
        if permit2 is None:
            return sent
        standing = number((yield from self._read(token, ALLOWANCE, word(self._own) + permit2))[:32])
        fee = min(terms.limits.fee_sun, APPROVE_FEE_SUN)
        for amount in approvals(standing, terms.amount, allowance):
            sent.approvals.append((yield from self._send(token, selector(APPROVE) + permit2 + word(amount), fee)))
        return sent

    def signed(self, terms: Terms, prepared: PreparedPayment) -> Flow[list[SignedMessage]]:
        rebuilt = check(terms, prepared)
        if isinstance(rebuilt, Permit):
            return with_signatures(prepared, ["0x" + (yield from self._signature(rebuilt.digest)).hex()])
        for transaction in rebuilt.transactions:
            yield from self._insist_reference(transaction)
        signatures = []
        for transaction in rebuilt.transactions:
            signatures.append("0x" + (yield from self._signature(transaction.id)).hex())
        return with_signatures(prepared, signatures)

    def refund(self, escrow: str, payment_id: str, limits: Limits) -> Flow[Refund]:
        contract, payment = _address(escrow), on_chain(payment_id)
        record = Record.read((yield from self._read(contract, RECORD_OF, payment)))
        record.insist_open(payment_id)
        logs: list[Log] = []
        for block in {record.deposited_at, record.reserved_at} - {0}:
            logs += yield from self._logs(contract, block)
        terms = EscrowTerms.found(record, payment, logs)
        terms.insist_due((yield from self._now_ms()) // 1000)
        yield from self._read(contract, REFUND, terms.encoded)
        sent = yield from self._send(contract, selector(REFUND) + terms.encoded, limits.fee_sun)
        return Refund([sent], terms.deposited, address_text(terms.payer))

    def claim(self, escrow: str, token: str, owner: str, limits: Limits) -> Flow[Refund]:
        """Brings what waits in the escrow to its owner. Raises `NotDue` where nothing does."""
        contract, parties = _address(escrow), word(_address(owner)) + word(_address(token))
        amount = number((yield from self._read(contract, CLAIMABLE, parties))[:32])
        if not amount:
            raise NotDue(f"nothing of {token} waits for {owner}")
        return Refund([(yield from self._send(contract, selector(CLAIM_FOR) + parties, limits.fee_sun))], amount, owner)

    def _insist_reference(self, transaction: Call) -> Flow[None]:
        """Whether the block that a transaction names is one of this network: on another one it would be taken, too."""
        for _ in range(_REFERENCE_ATTEMPTS):
            head = yield from self._head()
            named = head - (head - number(transaction.ref_block_bytes)) % REFERENCES
            if named >= 0 and (yield from self._block_id(named))[8:16] == transaction.ref_block_hash:
                return
            # This node may be behind the gateway's.
            yield from sleep(POLL_SECONDS)
        raise NotSigned("the transaction names a block of another network")

    def _signature(self, digest: bytes) -> Flow[bytes]:
        given = yield from outside(lambda: self._signer.unsafe_sign_hash(digest))
        return bytes(given.signature)

    def _send(self, contract: bytes, data: bytes, fee_sun: int, value_sun: int = 0) -> Flow[str]:
        """Sends a call, and waits until it is in a block and has had its effect."""
        block = yield from self._ask("/walletsolidity/getnowblock", {})
        header, id = _header(block)
        now_ms = yield from self._now_ms()
        transaction = Call(
            owner=self._own,
            contract=contract,
            data=data,
            value_sun=value_sun,
            fee_limit_sun=fee_sun,
            ref_block_bytes=_whole(header.get("number", 0)).to_bytes(8, "big")[6:],
            ref_block_hash=id[8:16],
            expiration_ms=now_ms + EXPIRATION_MS,
            timestamp_ms=now_ms,
        )
        signed = transaction.signed((yield from self._signature(transaction.id)))
        hash = transaction.id.hex()
        answer = yield from self._ask("/wallet/broadcasthex", {"transaction": signed.hex()})
        # A node that was asked twice has it already.
        if answer.get("result") is not True and answer.get("code") != "DUP_TRANSACTION_ERROR":
            raise NodeError(f"the transaction {hash} is refused: {answer.get('code')} {str(answer.get('message'))[:300]}")
        until = time.monotonic() + EXPIRATION_MS / 1000 + EXPIRED_SECONDS
        while True:
            info = yield from self._ask("/wallet/gettransactioninfobyid", {"value": hash})
            if info.get("id"):
                receipt = info.get("receipt")
                if not isinstance(receipt, dict) or receipt.get("result") != "SUCCESS":
                    raise NodeError(f"the transaction {hash} is on chain and failed: {str(info)[:300]}")
                return hash
            if time.monotonic() > until:
                raise NodeError(f"the transaction {hash} was dropped")
            yield from sleep(POLL_SECONDS)

    def _read(self, contract: bytes, signature: str, arguments: bytes) -> Flow[bytes]:
        """What a call would answer. Raises `NodeError` where the contract refuses it."""
        body = {
            "owner_address": "41" + self._own.hex(),
            "contract_address": "41" + contract.hex(),
            "function_selector": signature,
            "parameter": arguments.hex(),
            "visible": False,
        }
        answer = yield from self._ask("/wallet/triggerconstantcontract", body)
        result, words = answer.get("result"), answer.get("constant_result")
        if not isinstance(result, dict) or result.get("result") is not True or result.get("message"):
            raise NodeError(f"the contract refuses {signature.partition('(')[0]}: {str(result)[:300]}")
        return hex_bytes(words[0] if isinstance(words, list) and words else None)

    def _logs(self, contract: bytes, block: int) -> Flow[list[Log]]:
        infos = yield from self._ask_any("/wallet/gettransactioninfobyblocknum", {"num": block})
        logs = [log for info in objects(infos) for log in objects(info.get("log", []))]
        return [Log.read(log) for log in logs if log.get("address") == contract.hex()]

    def _block_id(self, block: int) -> Flow[bytes]:
        return _header((yield from self._ask("/wallet/getblockbynum", {"num": block})))[1]

    def _head(self) -> Flow[int]:
        return _whole(_header((yield from self._ask("/wallet/getnowblock", {})))[0].get("number", 0))

    def _now_ms(self) -> Flow[int]:
        return _whole(_header((yield from self._ask("/wallet/getnowblock", {})))[0].get("timestamp"))

    def _ask(self, path: str, body: Mapping[str, Any]) -> Flow[dict[str, Any]]:
        answer = yield from self._ask_any(path, body)
        if not isinstance(answer, dict) or "Error" in answer:
            raise NodeError(f"{path}: {str(answer)[:300]}")
        return answer

    def _ask_any(self, path: str, body: Mapping[str, Any]) -> Flow[Any]:
        return (yield from asked_patiently(self.node + path, body, self._headers))


def _header(block: Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
    """What a block says of itself, and its id."""
    header, id = block.get("block_header"), block.get("blockID")
    raw = header.get("raw_data") if isinstance(header, dict) else None
    if not isinstance(raw, dict) or not isinstance(id, str) or not re.fullmatch("[0-9a-fA-F]{64}", id):
        raise NodeError("the node does not show the block that was asked for")
    return raw, bytes.fromhex(id)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise NodeError(f"the node says {str(value)[:60]}, which is not a number")
    return value


def _address(text: str) -> bytes:
    try:
        return address_bytes(text)
    except ValueError as fault:
        raise NodeError(str(fault)) from None
