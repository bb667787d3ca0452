"""Sessions of both services, as the wire has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.sessions import Sessions
from mayflydb.model.instant import MINUTE
from mayflydb.model.quota import Quota
from mayflydb.query.yql.faults import Fault
from ydb_raw import Raw, connected

TABLE, QUERY = "Ydb.Table.V1.TableService", "Ydb.Query.V1.QueryService"
SUCCESS, BAD_REQUEST, BAD_SESSION, SCHEME_ERROR = 400000, 400010, 400100, 400070


def table_session(raw: Raw) -> str:
    id: str = raw.result(f"{TABLE}/CreateSession", "Ydb.Table.CreateSessionResult").session_id
    return id


def query_session(raw: Raw) -> str:
    created = raw.ask(f"{QUERY}/CreateSession")
    assert (created.status, created.node_id) == (SUCCESS, 1)
    id: str = created.session_id
    return id


def test_ids_are_those_of_node_one_and_never_the_same(raw: Raw) -> None:
    ids = {table_session(raw), query_session(raw), table_session(raw)}
    assert len(ids) == 3
    assert all(id.startswith("ydb://session/3?node_id=1&id=") for id in ids)


def test_a_table_session_is_ready_until_it_is_deleted(raw: Raw) -> None:
    id = table_session(raw)
    alive = raw.result(f"{TABLE}/KeepAlive", "Ydb.Table.KeepAliveResult", session_id=id)
    assert alive.session_status == 1
    assert raw.ask(f"{TABLE}/DeleteSession", session_id=id).operation.status == SUCCESS
    operation = raw.ask(f"{TABLE}/KeepAlive", session_id=id).operation
    assert (operation.status, operation.issues[0].message) == (BAD_SESSION, f"Session not found: {id}")


def test_a_session_that_has_ended_may_be_deleted_again(raw: Raw) -> None:
    table, query = table_session(raw), query_session(raw)
    for _ in range(2):
        assert raw.ask(f"{TABLE}/DeleteSession", session_id=table).operation.status == SUCCESS
        assert raw.ask(f"{QUERY}/DeleteSession", session_id=query).status == SUCCESS
    assert raw.ask(f"{TABLE}/DeleteSession", session_id="").operation.status == BAD_REQUEST
    assert raw.ask(f"{QUERY}/DeleteSession", session_id="").status == BAD_REQUEST


def test_an_attached_stream_says_one_thing_at_once_and_ends_with_its_session(raw: Raw) -> None:
    id = query_session(raw)
    stream = raw.stream(f"{QUERY}/AttachSession", session_id=id)
    assert next(stream).status == SUCCESS
    assert raw.ask(f"{QUERY}/DeleteSession", session_id=id).status == SUCCESS
    assert list(stream) == []
    assert stream.code().name == "OK"
    [answer] = raw.stream(f"{QUERY}/AttachSession", session_id=id)
    assert (answer.status, answer.issues[0].message) == (BAD_SESSION, f"Session not found: {id}")


def test_a_session_is_that_of_its_database_alone(raw: Raw) -> None:
    id = table_session(raw)
    other = raw.ask(f"{TABLE}/KeepAlive", [("x-ydb-database", "/Root")], session_id=id).operation
    assert other.status == BAD_SESSION
    unknown = raw.ask(f"{TABLE}/KeepAlive", [("x-ydb-database", "/nowhere")], session_id=id).operation
    assert (unknown.status, unknown.issues[0].message) == (SCHEME_ERROR, "Requested database not exists")


def test_a_table_session_does_not_end_where_only_the_virtual_clock_moves(ydb_server: RunningServer, raw: Raw) -> None:
    id = table_session(raw)
    ydb_server.clock.advance(days=2)
    assert raw.ask(f"{TABLE}/KeepAlive", session_id=id).operation.status == SUCCESS


@pytest.mark.parametrize("service", [TABLE, QUERY])
def test_deleting_a_session_that_is_gone_succeeds(raw: Raw, service: str) -> None:
    # As in YDB: who has heard BAD_SESSION deletes it all the same.
    kept = table_session(raw)
    statuses = []
    for id in (kept, kept, "ydb://session/3?node_id=1&id=unknown", ""):
        answer = raw.ask(f"{service}/DeleteSession", session_id=id)
        statuses.append(answer.operation.status if service == TABLE else answer.status)
    assert statuses == [SUCCESS, SUCCESS, SUCCESS, BAD_REQUEST]
    assert raw.ask(f"{TABLE}/KeepAlive", session_id=kept).operation.status == BAD_SESSION


def test_a_server_that_stops_tells_those_who_hold_sessions() -> None:
    with ExitStack() as client:
        with serve(memory=True, port=0, mongo_port=-1) as server:
            raw = client.enter_context(connected(server.ydb.endpoint))
            stream = raw.stream(f"{QUERY}/AttachSession", session_id=query_session(raw))
            assert next(stream).status == SUCCESS
        [last] = stream
        assert last.WhichOneof("session_hint") == "node_shutdown"
        assert stream.code().name == "OK"


# --- without a wire ------------------------------------------------------------------------------------------------------


class Open:
    """A transaction that remembers its end."""

    closed = False

    def close(self) -> None:
        self.closed = True


def call(now: int = 0) -> GrpcCall:
    return GrpcCall("/local", now)


def run(body: Any) -> None:
    asyncio.run(body())


def made(most: int = 3, time: Callable[[], float] | None = None) -> Sessions:
    return Sessions(Random(1), idle=20 * MINUTE, limit=Quota("ydb_sessions", most), time=time)


def test_one_request_at_a_time_has_a_session() -> None:
    async def body() -> None:
        sessions = made()
        session = sessions.create(call(), "table")
        with sessions.hold(call(), session.id) as work:
            with pytest.raises(Fault, match="Pending previous query completion") as raised:
                sessions.hold(call(), session.id)
            assert raised.value.status == "SESSION_BUSY"
            work.release()
            with sessions.hold(call(), session.id):
                # Whoever let go early takes nothing from who came after.
                work.release()
                assert session.busy
        assert not session.busy

    run(body)


def test_closing_rolls_back_at_once_or_when_the_request_ends() -> None:
    async def body() -> None:
        sessions = made()
        idle, busy = sessions.create(call(), "table"), sessions.create(call(), "query")
        first, second = Open(), Open()
        idle.transactions["a"], busy.transactions["b"] = first, second
        sessions.close(idle)
        assert first.closed and not idle.transactions
        with sessions.hold(call(), busy.id):
            sessions.close(busy)
            assert not second.closed
        assert second.closed

    run(body)


def test_too_many_sessions_are_refused_and_unused_ones_make_room() -> None:
    async def body() -> None:
        seconds = 0.0
        sessions = made(most=2, time=lambda: seconds)
        first = sessions.create(call(), "table")
        seconds = 60
        second = sessions.create(call(), "table")
        seconds = 120
        with pytest.raises(Fault, match="Active sessions limit exceeded") as raised:
            sessions.create(call(), "table")
        assert raised.value.status == "OVERLOADED"
        seconds = 20 * 60 + 1
        sessions.create(call(), "table")
        assert first.closed and not second.closed
        assert len(sessions) == 2

    run(body)


def test_a_query_session_ends_some_time_after_its_last_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        sessions = made()
        session = sessions.create(call(), "query")
        sessions.attach(session)
        sessions.attach(session)
        monkeypatch.setattr("mayflydb.frontends.ydb.sessions.DETACH_TIMEOUT", 0)
        sessions.detach(session)
        await asyncio.sleep(0)
        assert not session.closed
        sessions.detach(session)
        assert await session.wait_for_close() is None
        assert len(sessions) == 0

    run(body)
