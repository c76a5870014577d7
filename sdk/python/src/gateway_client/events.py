"""Server-sent events of a payment (WHATWG HTML, 9.2): read from bytes, and resumed where a connection ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import cast

from . import bounded_json
from .errors import GatewayError, NoAnswer
from .flow import Request
from .retry import is_repeated, pause
from .schemas import TimelineEntry

#: The longest event that is read, in bytes.
EVENT_BYTES_MAX = 1024 * 1024
#: A stream says something at least so often, if only a comment.
SILENCE_SECONDS_MAX = 90.0
#: A stream that was open for so long was an answer.
STREAM_SECONDS = 5.0


class Parser:
    """Events out of bytes, however they are cut."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._size = 0
        #: Id of the last event.
        self.last_id: str | None = None
        self._id: str | None = None
        #: Milliseconds after which the server wants to be asked again.
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of each event that ends with these bytes."""
        self._rest += chunk
        # A carriage return at the end may be half of a line's end.
        text = self._rest.replace(b"\r\n", b"\n")
        kept = b""
        if text.endswith(b"\r"):
            text, kept = text[:-1], b"\r"
        *lines, rest = text.replace(b"\r", b"\n").split(b"\n")
        self._rest = rest + kept
        self._size += len(chunk)
        for line in lines:
            yield from self._line(line.decode("utf-8", "replace").removeprefix("\ufeff"))
        if self._size > EVENT_BYTES_MAX and (self._data or len(self._rest) > EVENT_BYTES_MAX):
            raise NoAnswer(f"an event has more than {EVENT_BYTES_MAX} bytes")

    def _line(self, line: str) -> Iterator[str]:
        if not line:
            if self._id is not None:
                self.last_id = self._id
            data, self._data, self._size = self._data, [], 0
            if data:
                yield "\n".join(data)
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)


class Following:
    """One payment that is followed over as many connections as it takes: what to ask, and what an answer leads to."""

    def __init__(self, url: str, after: str | None, headers: Mapping[str, str], patience_seconds: float) -> None:
        self._url = url
        self._headers = dict(headers)
        self._last_id = after
        self._patience_seconds = patience_seconds
        self._failures = 0
        self._failing_since: float | None = None
        self._opened_at: float | None = None
        self._parser = Parser()

    def request(self) -> Request:
        """The next connection. It goes on behind the last event that was read."""
        self._parser = Parser()
        headers = {**self._headers, "accept": "text/event-stream", "cache-control": "no-cache"}
        if self._last_id is not None:
            headers["last-event-id"] = self._last_id
        return Request("GET", self._url, headers=headers, timeout_seconds=SILENCE_SECONDS_MAX)

    def read(self, chunk: bytes) -> Iterator[TimelineEntry]:
        """The entries that these bytes end, none of them twice."""
        for data in self._parser.feed(chunk):
            entry = _entry(data)
            self._failures, self._failing_since = 0, None
            if self._last_id is None or _position(entry["id"]) > _position(self._last_id):
                self._last_id = entry["id"]
                yield entry

    def opened(self) -> None:
        """The server answers with a stream."""
        self._opened_at = time.monotonic()

    def ended(self) -> float:
        """Seconds until the next connection, after a stream that ended: whether it was cut off, the next answer says."""
        self._failing_since = None
        seconds = max(pause(self._failures, None), (self._parser.retry_ms or 0) / 1000)
        # One that told something begins anew with the next entry.
        self._failures += 1
        return seconds

    def failed(self, fault: GatewayError | NoAnswer) -> float:
        """The same after a connection that came to nothing.

        Raises the fault where it does not pass, or has not for too long.
        """
        if isinstance(fault, GatewayError) and not is_repeated(fault.status, fault.retry_classification):
            raise fault
        now = time.monotonic()
        # A stream may have nothing to tell for long, and be cut off by somebody in between.
        if self._opened_at is not None and now > self._opened_at + STREAM_SECONDS:
            self._failures, self._failing_since = 0, None
        if self._failing_since is None:
            self._failing_since = now
        seconds = pause(self._failures, getattr(fault, "retry_after", None))
        self._failures += 1
        if now + seconds > self._failing_since + self._patience_seconds:
            raise fault
        self._opened_at = None
        return seconds


def _entry(data: str) -> TimelineEntry:
    try:
        entry = bounded_json.loads(data.encode())
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        raise NoAnswer("the stream has an event that is not an entry of a timeline")
    _position(entry["id"])
    return cast(TimelineEntry, entry)


def _position(text: str) -> tuple[int, ...]:
    """Where an entry stands: its id is two numbers."""
    try:
        return tuple(int(number) for number in text.split("."))
    except ValueError:
        raise NoAnswer(f"{text[:40]!r} is not the id of an entry") from None
