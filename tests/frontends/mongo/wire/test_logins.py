"""Logins, roles and the commands that they permit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from frontends.mongo.replies import said
from mayflydb.announcement import StartFailed
from mayflydb.embedded import RunningServer, serve
from mayflydb.sockets import guesses

Client = MongoClient[dict[str, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    place = tmp_path_factory.mktemp("logins") / "password"
    place.write_text("root's own\n", encoding="utf-8")
    with serve(memory=True, port=0, mongo_port=0, mongo_password_file=str(place)) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: RunningServer) -> Iterator[Client]:
    with server.mongo.client() as client:
        yield client


def as_user(server: RunningServer, name: str, password: str, db: str, **options: Any) -> Client:
    place = server.mongo.uri.rpartition("@")[2].partition("/")[0]
    return MongoClient(f"mongodb://{place}", username=name, password=password, authSource=db, **options)


def code_of(client: Client, db: str, command: str, value: Any = 1, **fields: Any) -> int | None:
    try:
        client[db].command(command, value, **fields)
    except OperationFailure as refused:
        return refused.code
    return None


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-1"])
@pytest.mark.parametrize("name", ["ann", "a,b=c", "äö"])
def test_a_user_logs_in(server: RunningServer, root: Client, name: str, mechanism: str) -> None:
    root.shop.command("createUser", name, pwd="p,=ä", roles=["readWrite"], mechanisms=[mechanism])
    with as_user(server, name, "p,=ä", "shop", authMechanism=mechanism) as client:
        info = client.shop.command("connectionStatus")["authInfo"]
        assert info["authenticatedUsers"] == [{"user": name, "db": "shop"}]
    with as_user(server, name, "other", "shop", authMechanism=mechanism) as client:
        assert code_of(client, "shop", "ping") == 18
    root.shop.command("dropUser", name)
    with as_user(server, name, "p,=ä", "shop", authMechanism=mechanism) as client:
        assert code_of(client, "shop", "ping") == 18


def test_without_a_login(server: RunningServer) -> None:
    place = server.mongo.uri.rpartition("@")[2].partition("/")[0]
    with MongoClient[dict[str, Any]](f"mongodb://{place}") as client:
        for command in ("ping", "hello", "buildInfo", "whatsmyuri", "connectionStatus", "logout"):
            assert code_of(client, "admin", command) is None
        for command in ("listCommands", "createUser", "startSession", "getLog"):
            with pytest.raises(OperationFailure, match=f"Command {command} requires authentication") as caught:
                client.admin.command(command)
            assert caught.value.code == 13
        named = client.admin.command("hello", saslSupportedMechs="admin.admin")
        assert named["saslSupportedMechs"] == ["SCRAM-SHA-256", "SCRAM-SHA-1"]
        assert "saslSupportedMechs" not in client.admin.command("hello", saslSupportedMechs="admin.nobody")


def test_roles(server: RunningServer, root: Client) -> None:
    root.shop.command("createUser", "boss", pwd="p", roles=["userAdmin"])
    with as_user(server, "boss", "p", "shop") as client:
        assert code_of(client, "shop", "createUser", "bob", pwd="p", roles=["read"]) is None
        # Nobody gives away what is not theirs to give.
        assert code_of(client, "shop", "createUser", "eve", pwd="p", roles=[{"role": "root", "db": "admin"}]) == 13
        assert code_of(client, "shop", "grantRolesToUser", "bob", roles=[{"role": "read", "db": "admin"}]) == 13
        assert code_of(client, "admin", "hostInfo") == 13
        assert code_of(client, "shop", "createUser", "bob", pwd="p", roles=[]) == 51003
        assert code_of(client, "shop", "createUser", "eve", pwd="p", roles=["king"]) == 31
        assert code_of(client, "shop", "dropUser", "nobody") == 11
        root.shop.command("dropUser", "boss")
        # A connection that is open already is nobody's from then on.
        assert code_of(client, "shop", "usersInfo") == 13


@pytest.mark.parametrize(
    ("field", "fits", "too_large"),
    [
        ("pwd", "p" * 4096, "p" * 4097),
        ("roles", ["read"] * 1000, ["read"] * 1001),
        ("customData", {"s": "x" * 1_000_000}, {"s": "x" * 1_100_000}),
    ],
)
def test_users_have_limits(root: Client, field: str, fits: object, too_large: object) -> None:
    given: dict[str, Any] = {"pwd": "p", "roles": []}
    assert code_of(root, "crm", "createUser", "dora", **{**given, field: too_large}) == 2
    root.crm.command("createUser", "dora", **{**given, field: fits})
    assert code_of(root, "crm", "updateUser", "dora", **{field: too_large}) == 2
    root.crm.command("dropUser", "dora")


def test_grants_add_up_to_the_limit_of_roles(root: Client) -> None:
    given = [{"role": "read", "db": f"d{number}"} for number in range(1000)]
    root.crm.command("createUser", "dora", pwd="p", roles=given)
    root.crm.command("grantRolesToUser", "dora", roles=given)
    assert code_of(root, "crm", "grantRolesToUser", "dora", roles=["read"]) == 2
    root.crm.command("dropUser", "dora")


def test_users_are_described_and_changed(root: Client) -> None:
    root.crm.command("createUser", "carl", pwd="p", roles=["read"], customData={"n": 1})
    root.crm.command("grantRolesToUser", "carl", roles=["readWrite"])
    root.crm.command("revokeRolesFromUser", "carl", roles=["read"])
    root.crm.command("updateUser", "carl", customData={"n": 2})
    (shown,) = root.crm.command("usersInfo", "carl")["users"]
    assert shown.pop("userId") is not None
    assert shown == {
        "_id": "crm.carl",
        "user": "carl",
        "db": "crm",
        "customData": {"n": 2},
        "roles": [{"role": "readWrite", "db": "crm"}],
        "mechanisms": ["SCRAM-SHA-256"],
    }
    assert said(root.crm.command("dropAllUsersFromDatabase")) == {"n": 1, "ok": 1.0}
    assert root.crm.command("usersInfo", 1)["users"] == []
    assert code_of(root, "admin", "dropUser", "admin") == 20


@pytest.mark.parametrize("name", ["admin", "nobody"])
def test_who_guesses_has_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    waits: list[float] = []

    set_timer = guesses.call_later

    def call_later(seconds: float, function: Callable[[], None]) -> None:
        waits.append(seconds)
        set_timer(seconds, function)

    monkeypatch.setattr(guesses, "call_later", call_later)
    # The waits are those of the table, in other units.
    monkeypatch.setattr(guesses, "FIRST_WAIT", 2_000)
    place = tmp_path / "password"
    place.write_text("right")
    with serve(memory=True, port=0, mongo_port=0, mongo_password_file=str(place)) as server:
        for _ in range(7):
            with as_user(server, name, "wrong", "admin") as client, pytest.raises(OperationFailure) as refused:
                client.admin.command("ping")
            assert refused.value.code == 18
        assert waits == [0.002, 0.004, 0.008]
        # The right password waits for its turn, and comes in.
        with as_user(server, "admin", "right", "admin") as client:
            assert code_of(client, "admin", "hostInfo") is None
        assert len(waits) == 3


def test_what_a_dropped_user_has_open_ends(server: RunningServer, root: Client) -> None:
    root.shop.open.insert_many([{"_id": number} for number in range(300)])
    root.shop.command("createUser", "ann", pwd="p", roles=["readWrite"])
    with as_user(server, "ann", "p", "shop") as ann, ann.start_session() as session:
        session.start_transaction()
        ann.shop.open.update_one({"_id": 1}, {"$set": {"by": "ann"}}, session=session)
        # A command, and no cursor of the client: that one would be closed by the client.
        cursor = ann.shop.command("find", "open", batchSize=2)["cursor"]["id"]
        assert code_of(root, "shop", "getMore", Int64(cursor), collection="open") == 13
        root.shop.command("dropUser", "ann")
        assert code_of(ann, "shop", "count", "open") == 13
        # The transaction holds no lock any more, and the cursor is closed.
        statement = {"q": {"_id": 1}, "u": {"$set": {"by": "root"}}}
        assert root.shop.command("update", "open", updates=[statement], maxTimeMS=5000)["nModified"] == 1
        assert code_of(root, "shop", "getMore", Int64(cursor), collection="open") == 43
    assert root.shop.open.find_one({"_id": 1}) == {"_id": 1, "by": "root"}
    root.shop.drop_collection("open")


def test_guesses_at_once_wait_or_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that wait for their turn, and those that find too many who wait, all fail as a login does."""
    monkeypatch.setattr(guesses, "FIRST_WAIT", 20_000)
    monkeypatch.setattr(guesses, "LONGEST_WAIT", 100_000)
    monkeypatch.setattr(guesses, "MAX_WAITING", 3)
    place = tmp_path / "password"
    place.write_text("right")
    with serve(memory=True, port=0, mongo_port=0, mongo_password_file=str(place)) as server:

        def guess(number: int) -> int | None:
            with as_user(server, "admin", f"wrong {number}", "admin") as client:
                return code_of(client, "admin", "ping")

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(guess, range(16))) == {18}
        with as_user(server, "admin", "right", "admin") as client:
            assert code_of(client, "admin", "hostInfo") is None


