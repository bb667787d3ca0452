"""maxTimeMS, readConcern and writeConcern: their types, their ranges, and the commands that accept them."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from mayflydb.frontends.mongo.commands.table import HANDLERS
from mayflydb.frontends.mongo.concerns import READ_CONCERN_COMMANDS, WRITE_CONCERN_COMMANDS

Client = MongoClient[dict[str, Any]]

COMMANDS: dict[str, dict[str, Any]] = {
    "find": {"find": "c"},
    "aggregate": {"aggregate": "c", "pipeline": [], "cursor": {}},
    "count": {"count": "c"},
    "insert": {"insert": "c", "documents": [{}]},
    "update": {"update": "c", "updates": [{"q": {"x": 1}, "u": {"$set": {"x": 2}}}]},
    "findAndModify": {"findAndModify": "c", "query": {"x": 1}, "update": {"$set": {"x": 2}}},
    "delete": {"delete": "c", "deletes": [{"q": {"x": 1}, "limit": 1}]},
    "createIndexes": {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]},
    "listCollections": {"listCollections": 1},
    "killCursors": {"killCursors": "c", "cursors": [Int64(1)]},
    "startSession": {"startSession": 1},
    "ping": {"ping": 1},
}
NO_OBJECTS = [
    "local",
    5,
    Int64(5),
    1.5,
    Decimal128("1"),
    True,
    [1],
    Timestamp(1, 1),
    ObjectId("0" * 24),
    Regex("x"),
    MaxKey(),
]
NO_STRINGS = [5, 1.5, True, ["x"], {"x": 1}, Timestamp(1, 1), Binary(b"local"), Code("x")]


def code_of(client: Client, name: str, **arguments: Any) -> int:
    """The code of a command's error; 0 for success."""
    return refusal_of(client, COMMANDS[name] | arguments)


def refusal_of(client: Client, command: dict[str, Any]) -> int:
    try:
        client.concerns.command(command)
    except OperationFailure as refusal:
        return int(refusal.code or 0)
    return 0


# --- maxTimeMS -------------------------------------------------------------------------------------------------------

TIMES: list[tuple[Any, int]] = [
    (None, 0),
    (0, 0),
    (-0.0, 0),
    (Decimal128("-0E+10"), 0),
    (1000.0, 0),
    (Decimal128("5.0E+3"), 0),
    (2147483647, 0),
    (Int64(2147483648), 2),
    (2147483648.0, 2),
    (Decimal128("2147483648"), 2),
    (-1, 2),
    (-1.0, 2),
    (1.5, 9),
    (Decimal128("1.5"), 9),
    (float("nan"), 9),
    (float("inf"), 9),
    (Decimal128("-Infinity"), 9),
    ("5", 14),
    (True, 14),
    ([5], 14),
    ({}, 14),
    (Timestamp(1, 1), 14),
]


@pytest.mark.parametrize(("given", "code"), TIMES, ids=str)
@pytest.mark.parametrize("name", ["find", "insert", "ping", "listCollections", "killCursors", "startSession"])
def test_a_limit_in_time_is_a_whole_number(mongo_client: Client, name: str, given: Any, code: int) -> None:
    assert code_of(mongo_client, name, maxTimeMS=given) == code


@pytest.mark.parametrize(("given", "code"), [*TIMES[8:], (0, 2), (100, 2), (None, 0)], ids=str)
def test_max_time_of_get_more_needs_an_awaiting_cursor(mongo_client: Client, given: Any, code: int) -> None:
    mongo_client.concerns.c.insert_many([{} for _ in range(3)])
    id = mongo_client.concerns.command("find", "c", batchSize=1)["cursor"]["id"]
    assert refusal_of(mongo_client, {"getMore": Int64(id), "collection": "c", "maxTimeMS": given}) == code


# --- writeConcern ----------------------------------------------------------------------------------------------------

WRITES: list[tuple[Any, int]] = [
    (None, 0),
    ({}, 0),
    *[(each, 14) for each in NO_OBJECTS],
    ({"unknown": 1}, 40415),
    ({"W": 1}, 40415),
    *[({"w": each}, 0) for each in (1, Int64(1), 0.9, 1.9, -0.0, Decimal128("0.5"), Decimal128("-0"), "majority")],
    *[({"w": each}, 0) for each in (None, 2, 50, 50.99, Decimal128("50.5"), "nix", "", {"dc1": 1})],
    *[({"w": each}, 9) for each in (-1, 51, Int64(1 << 62), Decimal128("51.4"), float("nan"), float("inf"))],
    *[({"w": each}, 9) for each in (Decimal128("NaN"), Decimal128("-Infinity"), True, [1], Timestamp(1, 1), Regex("x"))],
    *[({"w": each}, 9) for each in ({}, {"dc1": "x"}, {"dc1": {"x": 1}}, MaxKey())],
    *[({"j": each}, 0) for each in (True, False, None, 1, 0.0, Decimal128("1"))],
    *[({"j": each}, 14) for each in ("true", [1], {"x": 1}, Timestamp(1, 1), Binary(b"x"))],
    *[({"fsync": each}, code) for each, code in ((True, 0), (1, 0), ("true", 14))],
    ({"j": True, "fsync": True}, 9),
    *[({"wtimeout": each}, 0) for each in (0, -1, 2147483647, Int64(-(1 << 62)), float("nan"), float("-inf"))],
    *[({"wtimeout": each}, 0) for each in ("x", None, [1], {"x": 1}, True)],
    *[({"wtimeout": each}, 9) for each in (Int64(2147483648), 2147483648.0, float("inf"), Decimal128("Infinity"))],
    *[({"provenance": each}, 0) for each in ("clientSupplied", None)],
    *[({"provenance": each}, code) for each, code in (("x", 2), (5, 14))],
]  # fmt: skip


