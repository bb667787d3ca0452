"""Every method of every service without a token, with a bad one, and as a user; statements about users for everyone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from frontends.ydb.wire.test_logins import SUCCESS, UNAUTHORIZED, query, token
from mayflydb.embedded import serve
from mayflydb.frontends.ydb.commands.table import COMMANDS
from mayflydb.frontends.ydb.methods import Method, all_methods
from ydb_raw import Raw, connected

METHODS: Final = list(all_methods(COMMANDS))
OPEN: Final = ("Ydb.Auth.V1.AuthService/Login",)
"""The methods that need no token. The rows stand here once more: a service that is added is closed unless it is named."""

BAD: Final = ("x-ydb-auth-ticket", "bm9uc2Vuc2U.bm9uc2Vuc2U.bm9uc2Vuc2U")
STATEMENTS: Final = (
    "CREATE USER bob PASSWORD 'b'",
    "ALTER USER bob PASSWORD 'c'",
    "ALTER USER bob NOLOGIN",
    "CREATE GROUP staff",
    "ALTER GROUP staff ADD USER bob",
    "ALTER GROUP staff DROP USER bob",
    "ALTER GROUP ADMINS ADD USER alice",
    "DROP GROUP staff",
    "DROP USER bob",
)


class Guarded:
    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.root = token(raw)
        assert query(raw, self.root, "CREATE USER alice PASSWORD 'a1'")[0].status == SUCCESS
        self.alice = token(raw, "alice", "a1")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    place: Path = tmp_path_factory.mktemp("ydb") / "password"
    place.write_text("secret\n")
    options: dict[str, Any] = {"ydb_password_file": str(place), "mongo_port": -1}
    with serve(memory=True, port=0, **options) as server, connected(server.ydb.endpoint) as raw:
        yield Guarded(raw)


def code(raw: Raw, method: Method, metadata: list[tuple[str, str]]) -> str:
    """Call a method with an empty request, and return the code of gRPC: OK also for answers with a status of YDB's."""
    try:
        if method.streams_requests or method.streams_responses:
            call = raw.stream(method.name, metadata)
            next(call, None)
            call.cancel()
        else:
            raw.ask(method.name, metadata)
    except grpc.RpcError as refused:
        name: str = refused.code().name
        return name
    return "OK"


@pytest.mark.parametrize("method", METHODS, ids=[each.name.rpartition(".")[2] for each in METHODS])
def test_a_method_needs_a_token(guarded: Guarded, method: Method) -> None:
    wanted = "OK" if method.name in OPEN else "UNAUTHENTICATED"
    assert [code(guarded.raw, method, each) for each in ([], [BAD], [guarded.alice])] == [wanted, wanted, "OK"]


def test_the_table_has_the_methods_that_are_open() -> None:
    assert {*OPEN} <= {each.name for each in METHODS}


@pytest.mark.parametrize("mode", [50, 30], ids=["execute", "explain"])
@pytest.mark.parametrize("text", STATEMENTS)
def test_users_are_for_administrators(guarded: Guarded, text: str, mode: int) -> None:
    session = guarded.raw.ask("Ydb.Query.V1.QueryService/CreateSession", [guarded.alice]).session_id
    name, content = "Ydb.Query.V1.QueryService/ExecuteQuery", {"text": text}
    said = list(guarded.raw.stream(name, [guarded.alice], session_id=session, exec_mode=mode, query_content=content))
    assert [each.status for each in said] == [UNAUTHORIZED]


def test_an_administrator_may_run_them_all(guarded: Guarded) -> None:
    for text in STATEMENTS:
        assert [each.status for each in query(guarded.raw, guarded.root, text)] == [SUCCESS], text
    # The group of administrators gives the right, and its end takes it.
    assert query(guarded.raw, guarded.alice, "CREATE GROUP own")[0].status == SUCCESS
    assert query(guarded.raw, guarded.root, "ALTER GROUP ADMINS DROP USER alice")[0].status == SUCCESS
    assert query(guarded.raw, guarded.alice, "DROP GROUP own")[0].status == UNAUTHORIZED
