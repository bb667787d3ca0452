"""Roles that commands create: their privileges are checked at each command, as the rights of built-in roles are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.mongo.accounts.needs import need_of, right_of
from mayflydb.frontends.mongo.accounts.privileges import ACTIONS_OF_RIGHTS, CLUSTER, OF_CLUSTER
from mayflydb.frontends.mongo.commands.table import HANDLERS

Body = dict[str, Any]
Client = MongoClient[Body]

NO_MATCH: Final = {"q": {"_id": "none"}, "limit": 0}


def on(database: str, collection: str, *actions: str) -> Body:
    return {"resource": {"db": database, "collection": collection}, "actions": list(actions)}


def code_of(client: Client, database: str, command: Body) -> int | None:
    try:
        client[database].command(command)
    except OperationFailure as error:
        return error.code
    return None


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    password = tmp_path_factory.mktemp("roles") / "password"
    password.write_text("secret")
    with serve(memory=True, port=0, mongo_port=0, mongo_auth=True, mongo_password_file=Path(password)) as server:
        yield server


def log_in(server: RunningServer, user: str, password: str, source: str) -> Client:
    address = server.mongo.uri.partition("@")[2].partition("/")[0]
    return MongoClient(f"mongodb://{user}:{password}@{address}/?directConnection=true&authSource={source}")


@pytest.fixture(scope="module")
def root(guarded: RunningServer) -> Iterator[Client]:
    with log_in(guarded, "admin", "secret", "admin") as client:
        for database, name in (("shop", "orders"), ("shop", "prices"), ("other", "things")):
            client[database][name].insert_one({"_id": 1, "n": 1})
        client["shop"].create_collection("view", viewOn="orders")
        client["shop"].create_collection(
            "joined", viewOn="orders", pipeline=[{"$lookup": {"from": "prices", "as": "p", "pipeline": []}}]
        )
        yield client


AGGREGATE: Final[Body] = {"aggregate": "orders", "cursor": {}}

MAY: Final[list[tuple[str, Body, Body | list[Body], bool]]] = [
    ("shop", {"find": "orders"}, on("shop", "orders", "find"), True),
    ("shop", {"find": "prices"}, on("shop", "orders", "find"), False),
    ("other", {"find": "things"}, on("shop", "orders", "find"), False),
    ("shop", {"find": "prices"}, on("shop", "", "find"), True),
    ("other", {"find": "things"}, on("shop", "", "find"), False),
    ("other", {"find": "things"}, on("", "things", "find"), True),
    ("shop", {"find": "orders"}, on("", "things", "find"), False),
    ("shop", {"find": "orders"}, on("", "", "find"), True),
    ("shop", {"find": "orders"}, {"resource": {"anyResource": True}, "actions": ["anyAction"]}, True),
    ("admin", {"serverStatus": 1}, {"resource": {"anyResource": True}, "actions": ["anyAction"]}, True),
    ("admin", {"serverStatus": 1}, {"resource": {"cluster": True}, "actions": ["serverStatus"]}, True),
    ("admin", {"top": 1}, {"resource": {"cluster": True}, "actions": ["serverStatus"]}, False),
    ("admin", {"serverStatus": 1}, on("", "", "serverStatus"), False),
    ("shop", {"count": "orders"}, on("shop", "orders", "find"), True),
    ("shop", {"explain": {"find": "orders"}}, on("shop", "orders", "find"), True),
    ("shop", {"explain": {"find": "prices"}}, on("shop", "orders", "find"), False),
    ("shop", {"insert": "orders", "documents": [{}]}, on("shop", "orders", "find"), False),
    ("shop", {"insert": "orders", "documents": [{}]}, on("shop", "orders", "insert"), True),
    ("shop", {"delete": "orders", "deletes": [NO_MATCH]}, on("shop", "orders", "insert", "update"), False),
    ("shop", {"delete": "orders", "deletes": [NO_MATCH]}, on("shop", "orders", "remove"), True),
    ("shop", {"update": "orders", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}}]}, on("shop", "orders", "update"), True),
    (
        "shop",
        {"update": "orders", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}, "upsert": True}]},
        on("shop", "orders", "update"),
        False,
    ),
    (
        "shop",
        {"update": "orders", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}, "upsert": True}]},
        on("shop", "orders", "update", "insert"),
        True,
    ),
    (
        "shop",
        {"update": "orders", "updates": [{"q": {"_id": 1}, "u": {"$set": {"upsert": True}}, "upsert": False}]},
        on("shop", "orders", "update"),
        True,
    ),
    ("shop", {"findAndModify": "orders", "update": {"$set": {"n": 1}}}, on("shop", "orders", "find"), False),
    ("shop", {"findAndModify": "orders", "update": {"$set": {"n": 1}}}, on("shop", "orders", "find", "update"), True),
    ("shop", {"findAndModify": "orders", "query": {}, "remove": True}, on("shop", "orders", "find", "update"), False),
    ("shop", {"createIndexes": "orders", "indexes": [{"key": {"n": 1}, "name": "n"}]}, on("shop", "", "createIndex"), True),
    ("shop", {"dropIndexes": "orders", "index": "n"}, on("shop", "", "createIndex"), False),
    ("shop", {"listIndexes": "orders"}, on("shop", "", "listIndexes"), True),
    ("shop", {"dbStats": 1}, on("shop", "orders", "dbStats"), False),
    ("shop", {"dbStats": 1}, on("shop", "", "dbStats"), True),
    ("shop", {"killCursors": "orders", "cursors": []}, on("shop", "orders", "find"), True),
    ("shop", AGGREGATE | {"pipeline": []}, on("shop", "orders", "find"), True),
    ("shop", AGGREGATE | {"pipeline": [{"$collStats": {}}]}, on("shop", "orders", "find"), False),
    ("shop", AGGREGATE | {"pipeline": [{"$collStats": {}}]}, on("shop", "orders", "collStats"), True),
    ("shop", AGGREGATE | {"pipeline": [{"$indexStats": {}}, {"$unionWith": "x"}]}, on("shop", "orders", "indexStats"), False),
    ("shop", AGGREGATE | {"pipeline": [{"$unionWith": "prices"}]}, on("shop", "orders", "find"), False),
    ("shop", AGGREGATE | {"pipeline": [{"$unionWith": "prices"}]}, on("shop", "", "find"), True),
    ("shop", AGGREGATE | {"pipeline": [{"$out": "copy"}]}, on("shop", "orders", "find"), False),
    (
        "shop",
        AGGREGATE | {"pipeline": [{"$out": "copy"}]},
        [on("shop", "orders", "find"), on("shop", "copy", "insert", "update", "remove")],
        True,
    ),
    ("shop", {"find": "view"}, on("shop", "view", "find"), True),
    ("shop", {"find": "orders"}, on("shop", "view", "find"), False),
    ("shop", {"aggregate": "view", "cursor": {}, "pipeline": [{"$unionWith": "prices"}]}, on("shop", "view", "find"), False),
    ("shop", {"find": "joined"}, on("shop", "joined", "find"), False),
    ("shop", {"createUser": "x1", "pwd": "p", "roles": []}, on("shop", "", "createUser", "grantRole"), True),
    ("shop", {"createUser": "x2", "pwd": "p", "roles": []}, on("shop", "", "createUser"), False),
    (
        "shop",
        {"createUser": "x3", "pwd": "p", "roles": [{"role": "root", "db": "admin"}]},
        on("shop", "", "createUser", "grantRole"),
        False,
    ),
]  # fmt: skip
"""(database, command, privilege or privileges, whether a user with nothing else may run it)."""


@pytest.mark.parametrize(
    ("database", "command", "privileges", "allowed"),
    MAY,
    ids=[f"{n} {str(each[1])[:50]}" for n, each in enumerate(MAY)],
)
def test_a_privilege_is_what_it_says(
    guarded: RunningServer, root: Client, database: str, command: Body, privileges: Body | list[Body], allowed: bool
) -> None:
    wanted = privileges if isinstance(privileges, list) else [privileges]
    root["admin"].command("createRole", "only", privileges=wanted, roles=[])
    root["admin"].command("createUser", "someone", pwd="p", roles=["only"])
    try:
        with log_in(guarded, "someone", "p", "admin") as client:
            assert code_of(client, database, command) in ((None, 27) if allowed else (13,))
    finally:
        root["admin"].command("dropUser", "someone")
        root["admin"].command("dropRole", "only")


def test_a_change_of_a_role_holds_at_once(guarded: RunningServer, root: Client) -> None:
    root["shop"].command("createRole", "base", privileges=[on("shop", "orders", "find")], roles=[])
    root["shop"].command("createRole", "derived", privileges=[], roles=["base"])
    root["shop"].command("createUser", "ann", pwd="p", roles=["derived"])
    find, insert, listed = {"find": "orders"}, {"insert": "orders", "documents": [{}]}, {"find": "prices"}
    with log_in(guarded, "ann", "p", "shop") as ann:

        def codes() -> list[int | None]:
            return [code_of(ann, "shop", each) for each in (find, insert, listed)]

        assert codes() == [None, 13, 13]
        root["shop"].command("grantPrivilegesToRole", "base", privileges=[on("shop", "orders", "insert")])
        assert codes() == [None, None, 13]
        root["shop"].command("revokePrivilegesFromRole", "base", privileges=[on("shop", "orders", "find")])
        assert codes() == [13, None, 13]
        root["shop"].command("grantRolesToRole", "derived", roles=["read"])
        assert codes() == [None, None, None]
        root["shop"].command("revokeRolesFromRole", "derived", roles=["read"])
        assert codes() == [13, None, 13]
        root["shop"].command("updateRole", "derived", privileges=[on("shop", "prices", "find")])
        assert codes() == [13, None, None]
        root["shop"].command("dropRole", "base")
        assert codes() == [13, 13, None]
        (derived,) = root["shop"].command("rolesInfo", "derived")["roles"]
        assert derived["roles"] == derived["inheritedRoles"] == []
        assert root["shop"].command("dropAllRolesFromDatabase")["n"] == 1
        assert codes() == [13, 13, 13]
    (user,) = root["shop"].command("usersInfo", "ann")["users"]
    assert user["roles"] == []
    root["shop"].command("dropUser", "ann")


def test_what_a_user_is_shown(guarded: RunningServer, root: Client) -> None:
    root["shop"].command("createRole", "clerk", privileges=[on("shop", "orders", "find", "insert")], roles=[])
    root["shop"].command("createUser", "bob", pwd="p", roles=["clerk"])
    with log_in(guarded, "bob", "p", "shop") as bob:
        status = bob["shop"].command("connectionStatus", showPrivileges=True)["authInfo"]
        assert status["authenticatedUserPrivileges"] == [on("shop", "orders", "find", "insert")]
        assert status["authenticatedUserRoles"] == [{"role": "clerk", "db": "shop"}]
        assert bob["admin"].command("listDatabases", nameOnly=True)["databases"] == [{"name": "shop"}]
        listed = bob["shop"].command("listCollections", nameOnly=True, authorizedCollections=True)
        assert [each["name"] for each in listed["cursor"]["firstBatch"]] == ["orders"]
        assert code_of(bob, "shop", {"listCollections": 1}) == 13
        few = bob["shop"].command("listCollections", nameOnly=True, authorizedCollections=True, cursor={"batchSize": 0})
        more = bob["shop"].command("getMore", few["cursor"]["id"], collection="$cmd.listCollections")
        assert [each["name"] for each in more["cursor"]["nextBatch"]] == ["orders"]
        (own,) = bob["shop"].command("rolesInfo", "clerk", showPrivileges=True)["roles"]
        assert own["privileges"] == own["inheritedPrivileges"] == [on("shop", "orders", "find", "insert")]
        assert code_of(bob, "shop", {"rolesInfo": "read"}) == 13
        (user,) = bob["shop"].command("usersInfo", "bob", showPrivileges=True)["users"]
        assert user["inheritedPrivileges"] == [on("shop", "orders", "find", "insert")]
    (built_in,) = root["shop"].command("rolesInfo", "read", showPrivileges=True)["roles"]
    assert built_in["isBuiltin"] and "find" in built_in["privileges"][0]["actions"]
    names = [each["role"] for each in root["admin"].command("rolesInfo", 1, showBuiltinRoles=True)["roles"]]
    assert {"root", "clusterMonitor", "read"} <= {*names}
    root["shop"].command("dropUser", "bob")
    root["shop"].command("dropRole", "clerk")


REFUSED: Final[list[tuple[str, Body, int]]] = [
    ("shop", {"createRole": "known", "privileges": [], "roles": []}, 51002),
    ("shop", {"createRole": "read", "privileges": [], "roles": []}, 2),
    ("local", {"createRole": "x", "privileges": [], "roles": []}, 2),
    ("shop", {"createRole": "", "privileges": [], "roles": []}, 2),
    ("shop", {"createRole": "x", "roles": []}, 40414),
    ("shop", {"createRole": "x", "privileges": [], "roles": ["unheardOf"]}, 31),
    ("shop", {"createRole": "x", "privileges": [on("shop", "", "fly")], "roles": []}, 9),
    ("shop", {"createRole": "x", "privileges": [on("other", "", "find")], "roles": []}, 49),
    ("shop", {"createRole": "x", "privileges": [{"resource": {"cluster": True}, "actions": ["top"]}], "roles": []}, 49),
    ("shop", {"createRole": "x", "privileges": [{"resource": {"db": "shop"}, "actions": ["find"]}], "roles": []}, 2),
    ("shop", {"createRole": "x", "privileges": [], "roles": [{"role": "read", "db": "other"}]}, 49),
    ("shop", {"createRole": "x", "privileges": [], "roles": [], "authenticationRestrictions": [{}]}, 238),
    ("shop", {"updateRole": "known"}, 2),
    ("shop", {"updateRole": "unheardOf", "roles": []}, 31),
    ("shop", {"updateRole": "read", "roles": []}, 49),
    ("shop", {"grantRolesToRole": "known", "roles": ["known"]}, 49),
    ("shop", {"grantRolesToRole": "known", "roles": ["above"]}, 49),
    ("shop", {"dropRole": "read"}, 49),
    ("shop", {"dropRole": "unheardOf"}, 31),
    ("shop", {"grantPrivilegesToRole": "known", "privileges": []}, 2),
    ("shop", {"createUser": "x", "pwd": "p", "roles": ["unheardOf"]}, 31),
    ("shop", {"rolesInfo": True, "x": 1}, 40415),
]


@pytest.mark.parametrize(("database", "command", "code"), REFUSED, ids=[str(each[1])[:60] for each in REFUSED])
def test_what_is_refused(root: Client, database: str, command: Body, code: int) -> None:
    root["shop"].command("createRole", "known", privileges=[], roles=[])
    root["shop"].command("createRole", "above", privileges=[], roles=["known"])
    try:
        assert code_of(root, database, command) == code
    finally:
        root["shop"].command("dropAllRolesFromDatabase")


def test_rights_and_actions_agree() -> None:
    """What a command asks of a created role is among the actions that its right stands for."""
    for name, entry in HANDLERS.items():
        need = need_of(name, "shop", {name: "c"}, {})
        right = right_of(name, {name: "c"}, entry.right)
        if need is None or right in ("open", "anyone"):
            continue
        allowed = {*ACTIONS_OF_RIGHTS[right], *(ACTIONS_OF_RIGHTS["read"] if right == "write" else ())}
        assert {*need.actions} <= allowed, name
        assert (need.resource == CLUSTER) == (right in OF_CLUSTER), name
