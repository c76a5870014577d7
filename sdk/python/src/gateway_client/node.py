"""Nodes: JSON-RPC 2.0 over HTTP, as EVM chains and Solana have it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .errors import NoAnswer, NodeError
from .flow import Flow, asked_json, post_json, sleep
from .retry import pause

#: How often a call is asked before a node counts as gone.
ATTEMPTS = 4


class JsonRpc:
    """A node at one address."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        self._headers = dict(headers or {})

    def call(self, method: str, *params: Any) -> Flow[Any]:
        """The result of a call. Every call that is made here may be repeated.

        Raises `NodeError` where the node refuses it or does not answer.
        """
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = yield from asked_patiently(self.url, body, self._headers)
        if not isinstance(answer, dict) or "result" not in answer:
            error = answer.get("error") if isinstance(answer, dict) else answer
            raise NodeError(f"{method}: {str(error)[:500]}")
        return answer["result"]

    def number(self, method: str, *params: Any) -> Flow[int]:
        """The same where the result is a quantity in hex."""
        return quantity((yield from self.call(method, *params)))


def asked_patiently(url: str, body: object, headers: Mapping[str, str]) -> Flow[Any]:
    """The JSON that a node answers, asked a few times."""
    for attempt in range(ATTEMPTS):
        try:
            return (yield from asked_json(post_json(url, body, headers)))
        except NoAnswer as fault:
            if attempt + 1 == ATTEMPTS:
                raise NodeError(f"the node does not answer: {fault}") from fault
        yield from sleep(pause(attempt, None))
    raise AssertionError("the last attempt returns or raises")


def objects(value: object) -> list[dict[str, Any]]:
    """A list of objects that a node wrote."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise NodeError(f"the node says {str(value)[:100]}, which is not a list of objects")
    return value


def quantity(text: object) -> int:
    """A number that a node wrote in hex, such as `0x1b`."""
    if not isinstance(text, str) or not re.fullmatch("0x[0-9a-fA-F]{1,64}", text):
        raise NodeError(f"the node says {str(text)[:100]}, which is not a number")
    return int(text, 16)


def hex_bytes(text: object) -> bytes:
    """Bytes that a node wrote in hex, with or without `0x`."""
    digits = text.removeprefix("0x") if isinstance(text, str) else ""
    if not isinstance(text, str) or not re.fullmatch("([0-9a-fA-F]{2})*", digits):
        raise NodeError(f"the node says {str(text)[:100]}, which is not bytes in hex")
    return bytes.fromhex(digits)
