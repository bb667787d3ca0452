"""Ready is what has answered: a fault planted in one listener keeps the server from saying so, and is named."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mayflydb.announcement import Announcement, StartFailed
from mayflydb.embedded import serve, settings_from
from mayflydb.frontends.cosmos.app import CosmosApp
from mayflydb.frontends.mongo.app import MongoApp
from mayflydb.frontends.mongo.protocol import connection as mongo_connection
from mayflydb.frontends.ydb.app import YdbApp
from mayflydb.http import connection as http_connection
from mayflydb.http.messages import Request, Response
from mayflydb.serving import listener_checks
from mayflydb.serving.certificates import Authority
from mayflydb.serving.mongo_port import MongoPort
from mayflydb.serving.server import Server
from served import Http, port_of

pytestmark = pytest.mark.short

ALL: dict[str, Any] = {"port": 0, "mongo_port": 0, "ydb_port": 0, "ydb_tls_port": 0, "preload": True}
Patch = pytest.MonkeyPatch


async def nothing(*_: Any) -> Any:
    await asyncio.Event().wait()


async def crash(*_: Any) -> Any:
    raise RuntimeError("planted")


def fail(*_: Any) -> Any:
    raise RuntimeError("planted")


async def lost(*_: Any) -> None:
    """What waits is never gone on with, as when a task cannot be made of it."""


def stranger(_: Authority) -> ssl.SSLContext:
    """The certificate of another authority."""
    return CONTEXT(Authority(Path(os.environ["XDG_DATA_HOME"]) / "other"))


def strange_pair(_: Authority) -> tuple[bytes, bytes]:
    return PAIR(Authority(Path(os.environ["XDG_DATA_HOME"]) / "other"))


CONTEXT, PAIR = Authority.context, Authority.pair


async def elsewhere(*_: Any) -> Response:
    return Response(200, b"{}")


def without_tls(introduce: Callable[..., Any]) -> Callable[..., Any]:
    """A front end that serves encrypted connections not at all."""

    def service(self: MongoPort, *arguments: Any) -> Callable[[bool, float], Any]:
        made = introduce(self, *arguments)

        def connection(tls: bool, deadline: float) -> Any:
            if tls:
                raise ConnectionError("planted")
            return made(tls, deadline)

        return connection

    return service


async def refused(*_: Any) -> bytes:
    from mayflydb.frontends.ydb import wire

    return wire.operation_response("UNAVAILABLE")


async def wrong_hello(*_: Any) -> bytes:
    from bson import encode

    return encode({"ok": 0.0, "errmsg": "planted"})


FAULTS: dict[str, tuple[Callable[[Patch], None], str, str, str]] = {
    # What is planted; the part, the setting and the listener that are named.
    "HTTP says nothing": (
        lambda patch: patch.setattr(CosmosApp, "__call__", nothing), "cosmos", "server.port", "HTTP on 127.0.0.1:",
    ),
    "HTTP crashes": (
        lambda patch: patch.setattr(CosmosApp, "__call__", crash), "cosmos", "server.port", "HTTP on 127.0.0.1:",
    ),
    "HTTP gives something else": (
        lambda patch: patch.setattr(CosmosApp, "__call__", elsewhere), "cosmos", "server.port", "HTTP on 127.0.0.1:",
    ),
    "HTTP forgets what waits": (
        lambda patch: patch.setattr(http_connection.Connection, "_finish", lost),
        "cosmos", "server.port", "HTTP on 127.0.0.1:",
    ),
    "HTTPS has a certificate of others": (
        lambda patch: patch.setattr(Authority, "context", stranger), "cosmos", "server.port", "HTTPS on 127.0.0.1:",
    ),
    "MongoDB says nothing": (
        lambda patch: patch.setattr(MongoApp, "answer", nothing), "mongo", "mongo.port", "MongoDB on 127.0.0.1:",
    ),
    "MongoDB crashes": (
        lambda patch: patch.setattr(MongoApp, "answer", crash), "mongo", "mongo.port", "MongoDB on 127.0.0.1:",
    ),
    "MongoDB refuses": (
        lambda patch: patch.setattr(MongoApp, "answer", wrong_hello), "mongo", "mongo.port", "MongoDB on 127.0.0.1:",
    ),
    "MongoDB sends nothing": (
        lambda patch: patch.setattr(mongo_connection.Connection, "flush", lambda self: None),
        "mongo", "mongo.port", "MongoDB on 127.0.0.1:",
    ),
    "MongoDB is not loaded": (
        lambda patch: patch.setattr(MongoPort, "_service", fail), "mongo", "mongo.port", "MongoDB on 127.0.0.1:",
    ),
    "MongoDB has no TLS": (
        lambda patch: patch.setattr(MongoPort, "_service", without_tls(MongoPort._service)),
        "mongo", "mongo.port", "MongoDB with TLS on 127.0.0.1:",
    ),
    "YDB says nothing": (
        lambda patch: patch.setattr(YdbApp, "answer", nothing), "ydb", "ydb.port", "gRPC on 127.0.0.1:",
    ),
    "YDB crashes": (lambda patch: patch.setattr(YdbApp, "answer", crash), "ydb", "ydb.port", "gRPC on 127.0.0.1:"),
    "YDB refuses": (lambda patch: patch.setattr(YdbApp, "answer", refused), "ydb", "ydb.port", "gRPC on 127.0.0.1:"),
    "YDB has a certificate of others": (
        lambda patch: patch.setattr(Authority, "pair", strange_pair),
        "ydb", "ydb.tls_port", "gRPC with TLS on 127.0.0.1:",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What answers is loaded, so that the little patience below is with faults alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        with serve(memory=True, **ALL):
            pass


async def start(expected: Callable[[Server, BaseException | Announcement], Any]) -> Any:
    server = Server(settings_from(None, True, ALL), os.environ)
    try:
        outcome: BaseException | Announcement = await server.start()
    except StartFailed as failed:
        outcome = failed
    try:
        found = expected(server, outcome)
        return await found if asyncio.iscoroutine(found) else found
    finally:
        await server.stop(0)


@pytest.mark.parametrize("name", FAULTS)
def test_a_listener_that_does_not_answer_is_named(name: str, monkeypatch: Patch) -> None:
    plant, part, setting, listener = FAULTS[name]
    monkeypatch.setattr(listener_checks, "CHECK_SECONDS", 2.0)
    plant(monkeypatch)

    async def look(server: Server, outcome: BaseException | Announcement) -> None:
        assert isinstance(outcome, StartFailed)
        assert (outcome.setting, outcome.exit_code) == (setting, 1)
        assert listener in outcome.message
        ready, document = server._readiness.document()
        assert not ready
        assert listener in document["protocols"][part]
        port: Any = server._http
        answer = await port._listener._work.handler(Request("GET", b"/_mayfly/ready", {b"host": b"localhost"}))
        assert (answer.status, listener.encode() in answer.body) == (503, True)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(start(look))


ASKED = ["HTTP", "HTTPS", "MongoDB", "MongoDB with TLS", "gRPC", "gRPC with TLS"]


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        (ALL, ASKED),
        (ALL | {"ydb_auth": True, "mongo_auth": True}, ASKED),
        (ALL | {"ydb_tls_port": -1}, ["HTTP", "MongoDB", "gRPC"]),
        (ALL | {"ydb_port": -1, "ydb_tls_port": -1, "scheme": "https"}, ASKED[:4]),
        (ALL | {"mongo_port": -1, "ydb_port": -1}, ["HTTP", "HTTPS", "gRPC with TLS"]),
        (ALL | {"host": "0.0.0.0", "generate_key": True, "insecure": True}, ASKED),
        (
            {"port": 0, "host": "0.0.0.0", "generate_key": True, "scheme": "https"},
            ["HTTPS", "MongoDB with TLS", "gRPC with TLS"],
        ),
    ],
)
def test_every_listener_is_asked_and_answers(settings: dict[str, Any], asked: list[str], monkeypatch: Patch) -> None:
    found: list[str] = []
    failure = listener_checks.ListenerCheck.failure

    async def watched(check: listener_checks.ListenerCheck) -> str | None:
        found.append(check.name.partition(" on ")[0])
        return await failure(check)

    monkeypatch.setattr(listener_checks.ListenerCheck, "failure", watched)
    with serve(memory=True, **settings) as server:
        document = Http(port_of(server)).get("ready")
    assert sorted(set(found), key=ASKED.index) == asked
    assert document["ready"] and set(document["protocols"].values()) <= {"ok", "off"}


def test_a_server_that_was_not_proved_is_not_ready(monkeypatch: Patch) -> None:
    """While it is asked, its own answer is 503."""
    seen: list[int] = []
    failure = listener_checks.ListenerCheck.failure

    async def watched(check: listener_checks.ListenerCheck) -> str | None:
        place = int(check.name.rpartition(":")[2])
        if check.part == "cosmos":
            seen.append((await asyncio.to_thread(Http(place), "GET", "/_mayfly/ready")).status)
        return await failure(check)

    monkeypatch.setattr(listener_checks.ListenerCheck, "failure", watched)
    with serve(memory=True, **ALL, host="127.0.0.1") as server:
        assert Http(port_of(server))("GET", "/_mayfly/ready").status == 200
    assert seen == [503, 503]
