"""Servers that come and go in one process, beside clients that have event loops of their own."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from mayflydb.announcement import StartFailed
from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.ydb.app import YdbApp
from ydb_raw import connected

SUCCESS = 400000
QUERY = "Ydb.Query.V1.QueryService"
CREATE = "/Ydb.Table.V1.TableService/CreateSession"


def asked(server: RunningServer) -> None:
    """A session that is left attached, and a query in it."""
    with connected(server.ydb.endpoint) as raw:
        session = raw.ask(f"{QUERY}/CreateSession").session_id
        stream = raw.stream(f"{QUERY}/AttachSession", session_id=session)
        assert next(stream).status == SUCCESS
        text = {"text": "SELECT 1"}
        [part] = raw.stream(f"{QUERY}/ExecuteQuery", session_id=session, exec_mode=50, query_content=text)
        assert part.status == SUCCESS


async def several(server: RunningServer) -> None:
    """Calls at once, from the loop that runs this."""
    async with grpc.aio.insecure_channel(server.ydb.endpoint.partition("://")[2]) as channel:
        create = channel.unary_unary(CREATE)
        answers = await asyncio.gather(*(create(b"", timeout=60) for _ in range(20)))
        assert all(answers)


def _apps() -> int:
    """Return the number of front ends in this process. Other tests may have servers too."""
    gc.collect()
    return sum(isinstance(each, YdbApp) for each in gc.get_objects())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_many_servers_one_after_the_other_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch, loop: str) -> None:
    if loop == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    else:
        pytest.importorskip("uvloop")
    threads = []
    others = _apps()
    for _ in range(8):
        with serve(memory=True, port=0, mongo_port=-1) as server:
            assert server._home.loop.__class__.__module__.startswith(loop)
            asked(server)
            asyncio.run(several(server))
        del server
        threads.append(threading.active_count())
        assert _apps() <= others
    assert threads[-1] <= threads[0]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_clients_in_several_loops_beside_the_servers_own(monkeypatch: pytest.MonkeyPatch, loop: str) -> None:
    if loop == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    else:
        pytest.importorskip("uvloop")
    with serve(memory=True, port=0, mongo_port=-1) as server, ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(asyncio.run, several(server)) for _ in range(8)]:
            done.result(30)
        asked(server)


def test_two_servers_never_share_a_port() -> None:
    """Neither a chosen port nor a named one, plain or with TLS, may be the first server's."""
    with serve(memory=True, port=0, mongo_port=-1) as first, serve(memory=True, port=0, mongo_port=-1) as second:
        assert first.ydb.endpoint != second.ydb.endpoint
        port = int(first.ydb.endpoint.rpartition(":")[2])
        ways: list[dict[str, Any]] = [{"ydb_port": port}, {"ydb_port": -1, "ydb_tls_port": port}]
        for wanted in ways:
            with (
                pytest.raises(StartFailed, match=r"is taken|in use"),
                serve(memory=True, port=0, mongo_port=-1, **wanted),
            ):
                pass
        asked(first)
        asked(second)
