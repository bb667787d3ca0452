"""Logins: who has no token is refused as gRPC has it, and tokens end with what they were given for."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from mayflydb.announcement import StartFailed
from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.sockets import guesses
from ydb_raw import Raw, connected

ydb: Any = pytest.importorskip("ydb")

SESSIONS = "Ydb.Table.V1.TableService/CreateSession"
SUCCESS, UNAUTHORIZED = 400000, 400020


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    place = tmp_path_factory.mktemp("ydb") / "password"
    place.write_text("secret\n")
    with serve(memory=True, port=0, mongo_port=-1, clock="virtual", ydb_password_file=str(place)) as server:
        yield server


@pytest.fixture
def client(guarded: RunningServer) -> Iterator[Raw]:
    with connected(guarded.ydb.endpoint) as raw:
        yield raw


def login(raw: Raw, user: str, password: str) -> Any:
    return raw.ask("Ydb.Auth.V1.AuthService/Login", user=user, password=password).operation


def token(raw: Raw, user: str = "root", password: str = "secret") -> tuple[str, str]:
    operation = login(raw, user, password)
    assert operation.status == SUCCESS, operation
    found = message("Ydb.Auth.LoginResult")()
    operation.result.Unpack(found)
    return ("x-ydb-auth-ticket", found.token)


def refusal(raw: Raw, metadata: list[tuple[str, str]]) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as raised:
        raw.ask(SESSIONS, metadata)
    return raised.value.code().name, raised.value.details()


def query(raw: Raw, ticket: tuple[str, str], text: str) -> list[Any]:
    session = raw.ask("Ydb.Query.V1.QueryService/CreateSession", [ticket]).session_id
    return list(
        raw.stream(
            "Ydb.Query.V1.QueryService/ExecuteQuery",
            [ticket],
            session_id=session,
            exec_mode=50,
            query_content={"text": text},
        )
    )


def test_a_password_holds_where_nobody_has_to_log_in(tmp_path: Path) -> None:
    place = tmp_path / "password"
    place.write_text("secret\n")
    options: dict[str, Any] = {"ydb_password_file": str(place), "ydb_auth": False}
    with serve(memory=True, port=0, mongo_port=-1, **options) as server, connected(server.ydb.endpoint) as raw:
        assert login(raw, "root", "wrong").status == UNAUTHORIZED
        assert login(raw, "root", "secret").status == SUCCESS
        assert raw.ask(SESSIONS).operation.status == SUCCESS


def test_without_a_good_token_nothing_is_answered(client: Raw) -> None:
    assert refusal(client, []) == ("UNAUTHENTICATED", "Access denied without user token")
    good = token(client)[1]
    for bad in (
        "nonsense",
        "a.b",
        "Zm9v.YmFy",
        good[:-4] + "AAA=",
        good.rpartition(".")[0] + ".",
        good.replace(".", "", 1),
    ):
        refused = refusal(client, [("x-ydb-auth-ticket", bad)])
        assert refused == ("UNAUTHENTICATED", "Could not find correct token validator")
    stream = client.stream("Ydb.Query.V1.QueryService/AttachSession", session_id="x")
    with pytest.raises(grpc.RpcError):
        next(stream)
    assert stream.code().name == "UNAUTHENTICATED"


def test_a_password_gives_a_token_that_ends(guarded: RunningServer, client: Raw) -> None:
    ticket = token(client)
    assert client.ask(SESSIONS, [ticket]).operation.status == SUCCESS
    guarded.clock.advance(hours=12)
    assert refusal(client, [ticket])[1] == "Could not find correct token validator"


def test_clients_read_in_a_token_when_it_ends(guarded: RunningServer, client: Raw) -> None:
    parts = token(client)[1].split(".")[:2]
    header, payload = (json.loads(base64.urlsafe_b64decode(f"{part}===")) for part in parts)
    now = int(guarded.clock.now().timestamp())
    assert header == {"alg": "HS256", "typ": "JWT"}
    assert (payload["sub"], payload["iat"], payload["exp"]) == ("root", now, now + 12 * 3600)


@pytest.mark.parametrize(("user", "password"), [("root", "wrong"), ("root", ""), ("nobody", "secret"), ("", "")])
def test_a_wrong_password_and_a_wrong_name_are_told_the_same(client: Raw, user: str, password: str) -> None:
    operation = login(client, user, password)
    assert (operation.status, operation.issues[0].message) == (UNAUTHORIZED, "Invalid password")


def test_who_guesses_has_to_wait(client: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    set_timer = guesses.call_later

    def call_later(seconds: float, function: Callable[[], None]) -> None:
        waits.append(seconds)
        set_timer(seconds, function)

    monkeypatch.setattr(guesses, "call_later", call_later)
    # The waits are those of the table, in other units.
    monkeypatch.setattr(guesses, "FIRST_WAIT", 2_000)
    said = [login(client, "guess", str(number)).issues[0].message for number in range(7)]
    assert said == ["Invalid password"] * 7
    assert waits == [0.002, 0.004, 0.008]


def test_users_are_made_changed_and_dropped_by_administrators(client: Raw) -> None:
    root = token(client)
    assert query(client, root, "CREATE USER alice PASSWORD 'a1'")[0].status == SUCCESS
    alice = token(client, "alice", "a1")
    who = client.ask("Ydb.Discovery.V1.DiscoveryService/WhoAmI", [alice], include_groups=True).operation
    found = message("Ydb.Discovery.WhoAmIResult")()
    who.result.Unpack(found)
    assert (found.user, list(found.groups)) == ("alice", ["all-users@well-known"])
    [denied] = query(client, alice, "CREATE USER bob PASSWORD 'b'")
    assert (denied.status, denied.issues[0].issue_code) == (UNAUTHORIZED, 2018)
    assert query(client, root, "ALTER USER alice PASSWORD 'a2'")[0].status == SUCCESS
    assert refusal(client, [alice])[1] == "Could not find correct token validator"
    alice = token(client, "alice", "a2")
    assert query(client, root, "CREATE GROUP staff")[0].status == SUCCESS
    assert query(client, root, "ALTER GROUP staff ADD USER alice")[0].status == SUCCESS
    assert query(client, root, "DROP USER alice")[0].status == SUCCESS
    assert refusal(client, [alice])[1] == "Could not find correct token validator"
    assert query(client, root, "CREATE USER alice PASSWORD 'a2'")[0].status == SUCCESS
    assert refusal(client, [alice])[1] == "Could not find correct token validator"


def test_the_vendors_client_logs_in(guarded: RunningServer) -> None:
    config = ydb.DriverConfig(guarded.ydb.endpoint, database="/local")
    config.credentials = ydb.StaticCredentials(config, "root", "secret")
    with ydb.Driver(config) as driver, ydb.QuerySessionPool(driver) as pool:
        driver.wait(timeout=5, fail_fast=True)
        assert pool.execute_with_retries("SELECT 1 AS a")[0].rows[0].a == 1


def test_a_made_password_is_kept_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    with serve(memory=True, port=0, mongo_port=-1, ydb_auth=True) as server, connected(server.ydb.endpoint) as raw:
        place = Path(server.announcement.ydb_password_path or "")
        assert place.stat().st_mode & 0o777 == 0o600
        assert token(raw, "root", place.read_text().strip())


def test_where_nobody_logs_in_any_ticket_will_do(raw: Raw) -> None:
    assert raw.ask(SESSIONS, [("x-ydb-auth-ticket", "anything")]).operation.status == SUCCESS
    assert login(raw, "root", "whatever").status == SUCCESS


def test_other_machines_never_come_in_without_a_login() -> None:
    far: dict[str, Any] = {
        "memory": True,
        "port": 0,
        "mongo_port": -1,
        "host": "0.0.0.0",
        "generate_key": True,
        "insecure": True,
    }
    with (
        pytest.raises(StartFailed, match="open to other machines without a login") as caught,
        serve(**far, ydb_auth=False),
    ):
        pass
    assert (caught.value.setting, caught.value.exit_code) == ("ydb.auth", 4)
