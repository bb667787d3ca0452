"""Logins, roles and the commands that they permit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from frontends.mongo.replies import said
from mayflydb.announcement import StartFailed
from mayflydb.embedded import RunningServer, serve

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


def test_other_machines_never_come_in_without_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    far: dict[str, Any] = {"memory": True, "port": 0, "mongo_port": 0, "host": "0.0.0.0", "generate_key": True}
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
