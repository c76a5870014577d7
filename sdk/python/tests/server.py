"""A small HTTP server that answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    #: With its query.
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Said:
    """What is answered."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    #: The connection ends without an answer, or in the middle of one: fewer bytes than were promised.
    is_cut: bool = False
    is_silent: bool = False


def said(body: Any, status: int = 200, **headers: str) -> Said:
    """An answer in JSON; underscores of header names are dashes."""
    return Said(status, json.dumps(body).encode(), {name.replace("_", "-"): value for name, value in headers.items()})


SILENCE = Said(is_silent=True)


@dataclass
class Server:
    """Answers in order, the last one from then on; or what a function says."""

    url: str
    seen: list[Seen]


@contextmanager
def serving(answers: list[Said] | Callable[[Seen], Said]) -> Iterator[Server]:
    """Serves on loopback."""
    seen: list[Seen] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Seen(self.command, self.path, headers, self.rfile.read(length))
            seen.append(request)
            one = answers(request) if callable(answers) else answers[min(len(seen), len(answers)) - 1]
            if one.is_silent:
                self.close_connection = True
                return
            self.send_response(one.status)
            for name, value in {"content-type": "application/json", **one.headers}.items():
                self.send_header(name, value)
            if one.status != 204:
                self.send_header("content-length", str(len(one.body) + (1 if one.is_cut else 0)))
            self.end_headers()
            self.wfile.write(one.body)
            self.close_connection = one.is_cut

        do_GET = do_POST = answer

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield Server(f"http://127.0.0.1:{server.server_port}", seen)
        finally:
            server.shutdown()
            thread.join()
