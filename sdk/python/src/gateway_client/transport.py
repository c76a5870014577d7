"""Transport: performs what flows ask for, with httpx, in a thread or on an event loop."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import httpx

from .errors import NoAnswer
from .flow import ANSWER_BYTES_MAX, Answer, Effect, Flow, Outside, Pause, Request

T = TypeVar("T")


def run(flow: Flow[T], client: httpx.Client) -> T:
    """Runs a flow to its end."""
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = flow.send(value) if error is None else flow.throw(error)
        except StopIteration as ended:
            result: T = ended.value
            return result
        value, error = None, None
        try:
            value = _perform(effect, client)
        except Exception as fault:
            error = fault


async def arun(flow: Flow[T], client: httpx.AsyncClient) -> T:
    """Runs a flow to its end, on an event loop."""
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = flow.send(value) if error is None else flow.throw(error)
        except StopIteration as ended:
            result: T = ended.value
            return result
        value, error = None, None
        try:
            value = await _aperform(effect, client)
        except Exception as fault:
            error = fault


def _perform(effect: Effect, client: httpx.Client) -> Any:
    match effect:
        case Pause(seconds):
            time.sleep(seconds)
            return None
        case Outside(function):
            return function()
        case Request():
            with unanswered(effect), client.stream(**arguments(effect)) as response:
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk
                    _bounded(content)
                return _answer(response, content)


async def _aperform(effect: Effect, client: httpx.AsyncClient) -> Any:
    match effect:
        case Pause(seconds):
            await anyio.sleep(seconds)
            return None
        case Outside(function):
            return await anyio.to_thread.run_sync(function)
        case Request():
            with unanswered(effect):
                async with client.stream(**arguments(effect)) as response:
                    content = bytearray()
                    async for chunk in response.aiter_bytes():
                        content += chunk
                        _bounded(content)
                    return _answer(response, content)


def arguments(request: Request) -> dict[str, Any]:
    """A request as httpx takes it. Redirects are not followed: a gateway has none."""
    return {
        "method": request.method,
        "url": request.url,
        "params": dict(request.query) or None,
        "headers": {"accept": "application/json", **request.headers},
        "content": request.content,
        "timeout": request.timeout_seconds,
        "follow_redirects": False,
    }


class unanswered:  # used as a statement
    """Turns the faults of a connection into `NoAnswer`."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, fault: BaseException | None, _trace: object) -> None:
        if isinstance(fault, httpx.UnsupportedProtocol):
            return
        if isinstance(fault, httpx.RequestError):
            raise NoAnswer(f"{self._request.url}: {fault or type(fault).__name__}") from fault


def _bounded(content: bytearray) -> None:
    if len(content) > ANSWER_BYTES_MAX:
        raise NoAnswer(f"an answer has more than {ANSWER_BYTES_MAX} bytes")


def _answer(response: httpx.Response, content: bytearray) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, bytes(content))
