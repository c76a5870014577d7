"""Live events: read however they are cut, and resumed where a connection ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway_client import AsyncGateway, FaultyRequest, Gateway, NoAnswer
from gateway_client.events import EVENT_BYTES_MAX, Parser
from server import SILENCE, Said, said, serving

STREAM = {"content-type": "text/event-stream"}
END = Said(204, b"")


def event(id: str) -> bytes:
    return f"id: {id}\ndata: {json.dumps({'id': id, 'event': 'E' + id})}\nretry: 5\n\n".encode()


def stream(*ids: str, is_cut: bool = False, rest: bytes = b"") -> Said:
    return Said(200, b"".join(map(event, ids)) + rest, STREAM, is_cut)


def watched(url: str, **options: Any) -> list[str]:
    after = options.pop("after", None)
    with Gateway(url, **options) as gateway:
        return [entry["id"] for entry in gateway.watch("pay_1", after=after)]


def watched_on_a_loop(url: str, **options: Any) -> list[str]:
    after = options.pop("after", None)

    async def watching() -> list[str]:
        async with AsyncGateway(url, **options) as gateway:
            return [entry["id"] async for entry in gateway.watch("pay_1", after=after)]

    return asyncio.run(watching())


both = pytest.mark.parametrize("watch", [watched, watched_on_a_loop])
Watch = Callable[..., list[str]]


@both
def test_a_stream_is_resumed_until_nothing_is_behind_its_last_event(watch: Watch) -> None:
    answers = [
        stream("1.0", "2.0", is_cut=True),
        SILENCE,
        said({"code": "TOO_MANY_STREAMS", "message": "x"}, 503, Retry_After="0"),
        # What was cut off in the middle comes again; what was read does not.
        stream("2.0", "2.1", rest=event("10.0")[:-10]),
        stream("10.0"),
        END,
    ]
    with serving(answers) as server:
        assert watch(server.url) == ["1.0", "2.0", "2.1", "10.0"]
    assert [seen.headers.get("last-event-id") for seen in server.seen] == [None, "2.0", "2.0", "2.0", "2.1", "10.0"]
    assert {seen.headers["accept"] for seen in server.seen} == {"text/event-stream"}


@both
def test_a_stream_begins_behind_what_is_known(watch: Watch) -> None:
    with serving([stream("5.0"), END]) as server:
        assert watch(server.url, after="4.0") == ["5.0"]
    assert server.seen[0].headers["last-event-id"] == "4.0"


@both
def test_what_does_not_pass_ends_it(watch: Watch) -> None:
    with serving([said({"code": "PAYMENT_NOT_FOUND", "message": "x"}, 404)]) as server, pytest.raises(FaultyRequest):
        watch(server.url)
    assert len(server.seen) == 1
    with serving([stream("1.0"), SILENCE]) as server, pytest.raises(NoAnswer):
        watch(server.url, patience_seconds=0.5)
    assert len(server.seen) > 2


@both
@pytest.mark.parametrize("data", ["not json", "[]", '{"id": 5}', '{"id": "x.y"}', '{"event": "E"}'])
def test_what_is_not_an_entry_is_no_answer(watch: Watch, data: str) -> None:
    answers = [Said(200, f"data: {data}\n\n".encode(), STREAM)]
    with serving(answers) as server, pytest.raises(NoAnswer):
        watch(server.url, patience_seconds=0.3)


TEXT = (
    "\ufeff: a comment\r\nid: 7\r\ndata: one\ndata:two\r\rid: 8\n\ndata\n\nretry: 12\nevent: x\ndata: drei €\n\nid: 9\ndata: rest"
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_they_are_cut(size: int) -> None:
    parser, raw = Parser(), TEXT.encode()
    read = [data for at in range(0, len(raw), size) for data in parser.feed(raw[at : at + size])]
    # An event that was not ended is none.
    assert read == ["one\ntwo", "", "drei €"]
    assert (parser.last_id, parser.retry_ms) == ("8", 12)


def test_an_event_without_an_end_is_not_kept() -> None:
    parser = Parser()
    with pytest.raises(NoAnswer, match="bytes"):
        for _ in range(EVENT_BYTES_MAX // 1000 + 2):
            list(parser.feed(b"data: " + b"x" * 993 + b"\n"))
    parser = Parser()
    with pytest.raises(NoAnswer, match="bytes"):
        for _ in range(EVENT_BYTES_MAX // 1000 + 2):
            list(parser.feed(b"x" * 1000))
    # Comments alone keep a connection open for as long as it takes.
    parser = Parser()
    for _ in range(EVENT_BYTES_MAX // 1000 + 2):
        assert list(parser.feed(b":" + b"x" * 997 + b"\n\n")) == []
