from __future__ import annotations

import pytest

from gateway_client import Order, decimals, owned, units

ASSET, ACCOUNT = "eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@pytest.mark.parametrize(
    ("text", "places", "amount"),
    [("25.5", 6, 25_500_000), ("0.000001", 6, 1), ("1", 18, 10**18), ("007.10", 2, 710), ("5.000", 0, 5), ("0", 6, 0)],
)
def test_decimals_are_exact(text: str, places: int, amount: int) -> None:
    assert units(text, places) == amount
    assert units(decimals(amount, places), places) == amount


@pytest.mark.parametrize("text", ["", ".5", "5.", "-1", "+1", "1e6", "1,000", " 1", "1.0000001", "٣"])
def test_what_is_not_an_amount_is_refused_and_not_rounded(text: str) -> None:
    with pytest.raises(ValueError, match=r"decimal"):
        units(text, 6)


@pytest.mark.parametrize("amount", [0, -1, 2**256])
def test_orders_have_amounts_that_chains_have(amount: int) -> None:
    with pytest.raises(ValueError, match="amount"):
        Order(owned(ASSET, ACCOUNT), (owned(ASSET, ACCOUNT),), amount)


@pytest.mark.parametrize("amount", [1.0, True, "25"])
def test_orders_have_whole_numbers(amount: object) -> None:
    with pytest.raises(TypeError, match="whole number"):
        Order(owned(ASSET, ACCOUNT), (owned(ASSET, ACCOUNT),), amount)  # type: ignore[arg-type]
