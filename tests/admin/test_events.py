"""The stream of events: each expiry once, whatever happens to the connection."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from azure.cosmos import ContainerProxy

from mayflydb.admin import events
from mayflydb.embedded import RunningServer, serve
from served import Http, port_of

TARGET = "cosmos:shop/sessions"


class Stream:
    """The events of one connection."""

    def __init__(self, connection: http.client.HTTPConnection, query: str, headers: dict[str, str]) -> None:
        connection.request("GET", f"/_mayfly/events?{query}", headers=headers)
        self.answer = connection.getresponse()

    def block(self) -> dict[str, str]:
        """The fields of the next block; a comment has none."""
        fields: dict[str, str] = {}
        while line := self.answer.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields

    def next(self) -> tuple[str, Any]:
        """The type and the data of the next event."""
        while not (fields := self.block()).get("event"):
            pass
        return fields["event"], json.loads(fields["data"])


@contextmanager
def stream(http: Http, query: str = "", last: int | None = None) -> Iterator[Stream]:
    connection = http_connection(http.port)
    try:
        yield Stream(connection, query, {} if last is None else {"last-event-id": str(last)})
    finally:
        connection.close()


def http_connection(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=30)


@pytest.fixture
def short_lives(server: RunningServer, sessions: ContainerProxy) -> ContainerProxy:
    for n in range(3):
        sessions.upsert_item({"id": str(n), "pk": "a", "ttl": 10 + n})
    return sessions


def test_each_expiry_comes_once_over_two_connections(server: RunningServer, http: Http, short_lives: Any) -> None:
    with stream(http, f"types=expired,purged,clock&target={TARGET}") as first:
        assert first.answer.getheader("content-type") == "text/event-stream"
        begin = int(first.block()["id"])
        server.clock.advance(seconds=10)
        kind, data = first.next()
        assert (kind, data["id"], data["reason"], data["text"]) == ("expired", "0", "item", "item ttl 10 s after _ts")
        assert data["target"] == TARGET and data["due"] == data["purged_at"] == data["at"]
        kind, total = first.next()
        assert (kind, total["purged"], total["first"], total["last"]) == ("purged", 1, data["seq"], data["seq"])
        assert first.next()[1]["action"] == "advance"
        seen = data["seq"]
    server.clock.advance(seconds=60)
    with stream(http, "types=expired", seen) as second:
        assert [second.next()[1]["id"] for _ in range(2)] == ["1", "2"]
    with stream(http, f"types=expired&after={begin}") as again:
        assert [again.next()[1]["id"] for _ in range(3)] == ["0", "1", "2"]


def test_writes_and_resets_are_told_when_asked(server: RunningServer, http: Http, short_lives: Any) -> None:
    with stream(http, "types=write,reset,clock") as opened:
        opened.block()
        short_lives.upsert_item({"id": "new", "pk": "a", "ttl": 5})
        kind, data = opened.next()
        assert (kind, data["id"], data["due"]) == ("write", "new", "2030-01-01T00:00:05Z")
        server.clock.freeze()
        assert opened.next() == ("clock", {"at": data["at"], "action": "freeze", "mode": "virtual", "frozen": True})
        server.reset(TARGET)
        assert opened.next()[1]["action"] == TARGET


def test_a_stream_that_comes_too_late_is_told_the_gap(
    server: RunningServer, http: Http, short_lives: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = server._admin.engine.reaper.events
    monkeypatch.setattr(log, "_limits", type(log._limits)(number=1))
    server.clock.advance(seconds=30)
    with stream(http, "types=expired&after=0") as opened:
        kind, data = opened.next()
        assert (kind, data["after"]) == ("lost", 0)
        kind, last = opened.next()
        assert (kind, last["id"], last["seq"]) == ("expired", "2", data["first"])


def test_a_silent_stream_has_comments(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SILENCE_SECONDS", 0.0)
    with stream(http) as opened:
        opened.block()
        assert opened.answer.readline() == b": \n"


def test_the_number_of_streams_is_limited(server: RunningServer, http: Http) -> None:
    quota = server._admin.engine.quotas.get("event_streams", 0)
    used = quota.used
    quota.limit, before = used + 1, quota.limit
    try:
        with stream(http) as opened:
            opened.block()
            refused = http("GET", "/_mayfly/events")
            assert (refused.status, refused.json["hint"]) == (503, "close one, or serve with --event-streams N")
    finally:
        quota.limit = before


@pytest.mark.parametrize(
    ("query", "status"),
    [("types=death", 400), ("types=", 400), ("after=x", 400), ("colour=red", 400), ("target=cosmos:none/x", 404)],
)
def test_streams_that_are_refused(http: Http, query: str, status: int) -> None:
    assert http("GET", f"/_mayfly/events?{query}").status == status


def test_streams_end_with_the_server() -> None:
    """With the last chunk: an answer that was cut would raise."""
    ended = threading.Event()

    def drain(opened: Stream) -> None:
        opened.answer.read()
        ended.set()

    with contextlib.ExitStack() as stack:
        with serve(memory=True, port=0) as running:
            opened = stack.enter_context(stream(Http(port_of(running))))
            opened.block()
            reader = threading.Thread(target=drain, args=(opened,))
            reader.start()
        reader.join(30)
    assert ended.is_set()
