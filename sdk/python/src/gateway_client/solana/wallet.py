"""A payer on Solana, with solders and a node."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Protocol

from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import Transaction

from ..errors import NodeError, NotDue, NotSigned
from ..flow import Flow, outside, sleep
from ..keccak import on_chain
from ..node import JsonRpc
from ..schemas import ChainDefaults, PreparedPayment, SignedMessage
from ..trust import Limits, Terms
from ..wallet import Refund, Sent, Wallet, with_signatures
from . import message as deposit_message
from . import program

POLL_SECONDS = 0.4
_CONFIRMED = {"commitment": "confirmed"}


class Signer(Protocol):
    """What signs: solders' `Keypair`, or whatever has these."""

    def pubkey(self) -> Pubkey:
        """The account."""

    def sign_message(self, message: bytes) -> Signature:
        """An Ed25519 signature over the bytes."""


class SolanaWallet(Wallet):
    """A key and a node of the cluster that is paid on. Its own transactions have one signature and no priority fee."""

    family = "solana"
    namespace = "solana"

    def __init__(self, signer: Signer, node: str, headers: Mapping[str, str] | None = None) -> None:
        """`node` is the address of its JSON-RPC, `headers` what it wants besides, such as a key."""
        self._signer = signer
        self.node = JsonRpc(node, headers)

    @classmethod
    def from_key(cls, key: str, node: str, headers: Mapping[str, str] | None = None) -> SolanaWallet:
        """The wallet of a keypair: a JSON array of 64 numbers, as `solana-keygen` writes it, or Base58."""
        text = key.strip()
        keypair = Keypair.from_bytes(bytes(json.loads(text))) if text.startswith("[") else Keypair.from_base58_string(text)
        return cls(keypair, node, headers)

    @property
    def account(self) -> str:
        return str(self._signer.pubkey())

    def check_chain(self, chain_id: str, defaults: ChainDefaults) -> Flow[None]:
        cluster = yield from self.node.call("getGenesisHash")
        if not isinstance(cluster, str) or chain_id != f"solana:{cluster[:32]}":
            raise NodeError(f"the node at {self.node.url} is not of {chain_id}")
        if cluster != defaults.get("signature_cluster_id"):
            raise NotSigned("the gateway asks for signatures for another cluster")

    def allow(self, terms: Terms, wrap: bool, needs_no_allowance: bool = False, allowance: int | None = None) -> Flow[Sent]:
        own = self._signer.pubkey()
        mint = deposit_message.mint_of(terms.order.source["asset_identifier"])
        delegate = deposit_message.delegate_of(Pubkey.from_string(terms.escrow), own)
        token_program = yield from self._token_program(mint)
        account = yield from self._data(program.token_account(own, token_program, mint))
        held = program.TokenAccount.read(account) if account else None
        instructions: list[Instruction] = []
        is_wrapping = False
        if wrap:
            if mint != program.NATIVE_MINT:
                raise NotSigned(f"{mint} is not wrapped SOL")
            missing = terms.amount - (held.amount if held else 0)
            if is_wrapping := missing > 0:
                instructions += program.wrap(own, missing)
        if held is None or held.delegate != delegate or held.delegated_amount < terms.amount:
            amount = terms.amount if allowance is None else allowance
            instructions.append(program.approve(own, token_program, mint, delegate, amount))
        if not instructions:
            return Sent()
        # One transaction: coins are wrapped and lent out, or neither.
        sent = yield from self._send(instructions)
        return Sent([sent] if is_wrapping else [], [sent])

    def signed(self, terms: Terms, prepared: PreparedPayment) -> Flow[list[SignedMessage]]:
        rebuilt = deposit_message.check(terms, prepared)
        signature = yield from outside(lambda: self._signer.sign_message(rebuilt.digest))
        return with_signatures(prepared, ["0x" + bytes(signature).hex()])

    def refund(self, escrow: str, payment_id: str, limits: Limits) -> Flow[Refund]:
        own, program_id, payment = self._signer.pubkey(), Pubkey.from_string(escrow), on_chain(payment_id)
        data = yield from self._data(program.Escrow.addresses(program_id, payment)[0], program_id)
        if data is None:
            raise NotDue(f"the program has no deposit of {payment_id}")
        found = program.Escrow.read(program_id, payment, data)
        clock = yield from self._data(program.CLOCK)
        found.insist_due(program.clock_time(clock or b""))
        make = program.create_token_account(own, found.payer, found.token_program, found.mint)
        sent = yield from self._send([make, found.refund(program_id)])
        return Refund([sent], found.deposited, str(found.payer))

    def _token_program(self, mint: Pubkey) -> Flow[Pubkey]:
        if mint == program.NATIVE_MINT:
            return program.TOKEN_PROGRAM
        value = yield from self._account(mint)
        owner = value.get("owner") if value else None
        for known in (program.TOKEN_PROGRAM, program.TOKEN_2022_PROGRAM):
            if owner == str(known):
                return known
        raise NodeError(f"there is no token {mint}")

    def _account(self, address: Pubkey) -> Flow[dict[str, Any] | None]:
        answer = yield from self.node.call("getAccountInfo", str(address), {"encoding": "base64", **_CONFIRMED})
        value = answer.get("value") if isinstance(answer, dict) else None
        return value if isinstance(value, dict) else None

    def _data(self, address: Pubkey, owner: Pubkey | None = None) -> Flow[bytes | None]:
        """What lies at an address; nothing where it is not the owner's."""
        value = yield from self._account(address)
        if value is None or (owner is not None and value.get("owner") != str(owner)):
            return None
        try:
            return base64.b64decode(value["data"][0], validate=True)
        except (KeyError, IndexError, TypeError, ValueError):
            raise NodeError(f"the node does not say what lies at {address}") from None

    def _send(self, instructions: list[Instruction]) -> Flow[str]:
        """Sends a transaction, and waits until it is confirmed."""
        own = self._signer.pubkey()
        latest = yield from self.node.call("getLatestBlockhash", _CONFIRMED)
        try:
            blockhash, last_height = Hash.from_string(latest["value"]["blockhash"]), int(latest["value"]["lastValidBlockHeight"])
        except (KeyError, TypeError, ValueError):
            raise NodeError("the node does not say its latest blockhash") from None
        built = Message.new_with_blockhash(instructions, own, blockhash)
        signature = yield from outside(lambda: self._signer.sign_message(bytes(built)))
        encoded = base64.b64encode(bytes(Transaction.populate(built, [signature]))).decode()
        options = {"encoding": "base64", "preflightCommitment": "confirmed"}
        yield from self.node.call("sendTransaction", encoded, options)
        while True:
            answer = yield from self.node.call("getSignatureStatuses", [str(signature)])
            statuses = answer.get("value") if isinstance(answer, dict) else None
            status = statuses[0] if isinstance(statuses, list) and statuses else None
            if isinstance(status, dict):
                if status.get("err") is not None:
                    raise NodeError(f"the transaction {signature} failed: {str(status['err'])[:300]}")
                if status.get("confirmationStatus") in ("confirmed", "finalized"):
                    return str(signature)
            height = yield from self.node.call("getBlockHeight", _CONFIRMED)
            if not isinstance(height, int) or height > last_height:
                raise NodeError(f"the transaction {signature} was dropped")
            yield from sleep(POLL_SECONDS)
