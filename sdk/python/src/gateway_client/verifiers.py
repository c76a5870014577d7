"""Verifier sets: n verifiers of which k release an escrow, and the hash by which the payer signs for them.

The chains' libraries are loaded where an account of theirs is read: each is an extra of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from .errors import NotSigned

#: Most members of a set.
MEMBERS_MAX = 16
#: What begins the hashed bytes: the name of the form, and its version.
_DOMAIN = b"gw-verifier-set\x01"


def verifier_set_id(namespace: str, threshold: int, accounts: Sequence[str]) -> str:
    """The account that stands for a set on chains of `namespace` (CAIP-2), whatever the order of its members: of Keccak-256 the
    last 20 bytes on `eip155` and `tron`, SHA-256 on `solana`. `releaser_of` has the rule for a verifier that is the only one.

    Raises `ValueError` where these are not 1 to 16 different accounts, or the threshold is not from 1 to their number.
    """
    count = len(accounts)
    if not 1 <= count <= MEMBERS_MAX:
        raise ValueError(f"a verifier set has 1 to {MEMBERS_MAX} members, and not {count}")
    if type(threshold) is not int or not 1 <= threshold <= count:
        raise ValueError(f"of {count} verifiers {threshold} cannot be needed")
    members = sorted(account_bytes(namespace, account) for account in accounts)
    if len(set(members)) < count:
        raise ValueError("a verifier is twice in its set")
    preimage = _DOMAIN + bytes([threshold, count]) + b"".join(members)
    if namespace == "solana":
        from solders.pubkey import Pubkey

        return str(Pubkey(sha256(preimage).digest()))
    from .keccak import keccak256

    address = keccak256(preimage)[12:]
    if namespace == "tron":
        from .tron.address import address_text

        return address_text(address)
    return "0x" + address.hex()


def releaser_of(namespace: str, threshold: int, accounts: Sequence[str]) -> str:
    """The releaser that a payer signs for, and can pin: the account of a verifier that is the only one, or the id of a set.

    Raises as `verifier_set_id`.
    """
    known = verifier_set_id(namespace, threshold, accounts)
    if len(accounts) > 1:
        return known
    return accounts[0].lower() if namespace == "eip155" else accounts[0]


def check_verifier(namespace: str, releaser: str, shown: object) -> None:
    """Whether whom a gateway shows as verifiers is whom the payer signs for. One from before verifier sets shows neither
    threshold nor members, and nothing but the account can be compared.

    Raises `NotSigned`.
    """
    if shown is None:
        return
    if not isinstance(shown, Mapping):
        raise NotSigned("the gateway shows a verifier that is no object")
    account, threshold, members = (shown.get(name) for name in ("account", "threshold", "members"))
    if threshold is not None or members is not None:
        try:
            accounts = [str(member["account"]) for member in members or []]
            named = releaser_of(namespace, threshold or 0, accounts)
        except (KeyError, TypeError, ValueError) as fault:
            raise NotSigned(f"the gateway shows verifiers that cannot be: {fault}") from None
        if named != _normal(namespace, releaser):
            rule = f"the {threshold} of {len(accounts)} verifiers that the gateway shows are {named}"
            raise NotSigned(f"the releaser is {releaser}, and {rule}")
    if account and _normal(namespace, str(account)) != _normal(namespace, releaser):
        raise NotSigned(f"the releaser is {releaser}, and the gateway shows {str(account)[:60]} as its verifier")


def _normal(namespace: str, account: str) -> str:
    return account.lower() if namespace == "eip155" else account


def account_bytes(namespace: str, account: str) -> bytes:
    """The bytes of an account, as many as those of its family have: 32 on Solana, 20 elsewhere. Raises `ValueError`."""
    found, size = _bytes_of(namespace, account), 32 if namespace == "solana" else 20
    if len(found) != size:
        raise ValueError(f"{account[:60]} has not the {size} bytes of an account on {namespace}")
    return found


def _bytes_of(namespace: str, account: str) -> bytes:
    if namespace == "eip155":
        digits = account.removeprefix("0x")
        if len(digits) != 40 or account == digits:
            raise ValueError(f"{account[:60]} is not an EVM address")
        return bytes.fromhex(digits)
    if namespace == "tron":
        from .tron.address import address_bytes

        return address_bytes(account)
    if namespace == "solana":
        from solders.pubkey import Pubkey

        try:
            return bytes(Pubkey.from_string(account))
        except ValueError:
            raise ValueError(f"{account[:60]} is not an account of Solana") from None
    raise ValueError(f"{namespace} is not a family of chains that is known: eip155, solana, tron")
