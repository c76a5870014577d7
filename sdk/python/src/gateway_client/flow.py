"""Flows: what the package does, without saying how it is sent, so that the synchronous and the asynchronous client have one
place for every rule.

A flow is a generator. It yields what it needs, a `Request`, a `Pause` or an `Outside`, and is sent what came of it;
`transport` performs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import bounded_json
from .errors import NoAnswer

T = TypeVar("T")

#: The longest answer that is read, in bytes.
ANSWER_BYTES_MAX = 8 * 1024 * 1024
#: A submission is held for half a minute.
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Request:
    """An HTTP request as data."""

    method: str
    url: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    #: The very bytes: what is sent again is the same.
    content: bytes | None = None
    timeout_seconds: float = TIMEOUT_SECONDS


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    #: Names in lower case.
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """The body; `None` where it is not JSON."""
        try:
            return bounded_json.loads(self.content)
        except ValueError:
            return None


@dataclass(frozen=True)
class Pause:
    """So many seconds pass."""

    seconds: float


@dataclass(frozen=True)
class Outside:
    """Something that may take its time, such as a signature by a device; it is not run on an event loop."""

    function: Callable[[], Any]


Effect = Request | Pause | Outside
Flow = Generator[Effect, Any, T]


def send(request: Request) -> Flow[Answer]:
    """Sends a request once.

    Raises `NoAnswer` where nothing is known of it.
    """
    answer: Answer = yield request
    return answer


def sleep(seconds: float) -> Flow[None]:
    """Lets time pass."""
    yield Pause(seconds)


def outside(function: Callable[[], T]) -> Flow[T]:
    """Runs a function of somebody else's."""
    value: T = yield Outside(function)
    return value


def post_json(url: str, body: object, headers: Mapping[str, str] | None = None) -> Request:
    """A request with a body in JSON."""
    content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    return Request("POST", url, headers={"content-type": "application/json", **(headers or {})}, content=content)


def asked_json(request: Request) -> Flow[Any]:
    """The JSON of a successful answer of a server that is not the gateway, such as a node."""
    answer = yield from send(request)
    body = answer.json()
    if answer.status != 200 or body is None:
        raise NoAnswer(f"{request.url} answers with HTTP {answer.status} and no JSON")
    return body
