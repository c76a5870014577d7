"""Amounts: exact integers in the asset's smallest unit, and decimals for people.

>>> units("25.5", 6)
25500000
>>> decimals(25500000, 6)
'25.5'
"""

import re

_DECIMAL = re.compile(r"([0-9]+)(?:\.([0-9]+))?")
#: The largest amount that any chain holds.
AMOUNT_MAX = 2**256 - 1


def units(text: str, places: int) -> int:
    """The smallest units of a decimal number, such as `"25.5"`, of an asset with so many decimal places (`decimals` of
    `/v1/defaults`). A number that the asset cannot express is a `ValueError`; it is never rounded."""
    found = _DECIMAL.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a decimal number, such as 25.5")
    whole, part = found[1], (found[2] or "").rstrip("0")
    if len(part) > places:
        raise ValueError(f"{text} has more than {places} decimal places")
    return int(whole + part.ljust(places, "0"))


def decimals(amount: int, places: int) -> str:
    """The decimal number of so many smallest units."""
    if amount < 0:
        raise ValueError(f"{amount} is not an amount")
    digits = str(amount).rjust(places + 1, "0")
    whole, part = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return f"{whole}.{part}" if part else whole


def wire(amount: int, name: str) -> str:
    """An amount as requests have it. `name` is what an error calls it."""
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise TypeError(f"{name} is a whole number of the smallest unit, not {amount!r}")
    if not 0 < amount <= AMOUNT_MAX:
        raise ValueError(f"{name} is above zero and has 256 bits at most, not {amount}")
    return str(amount)


def amount_of(text: object, name: str) -> int:
    """An amount that somebody else wrote."""
    if not isinstance(text, str) or not re.fullmatch("[0-9]{1,78}", text):
        raise ValueError(f"{name} is {text!r}, which is not an amount")
    return int(text)