@pytest.mark.parametrize(("given", "code"), WRITES, ids=str)
@pytest.mark.parametrize("name", ["insert", "aggregate", "createIndexes"])
def test_a_write_concern_is_checked(mongo_client: Client, name: str, given: Any, code: int) -> None:
    assert code_of(mongo_client, name, writeConcern=given) == code


@pytest.mark.parametrize(
    ("members", "code"),
    [(1, 0), (1.9, 0), (Decimal128("0.5"), 0), (2, 100), (2.5, 100), (Decimal128("1.5"), 100), ("", 79), (None, 79)],
    ids=str,
)
def test_members_are_counted_as_the_server_counts(mongo_client: Client, members: Any, code: int) -> None:
    reply = mongo_client.concerns.command(COMMANDS["insert"], writeConcern={"w": members})
    assert reply.get("writeConcernError", {"code": 0})["code"] == code


def test_an_explained_pipeline_writes_nothing(mongo_client: Client) -> None:
    assert code_of(mongo_client, "aggregate", explain=True, writeConcern={"w": 1}) == 9


# --- readConcern -----------------------------------------------------------------------------------------------------

READS: list[tuple[Any, int]] = [
    (None, 0),
    ({}, 0),
    *[(each, 14) for each in NO_OBJECTS],
    ({"unknown": 1}, 40415),
    ({"Level": "local"}, 40415),
    ({"level": None}, 0),
    ({"level": "local"}, 0),
    *[({"level": each}, 14) for each in NO_STRINGS],
    *[({"level": each}, 2) for each in ("", "x", "Local", "local ")],
    *[({"provenance": each}, 0) for each in ("clientSupplied", "implicitDefault", "getLastErrorDefaults", None)],
    *[({"provenance": each}, 14) for each in NO_STRINGS],
    ({"provenance": "x"}, 2),
    ({"afterClusterTime": Timestamp(1, 1)}, 0),
    ({"afterClusterTime": Timestamp(0, 0)}, 72),
    *[({"afterClusterTime": each}, 14) for each in (None, 5, "x", True, [1], {"x": 1})],
    *[({"atClusterTime": each}, 14) for each in (None, 5, "x", True, [1], {"x": 1})],
    ({"atClusterTime": Timestamp(1, 1)}, 72),
    ({"atClusterTime": Timestamp(0, 1), "level": "snapshot"}, 72),
]


@pytest.mark.parametrize(("given", "code"), READS, ids=str)
@pytest.mark.parametrize("name", ["find", "count", "insert", "killCursors", "createIndexes"])
def test_a_read_concern_is_checked(mongo_client: Client, name: str, given: Any, code: int) -> None:
    assert code_of(mongo_client, name, readConcern=given) == code


@pytest.mark.parametrize("level", ["available", "majority", "linearizable"])
@pytest.mark.parametrize("name", COMMANDS)
def test_levels_are_of_commands_that_read(mongo_client: Client, name: str, level: str) -> None:
    expected = 0 if name in READ_CONCERN_COMMANDS else 72
    assert code_of(mongo_client, name, readConcern={"level": level}) == expected


# --- every command ---------------------------------------------------------------------------------------------------


def test_the_table_of_concerns_names_commands() -> None:
    assert not (WRITE_CONCERN_COMMANDS | READ_CONCERN_COMMANDS) - HANDLERS.keys()


@pytest.mark.parametrize("name", sorted(HANDLERS))
def test_every_command_checks_its_generic_arguments(mongo_client: Client, name: str) -> None:
    """Each command has no other argument: the generic ones are checked before missing ones are noticed."""
    database = mongo_client.admin
    for argument, given, code in (
        ("maxTimeMS", "x", 14),
        ("maxTimeMS", 1.5, 9),
        ("maxTimeMS", -1, 2),
        ("writeConcern", "x", 14),
        (
            "writeConcern",
            {"w": 51} if name in WRITE_CONCERN_COMMANDS else {"w": 1},
            9 if name in WRITE_CONCERN_COMMANDS else 72,
        ),
        ("readConcern", "x", 14),
        ("readConcern", {"level": "x"}, 2),
        ("readConcern", {"unknown": 1}, 40415),
        ("readConcern", {"level": "majority", "afterClusterTime": 5}, 14),
    ):
        with pytest.raises(OperationFailure) as refusal:
            database.command({name: 1, argument: given})
        assert refusal.value.code == code, (argument, given)
    if name not in READ_CONCERN_COMMANDS:
        with pytest.raises(OperationFailure) as refusal:
            database.command(name, 1, readConcern={"level": "majority"})
        assert refusal.value.code == 72