def test_other_machines_never_come_in_without_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    far: dict[str, Any] = {
        "memory": True,
        "port": 0,
        "mongo_port": 0,
        "host": "0.0.0.0",
        "generate_key": True,
        "insecure": True,
    }
    with (
        pytest.raises(StartFailed, match="open to other machines without a login") as caught,
        serve(**far, mongo_auth=False),
    ):
        pass
    assert (caught.value.setting, caught.value.exit_code) == ("mongo.auth", 4)
    with serve(**far) as server:
        place = Path(server.announcement.mongo_password_path or "")
        assert place.stat().st_mode & 0o777 == 0o600
        with as_user(server, "admin", place.read_text(encoding="utf-8").strip(), "admin") as client:
            assert code_of(client, "admin", "hostInfo") is None


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ([{"$out": "new"}], 13),
        ([{"$merge": "c"}], 13),
        ([{"$out": {"db": "other", "coll": "c"}}], 13),
        ([{"$merge": {"into": {"db": "other", "coll": "c"}}}], 13),
        ([{"$unionWith": "d"}], None),
    ],
    ids=str,
)
def test_a_pipeline_does_what_its_user_may(
    server: RunningServer, root: Client, stages: list[dict[str, Any]], code: int | None
) -> None:
    for db, name in (("shop", "c"), ("shop", "d"), ("other", "c")):
        root[db][name].update_one({"_id": 1}, {"$set": {"x": 1}}, upsert=True)
    root.shop.command("createUser", "reader", pwd="p", roles=["read"])
    try:
        with as_user(server, "reader", "p", "shop") as client:
            assert code_of(client, "shop", "aggregate", "c", pipeline=stages, cursor={}) == code
    finally:
        root.shop.command("dropUser", "reader")
    assert root.shop.list_collection_names(filter={"name": "new"}) == []
