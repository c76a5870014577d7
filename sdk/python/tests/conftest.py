"""Clocks: pauses between attempts take no time here, and are kept."""

from __future__ import annotations

import pytest


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, none of which is waited for."""
    made: list[float] = []

    async def paused(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr("gateway_client.transport.time.sleep", made.append)
    monkeypatch.setattr("gateway_client.transport.anyio.sleep", paused)
    return made
