"""What a payer on Solana signs: the digest of the deposit's terms, rebuilt and compared. contracts/solana/README.md is the
reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from solders.pubkey import Pubkey

from ..errors import NotSigned
from ..escrow_abi import deposit_of
from ..schemas import PreparedPayment
from ..trust import Terms, whole_number
from ..verifiers import account_bytes
from ..wallet import insist_prepared, only_message

SCHEME = "SOLANA"
PREFIX = b"gw-escrow"
#: Version of what is signed.
DOMAIN_VERSION = 1
_KIND_DEPOSIT = 0


@dataclass(frozen=True)
class Deposit:
    """What has to be signed, as it was rebuilt."""

    preimage: bytes
    #: The program's address that the payer's allowance has to be given to.
    delegate: Pubkey

    @property
    def digest(self) -> bytes:
        """What the Ed25519 signature is over."""
        return sha256(self.preimage).digest()


def mint_of(asset_identifier: str) -> Pubkey:
    """The mint of a token."""
    chain, found, token = asset_identifier.partition("/token:")
    try:
        if found and chain.startswith("solana:"):
            return Pubkey.from_string(token)
    except ValueError:
        pass
    raise ValueError(f"{asset_identifier} is not a token of Solana, solana:…/token:…")


def delegate_of(program: Pubkey, signer: Pubkey) -> Pubkey:
    """The program's address that draws on the tokens of whoever `signer` signs for."""
    return Pubkey.find_program_address([b"delegate", bytes(signer)], program)[0]


def encoded(deposit: Mapping[str, Any], mint: Pubkey, amount: int) -> bytes:
    """A deposit's terms as the program reads them.

    :param deposit: of `deposit_of`, with accounts in Base58.

    Raises `ValueError` where an account is none of Solana, or a number has more than 64 bits.
    """
    payer, reserver, releaser = (account_bytes("solana", deposit[name]) for name in ("payer", "reserver", "releaser"))
    return b"".join(
        [
            bytes([_KIND_DEPOSIT]),
            deposit["paymentId"],
            deposit["termsHash"],
            deposit["quoteHash"],
            payer,
            bytes(mint),
            _u64(amount, "max_source_amount"),
            reserver,
            releaser,
            *(_u64(deposit[name], name) for name in ("reserveDeadline", "fulfillmentDeadline", "refundAfter")),
        ]
    )


def rebuild(terms: Terms, reserve_deadline: int, refund_after: int) -> Deposit:
    """The message of these terms and windows."""
    order = terms.order
    if terms.cluster_id is None:
        raise NotSigned("the gateway does not say which cluster the signature is for")
    cluster, program, payer = (_key(account) for account in (terms.cluster_id, terms.escrow, order.account))
    deposit = deposit_of(terms, reserve_deadline, refund_after)
    body = encoded(deposit, mint_of(order.source["asset_identifier"]), terms.amount)
    domain = PREFIX + bytes([DOMAIN_VERSION]) + bytes(cluster) + bytes(program)
    return Deposit(domain + body, delegate_of(program, payer))


def check(terms: Terms, prepared: PreparedPayment) -> Deposit:
    """The message that the gateway asks to be signed, where it is the payer's own. Of what the gateway says only the windows are
    taken, within limits.

    Raises `NotSigned`.
    """
    insist_prepared(terms, prepared, SCHEME)
    message = only_message(prepared)
    payload = message["payload"]
    reserve_deadline = whole_number(payload.get("reserve_deadline"), "reserve_deadline")
    refund_after = whole_number(payload.get("refund_after"), "refund_after")
    terms.check_windows(reserve_deadline, refund_after)
    rebuilt = rebuild(terms, reserve_deadline, refund_after)
    if message["message_prehash"] != "0x" + rebuilt.preimage.hex() or message["message"] != "0x" + rebuilt.digest.hex():
        raise NotSigned("the gateway asks for a signature over something else")
    if payload.get("allowance_delegate") != str(rebuilt.delegate):
        raise NotSigned("the allowance would have to go elsewhere")
    if "delegate_signer" in payload:
        raise NotSigned("the gateway names another signer")
    return rebuilt


def _u64(value: int, name: str) -> bytes:
    if value >= 2**64:
        raise ValueError(f"{name} has more than 64 bits, and no number on Solana has so many")
    return value.to_bytes(8, "little")


def _key(text: str) -> Pubkey:
    try:
        return Pubkey.from_string(text)
    except ValueError:
        raise NotSigned(f"{text[:60]} is not an account of Solana") from None
