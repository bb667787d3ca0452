"""Limits of YDB's clients: sessions, transactions, calls, messages and answers; each at its limit and one beyond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.ydb import intake
from ydb_raw import Raw, connected

TABLE, QUERY = "Ydb.Table.V1.TableService", "Ydb.Query.V1.QueryService"
SUCCESS, BAD_REQUEST, OVERLOADED, BAD_SESSION = 400000, 400010, 400060, 400100
MB = 1_000_000

LIMITS: dict[str, Any] = {
    "ydb_max_sessions": 3,
    "ydb_max_calls": 3,
    "ydb_max_session_transactions": 2,
    "open_transactions": 3,
    "transaction_bytes": "100kB",
    "bytes_in_flight": "1MB",
}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serve(memory=True, port=0, **LIMITS) as found:
        yield found


@pytest.fixture
def raw(server: RunningServer) -> Iterator[Raw]:
    with connected(server.ydb.endpoint) as found:
        yield found


@pytest.fixture
def sessions(raw: Raw) -> Iterator[list[str]]:
    """Two sessions."""
    made = [raw.result(f"{TABLE}/CreateSession", "Ydb.Table.CreateSessionResult").session_id for _ in range(2)]
    yield made
    for id in made:
        raw.ask(f"{TABLE}/DeleteSession", session_id=id)


def begin(raw: Raw, session: str) -> Any:
    settings: dict[str, Any] = {"serializable_read_write": {}}
    return raw.ask(f"{TABLE}/BeginTransaction", session_id=session, tx_settings=settings).operation


def test_sessions_have_a_limit(raw: Raw, sessions: list[str]) -> None:
    third = raw.result(f"{TABLE}/CreateSession", "Ydb.Table.CreateSessionResult").session_id
    assert raw.ask(f"{TABLE}/CreateSession").operation.status == OVERLOADED
    assert raw.ask(f"{QUERY}/CreateSession").status == OVERLOADED
    assert raw.ask(f"{TABLE}/DeleteSession", session_id=third).operation.status == SUCCESS
    third = raw.result(f"{TABLE}/CreateSession", "Ydb.Table.CreateSessionResult").session_id
    raw.ask(f"{TABLE}/DeleteSession", session_id=third)


def test_open_transactions_have_a_limit_of_a_session_and_one_of_all(raw: Raw, sessions: list[str]) -> None:
    first, second = sessions
    assert [begin(raw, first).status for _ in range(2)] == [SUCCESS] * 2
    refused = begin(raw, first)
    text = "Too many transactions, current active: 2 MaxTxPerSession: 2"
    assert (refused.status, refused.issues[0].message, refused.issues[0].issue_code) == (BAD_SESSION, text, 2014)
    assert begin(raw, second).status == SUCCESS
    refused = begin(raw, second)
    assert (refused.status, refused.issues[0].issue_code) == (OVERLOADED, 2014)
    # The end of a session ends its transactions.
    assert raw.ask(f"{TABLE}/DeleteSession", session_id=first).operation.status == SUCCESS
    assert begin(raw, second).status == SUCCESS


@pytest.mark.parametrize(("size", "status"), [(40_000, SUCCESS), (51_000, OVERLOADED)])
def test_writes_of_transactions_have_a_limit(raw: Raw, sessions: list[str], size: int, status: int) -> None:
    session = sessions[0]
    create = "CREATE TABLE IF NOT EXISTS notes (id Int32, text Utf8, PRIMARY KEY (id))"
    assert raw.ask(f"{TABLE}/ExecuteSchemeQuery", session_id=session, yql_text=create).operation.status == SUCCESS
    query = {"yql_text": f'UPSERT INTO notes (id, text) VALUES (1, "{"x" * size}"u)'}
    control: dict[str, Any] = {"begin_tx": {"serializable_read_write": {}}}
    written = raw.ask(f"{TABLE}/ExecuteDataQuery", session_id=session, query=query, tx_control=control).operation
    assert written.status == status


def code_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    found: grpc.StatusCode = refused.value.code()
    return found


def test_calls_in_work_have_a_limit(raw: Raw, server: RunningServer) -> None:
    with connected(server.ydb.endpoint) as other:
        session = raw.ask(f"{QUERY}/CreateSession").session_id
        streams = [raw.stream(f"{QUERY}/AttachSession", session_id=session) for _ in range(3)]
        for each in streams:
            assert next(each).status == SUCCESS
        assert code_of(lambda: other.ask(f"{QUERY}/CreateSession")) is grpc.StatusCode.RESOURCE_EXHAUSTED
        for each in streams[1:]:
            each.cancel()
        # A cancelled stream ends on the server a moment later.
        answered = (_answers(other, session) for _ in range(1000))
        assert any(answered), "calls that have ended are counted on"


def _answers(raw: Raw, session: str) -> bool:
    try:
        return bool(raw.ask(f"{QUERY}/DeleteSession", session_id=session).status == SUCCESS)
    except grpc.RpcError:
        return False


@pytest.mark.parametrize(("size", "fits"), [(900_000, True), (1_100_000, False)])
def test_messages_have_a_limit_in_all(raw: Raw, size: int, fits: bool) -> None:
    # Bytes that are no message: a message that is taken is refused as unreadable.
    call = raw.channel.unary_unary(f"/{QUERY}/CreateSession")
    if fits:
        assert call(b"\0" * size, timeout=10)
    else:
        assert code_of(lambda: call(b"\0" * size, timeout=10)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    # Nothing stays charged, and small messages are taken at any time.
    assert call(b"\0" * 500_000, timeout=10)


def test_a_slow_message_comes_in_where_less_than_the_largest_may_be_held(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "GRACE_SECONDS", 0.0)
    call = raw.channel.unary_unary("/Ydb.Discovery.V1.DiscoveryService/ListEndpoints")
    for _ in range(20):
        assert call(b"", timeout=10)


def test_a_ticket_is_judged_before_a_message_is_asked_for(tmp_path: Any) -> None:
    place = tmp_path / "password"
    place.write_text("root's own", encoding="utf-8")
    limits = {**LIMITS, "bytes_in_flight": "1kB"}
    with (
        serve(memory=True, port=0, ydb_password_file=str(place), **limits) as server,
        connected(server.ydb.endpoint) as raw,
    ):
        call = raw.channel.unary_unary(f"/{QUERY}/CreateSession")
        # The message alone would be refused with RESOURCE_EXHAUSTED.
        forged = (("x-ydb-auth-ticket", "forged"),)
        assert code_of(lambda: call(b"\0" * MB, timeout=10)) is grpc.StatusCode.UNAUTHENTICATED
        assert code_of(lambda: call(b"\0" * MB, metadata=forged, timeout=10)) is grpc.StatusCode.UNAUTHENTICATED
