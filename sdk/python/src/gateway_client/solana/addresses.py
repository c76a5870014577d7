"""Deposit addresses on Solana, which the escrow program itself makes and commands: see contracts/solana/README.md."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from .. import addresses
from ..addresses import AddressFamily
from ..verifiers import account_bytes
from .message import DOMAIN_VERSION, encoded, mint_of
from .program import TOKEN_PROGRAM, Escrow, token_account

#: In front of the terms that are hashed for an address.
PREFIX = b"gw-address"
_SEED = b"address"
_GIVE_BACK, _GIVE_BACK_LAMPORTS = 11, 12


def _key(account: str) -> Pubkey:
    return Pubkey(account_bytes("solana", account))


def _token_of(asset_identifier: str) -> tuple[int | str, str]:
    mint = mint_of(asset_identifier)
    return asset_identifier.partition("/")[0].removeprefix("solana:"), str(mint)


def _uri(_cluster: int | str, mint: str, address: str, _amount: int) -> str:
    return f"solana:{address}?spl-token={mint}"


SOLANA = AddressFamily(
    factory=lambda escrow: escrow,
    read=lambda account: account_bytes("solana", account),
    ignores_case=False,
    token_of=_token_of,
    uri=_uri,
)


@dataclass(frozen=True)
class AddressTerms(addresses.AddressTerms):
    """All that an address on Solana commits to. The address has no key, and the program alone moves what it owns."""

    family: ClassVar[AddressFamily] = SOLANA

    #: The escrow's program, which alone makes addresses for it.
    factory: str = ""

    def __post_init__(self) -> None:
        if self.factory not in ("", self.escrow):
            raise ValueError(f"factory must be the escrow program, {self.escrow}, and is {self.factory}")
        object.__setattr__(self, "factory", self.escrow)

    @property
    def encoded(self) -> bytes:
        """The deposit's terms, the very bytes that payers sign behind a domain."""
        return encoded(self.deposit, _key(self.token), self.amount)

    @property
    def address(self) -> str:
        """The address of these terms, on every cluster."""
        return str(self.key)

    @property
    def key(self) -> Pubkey:
        """The same as a key."""
        committed = sha256(PREFIX + bytes([DOMAIN_VERSION]) + self.encoded).digest()
        return Pubkey.find_program_address([_SEED, committed], _key(self.escrow))[0]


def give_back_call(
    terms: AddressTerms,
    carrier: str,
    token: str | None = None,
    token_program: Pubkey = TOKEN_PROGRAM,
    *,
    from_account: str | None = None,
    to: str | None = None,
    closes: bool = True,
) -> Instruction:
    """The instruction by which anyone has sent to the refund account all that is in a token account of the address. The
    refund account's associated one has to be there: `program.create_token_account` makes it in the same transaction. Of the
    terms' own token that is possible once no deposit can be made any more: after `reserveDeadline`, or when the payment has been
    deposited.

    :param carrier: who gets the rent of the emptied token account, such as the account that sends the transaction.
    :param token: the mint; that of the terms where it is absent.
    :param token_program: that of the mint.
    :param from_account: another token account of the address than its associated one.
    :param to: another token account of the mint. The refund account has to sign then.
    :param closes: whether the emptied token account is closed; one cannot be in which Token-2022 withheld fees, or which
        another account may close. One of wrapped SOL stays open always.
    """
    program, payer, address = _key(terms.escrow), _key(terms.deposit["payer"]), terms.key
    mint = _key(terms.token if token is None else token)
    held = token_account(address, token_program, mint) if from_account is None else _key(from_account)
    accounts = [
        AccountMeta(_key(carrier), False, True),
        AccountMeta(Escrow.addresses(program, terms.deposit["paymentId"])[0], False, False),
        AccountMeta(address, False, False),
        AccountMeta(held, False, True),
        AccountMeta(token_account(payer, token_program, mint) if to is None else _key(to), False, True),
        AccountMeta(payer, to is not None, False),
        AccountMeta(mint, False, False),
        AccountMeta(token_program, False, False),
    ]
    return Instruction(program, bytes([_GIVE_BACK]) + terms.encoded + bytes([closes]), accounts)


def give_back_lamports_call(terms: AddressTerms) -> Instruction:
    """The instruction by which anyone has sent to the refund account the SOL at the address itself, at any time."""
    accounts = [
        AccountMeta(terms.key, False, True),
        AccountMeta(_key(terms.deposit["payer"]), False, True),
        AccountMeta(SYSTEM_PROGRAM, False, False),
    ]
    return Instruction(_key(terms.escrow), bytes([_GIVE_BACK_LAMPORTS]) + terms.encoded, accounts)
