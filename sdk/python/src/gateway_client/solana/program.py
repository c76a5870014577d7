"""Instructions that a payer on Solana sends, each built here, and the accounts that they are about."""

from __future__ import annotations

from dataclasses import dataclass

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.system_program import TransferParams, transfer

from ..errors import NodeError, NotDue

TOKEN_PROGRAM = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022_PROGRAM = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
ASSOCIATED_TOKEN_PROGRAM = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
#: The mint whose tokens are wrapped lamports.
NATIVE_MINT = Pubkey.from_string("So11111111111111111111111111111111111111112")
CLOCK = Pubkey.from_string("SysvarC1ock11111111111111111111111111111111")
_APPROVE, _SYNC_NATIVE, _CREATE_IDEMPOTENT, _REFUND = 4, 17, 1, 4
_ESCROW_TAG, _LAYOUT, _ESCROW_BYTES, _TOKEN_ACCOUNT_BYTES = 2, 1, 389, 165
_RESERVED, _RELEASED = 1, 2
#: Bits of the state; those above them count reassignments.
_STATE_BITS = 0b11


def token_account(owner: Pubkey, token_program: Pubkey, mint: Pubkey) -> Pubkey:
    """The owner's associated token account."""
    seeds = [bytes(owner), bytes(token_program), bytes(mint)]
    return Pubkey.find_program_address(seeds, ASSOCIATED_TOKEN_PROGRAM)[0]


def approve(owner: Pubkey, token_program: Pubkey, mint: Pubkey, delegate: Pubkey, amount: int) -> Instruction:
    """Lets `delegate` take up to `amount` out of the owner's account. It takes the place of an earlier allowance."""
    accounts = [
        AccountMeta(token_account(owner, token_program, mint), False, True),
        AccountMeta(delegate, False, False),
        AccountMeta(owner, True, False),
    ]
    return Instruction(token_program, bytes([_APPROVE]) + amount.to_bytes(8, "little"), accounts)


def create_token_account(payer: Pubkey, owner: Pubkey, token_program: Pubkey, mint: Pubkey) -> Instruction:
    """Makes the owner's associated token account where it is not there; `payer` pays its rent."""
    accounts = [
        AccountMeta(payer, True, True),
        AccountMeta(token_account(owner, token_program, mint), False, True),
        AccountMeta(owner, False, False),
        AccountMeta(mint, False, False),
        AccountMeta(SYSTEM_PROGRAM, False, False),
        AccountMeta(token_program, False, False),
    ]
    return Instruction(ASSOCIATED_TOKEN_PROGRAM, bytes([_CREATE_IDEMPOTENT]), accounts)


def wrap(owner: Pubkey, lamports: int) -> list[Instruction]:
    """Wraps so many lamports: the account where there is none, the lamports, their count."""
    account = token_account(owner, TOKEN_PROGRAM, NATIVE_MINT)
    return [
        create_token_account(owner, owner, TOKEN_PROGRAM, NATIVE_MINT),
        transfer(TransferParams(from_pubkey=owner, to_pubkey=account, lamports=lamports)),
        Instruction(TOKEN_PROGRAM, bytes([_SYNC_NATIVE]), [AccountMeta(account, False, True)]),
    ]


@dataclass(frozen=True)
class TokenAccount:
    """What a token account says."""

    amount: int
    delegate: Pubkey | None
    delegated_amount: int

    @classmethod
    def read(cls, data: bytes) -> TokenAccount:
        """The account's data; both token programs begin it alike."""
        if len(data) < _TOKEN_ACCOUNT_BYTES:
            raise NodeError("the node says that a token account is something else")
        is_lent = data[72:76] == bytes([1, 0, 0, 0])
        return cls(_u64(data, 64), Pubkey(data[76:108]) if is_lent else None, _u64(data, 121))


@dataclass(frozen=True)
class Escrow:
    """What the program keeps of a payment."""

    address: Pubkey
    vault: Pubkey
    state: int
    payer: Pubkey
    rent_payer: Pubkey
    mint: Pubkey
    token_program: Pubkey
    #: What lies in the vault, smallest unit.
    deposited: int
    refund_after: int

    @staticmethod
    def addresses(program: Pubkey, payment: bytes) -> tuple[Pubkey, Pubkey]:
        """Where escrow and vault of a payment are."""
        escrow, _ = Pubkey.find_program_address([b"escrow", payment], program)
        vault, _ = Pubkey.find_program_address([b"vault", payment], program)
        return escrow, vault

    @classmethod
    def read(cls, program: Pubkey, payment: bytes, data: bytes) -> Escrow:
        """The account's data, layout version 1."""
        if len(data) != _ESCROW_BYTES or data[:2] != bytes([_ESCROW_TAG, _LAYOUT]) or data[5:37] != payment:
            raise NodeError("the node says that the payment's escrow is something else")
        escrow, vault = cls.addresses(program, payment)

        def key(at: int) -> Pubkey:
            return Pubkey(data[at : at + 32])

        return cls(escrow, vault, data[2] & _STATE_BITS, key(37), key(69), key(165), key(197), _u64(data, 261), _u64(data, 365))

    def insist_due(self, now: int) -> None:
        """Raises `NotDue` where there is nothing to be refunded, or not yet."""
        if self.state != _RESERVED:
            ended = "released to the settler" if self.state == _RELEASED else "refunded"
            raise NotDue(f"the deposit was {ended}")
        if self.token_program not in (TOKEN_PROGRAM, TOKEN_2022_PROGRAM):
            raise NodeError(f"the node says that {self.token_program} is a token program")
        if now < self.refund_after:
            raise NotDue(f"it can be refunded from {self.refund_after} on, in {self.refund_after - now} s", self.refund_after)

    def refund(self, program: Pubkey) -> Instruction:
        """Sends what lies in the vault to the payer's associated token account. Anyone may."""
        accounts = [
            AccountMeta(self.address, False, True),
            AccountMeta(self.vault, False, True),
            AccountMeta(token_account(self.payer, self.token_program, self.mint), False, True),
            AccountMeta(self.mint, False, False),
            AccountMeta(self.rent_payer, False, True),
            AccountMeta(self.token_program, False, False),
        ]
        return Instruction(program, bytes([_REFUND]), accounts)


def clock_time(data: bytes) -> int:
    """UNIX seconds of the cluster's clock, out of its sysvar."""
    if len(data) < 40:
        raise NodeError("the node says that the clock is something else")
    return int.from_bytes(data[32:40], "little", signed=True)


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")
