"""Front ends that their first client loads."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from mayflydb.announcement import StartFailed
from mayflydb.embedded import RunningServer, serve
from mayflydb.serving import loading
from mayflydb.serving.loading import FrontEnd, load_modules
from mayflydb.serving.server import Server
from mayflydb.sockets.listener import Listener
from served import Http, port_of
from ydb_raw import connected

pytestmark = pytest.mark.short

DISCOVER = "Ydb.Discovery.V1.DiscoveryService/ListEndpoints"
SUCCESS = 400000


def built(server: RunningServer) -> Server:
    """The parts of a server."""
    found: Server = server._server
    return found


# Clients of another process: a client of the server's own would have loaded what the server is to load.
ASK_YDB = """
import sys
from ydb_raw import connected
with connected(sys.argv[1]) as raw:
    assert raw.ask("Ydb.Discovery.V1.DiscoveryService/ListEndpoints", database="/local").operation.status == 400000
"""
ASK_MONGO = """
import sys
from pymongo import MongoClient
with MongoClient(sys.argv[1]) as client:
    assert client.admin.command("ping")["ok"] == 1
"""
SERVE = """
import subprocess, sys
import mayflydb

def loaded():
    return {name for name in ("grpc", "google.protobuf", "mayflydb.frontends.ydb.app", "bson") if name in sys.modules}

with mayflydb.serve(memory=True, port=0) as server:
    assert not loaded(), loaded()
    for ask, address, expected in (
        (sys.argv[1], server.ydb.endpoint, {"grpc", "google.protobuf", "mayflydb.frontends.ydb.app"}),
        (sys.argv[2], server.mongo.uri, {"grpc", "google.protobuf", "mayflydb.frontends.ydb.app", "bson"}),
    ):
        clients = [subprocess.Popen([sys.executable, "-c", ask, address]) for _ in range(4)]
        assert [client.wait(60) for client in clients] == [0] * 4
        assert loaded() == expected
"""


def test_the_first_clients_load_what_serves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    subprocess.run([sys.executable, "-c", SERVE, ASK_YDB, ASK_MONGO], check=True, timeout=120)


def test_what_the_store_has_is_loaded_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "used.db"
    with serve(path, port=0) as server:
        assert _loaded(server) == {"mongo": False, "ydb": False}
        with connected(server.ydb.endpoint) as raw:
            session = raw.result("Ydb.Table.V1.TableService/CreateSession", "Ydb.Table.CreateSessionResult").session_id
            made = "CREATE TABLE t (id Uint64, PRIMARY KEY (id))"
            answer = raw.ask("Ydb.Table.V1.TableService/ExecuteSchemeQuery", session_id=session, yql_text=made)
            assert answer.operation.status == SUCCESS
        assert _loaded(server) == {"mongo": False, "ydb": True}
    with serve(path, port=0) as server:
        assert _loaded(server) == {"mongo": False, "ydb": True}
        with MongoClient[Any](server.mongo.uri) as client:
            client["d"]["c"].insert_one({})
    with serve(path, port=0) as server:
        assert _loaded(server) == {"mongo": True, "ydb": True}
    with serve(memory=True, port=0, preload=True) as server:
        assert _loaded(server) == {"mongo": True, "ydb": True}


def _loaded(server: RunningServer) -> dict[str, bool]:
    mongo, ydb = built(server)._mongo, built(server)._ydb
    assert mongo is not None and ydb is not None
    return {"mongo": mongo._is_asked, "ydb": ydb._app is not None}


@pytest.mark.parametrize("part", ["mongo", "ydb"])
def test_a_load_that_fails_is_told_and_tried_again(part: str, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ImportError("planted")

    def ask(server: RunningServer) -> None:
        if part == "ydb":
            with connected(server.ydb.endpoint) as raw:
                assert raw.ask(DISCOVER, database="/local").operation.status == SUCCESS
        else:
            with MongoClient[Any](server.mongo.uri, serverSelectionTimeoutMS=2_000) as client:
                client.admin.command("ping")

    with serve(memory=True, port=0) as server:
        front_end = built(server)._front_ends[part == "ydb"]
        load, front_end.load = front_end.load, fail
        with pytest.raises((grpc.RpcError, PyMongoError)):
            ask(server)
        answer = Http(port_of(server))("GET", "/_mayfly/ready")
        assert answer.status == 503 and b"could not be loaded: planted" in answer.body
        assert "a connection could not be served" in caplog.text
        front_end.load = load
        ask(server)
        assert Http(port_of(server))("GET", "/_mayfly/ready").status == 200


def test_a_listener_that_does_not_notice_a_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the front end is not loaded."""
    serve_sockets = Listener.serve

    def deaf(self: Listener, sockets: Any) -> None:
        if self._limits.name != "ydb_connections":
            serve_sockets(self, sockets)

    monkeypatch.setattr("mayflydb.serving.listener_checks.CHECK_SECONDS", 1.0)
    monkeypatch.setattr(Listener, "serve", deaf)
    with pytest.raises(StartFailed, match=r"gRPC on .* did not answer") as raised, serve(memory=True, port=0):
        pass
    assert raised.value.setting == "ydb.port"


def test_a_client_beside_the_relay_is_refused() -> None:
    with serve(memory=True, port=0, ydb_port=0, preload=True) as server:
        ydb = built(server)._ydb
        assert ydb is not None
        [listening] = ydb._listening
        with connected(server.ydb.endpoint) as raw:
            assert raw.ask(DISCOVER, database="/local").operation.status == SUCCESS
        with connected(f"grpc://127.0.0.1:{listening._relays.port}") as raw, pytest.raises(grpc.RpcError) as raised:
            raw.ask(DISCOVER, database="/local")
        assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_collections_wait_for_the_end_of_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(loading, "import_module", lambda _: seen.append(gc.isenabled()))
    assert not asyncio.run(load_modules("a", "b", then=gc.isenabled))
    assert seen == [False, False] and gc.isenabled()


def test_clients_wait_for_one_load_and_may_leave_meanwhile() -> None:
    async def main() -> None:
        loads, go, said = 0, asyncio.Event(), list[str]()

        async def load() -> None:
            nonlocal loads
            loads += 1
            await go.wait()

        front_end = FrontEnd("it", False, said.append)
        front_end.load = load
        waiting = [asyncio.create_task(front_end.ready()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        go.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in results] == [asyncio.CancelledError, type(None), type(None)]
        await front_end.ready()
        assert (loads, said) == (1, ["ok"])

    asyncio.run(main())
