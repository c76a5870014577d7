"""What a payer on Solana signs: the digest of the deposit's terms, rebuilt and compared. contracts/solana/README.md is the
reference."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from solders.pubkey import Pubkey

from ..errors import NotSigned
from ..keccak import on_chain
from ..schemas import PreparedPayment
from ..trust import Terms, whole_number
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
    if not found or not chain.startswith("solana:"):
        raise ValueError(f"{asset_identifier} is not a token of Solana, solana:…/token:…")
    return Pubkey.from_string(token)


def delegate_of(program: Pubkey, signer: Pubkey) -> Pubkey:
    """The program's address that draws on the tokens of whoever `signer` signs for."""
    return Pubkey.find_program_address([b"delegate", bytes(signer)], program)[0]


def rebuild(terms: Terms, reserve_deadline: int, refund_after: int) -> Deposit:
    """The message of these terms and windows."""
    order = terms.order
    if terms.cluster_id is None:
        raise NotSigned("the gateway does not say which cluster the signature is for")
    if terms.amount >= 2**64:
        raise ValueError("max_source_amount has more than 64 bits, and no token of Solana has so much")
    payer, program = _key(order.account), _key(terms.escrow)
    preimage = b"".join(
        [
            PREFIX,
            bytes([DOMAIN_VERSION]),
            bytes(_key(terms.cluster_id)),
            bytes(program),
            bytes([_KIND_DEPOSIT]),
            on_chain(order.payment_id),
            order.terms_hash(),
            terms.quote_hash,
            bytes(payer),
            bytes(mint_of(order.source["asset_identifier"])),
            _u64(terms.amount),
            bytes(_key(terms.reserver)),
            bytes(_key(terms.releaser)),
            _u64(reserve_deadline),
            _u64(terms.fulfillment_deadline),
            _u64(refund_after),
        ]
    )
    return Deposit(preimage, delegate_of(program, payer))


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


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def _key(text: str) -> Pubkey:
    try:
        return Pubkey.from_string(text)
    except ValueError:
        raise NotSigned(f"{text[:60]} is not an account of Solana") from None
