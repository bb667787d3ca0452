"""Types and ranges of commands' arguments, and the codes of what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, Regex
from pymongo import MongoClient
from pymongo.errors import OperationFailure

Client = MongoClient[dict[str, Any]]
Document = dict[str, Any]

NAN, INFINITY = float("nan"), float("inf")
PIPELINE: Document = {"pipeline": [], "cursor": {}}


@pytest.fixture(scope="module")
def rows(mongo_client: Client) -> Client:
    """Ten documents in `arguments.c`, with an index of `x`."""
    mongo_client.drop_database("arguments")
    mongo_client.arguments.c.insert_many([{"_id": n, "x": 9 - n, "many": [n % 2, "a"]} for n in range(10)])
    mongo_client.arguments.c.create_index("x")
    return mongo_client


def code_of(client: Client, command: Document, database: str = "arguments") -> int:
    """0: it succeeds."""
    try:
        reply = client[database].command(command)
    except OperationFailure as refusal:
        return int(refusal.code or 0)
    return int(reply.get("writeErrors", [{"code": 0}])[0]["code"])


@pytest.mark.parametrize("name", [1, None, True, {}, [], b"c", Regex("c")], ids=str)
@pytest.mark.parametrize(
    "rest",
    [
        ("find", {}),
        ("count", {}),
        ("distinct", {"key": "x"}),
        ("listIndexes", {}),
        ("drop", {}),
        ("dropIndexes", {"index": "*"}),
        ("insert", {"documents": [{}]}),
        ("delete", {"deletes": [{"q": {}, "limit": 1}]}),
        ("update", {"updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}),
        ("findAndModify", {"remove": True}),
    ],
    ids=str,
)
def test_the_name_of_a_collection_is_a_string(rows: Client, rest: tuple[str, Document], name: Any) -> None:
    command, more = rest
    assert code_of(rows, {command: name, **more}) == 73


REFUSED: list[tuple[Document, int]] = [
    ({"find": "c", "skip": -1}, 2),
    ({"find": "c", "limit": -1}, 2),
    ({"find": "c", "limit": Decimal128("-0.5")}, 0),
    ({"find": "c", "limit": Decimal128("-0.6")}, 2),
    ({"find": "c", "limit": -0.9}, 0),
    ({"find": "c", "batchSize": -1}, 2),
    ({"find": "c", "filter": None}, 14),
    ({"find": "c", "hint": None}, 9),
    ({"find": "c", "hint": {"$natural": 1, "x": 1}}, 2),
    ({"count": "c", "limit": "1"}, 2),
    ({"count": "c", "limit": None}, 2),
    ({"count": "c", "limit": 1.5}, 9),
    ({"count": "c", "limit": NAN}, 9),
    ({"count": "c", "limit": INFINITY}, 9),
    ({"count": "c", "limit": 2.0**63}, 9),
    ({"count": "c", "limit": Int64(-(2**63))}, 2),
    ({"count": "c", "limit": Int64(1 - 2**63)}, 0),
    ({"count": "c", "skip": -1}, 2),
    ({"count": "c", "skip": "1"}, 14),
    ({"distinct": "c", "key": "a\0b"}, 2),
    ({"distinct": "c", "key": "x", "hint": None}, 9),
    ({"aggregate": 2, **PIPELINE}, 2),
    ({"aggregate": NAN, **PIPELINE}, 2),
    ({"aggregate": True, **PIPELINE}, 73),
    ({"aggregate": None, **PIPELINE}, 73),
    ({"aggregate": Decimal128("1"), "pipeline": [{"$documents": []}], "cursor": {}}, 0),
    ({"aggregate": 1.5, "pipeline": [{"$documents": []}], "cursor": {}}, 2),
    ({"aggregate": "c", "pipeline": None, "cursor": {}}, 14),
    ({"aggregate": "c", "pipeline": [], "cursor": None}, 14),
    ({"aggregate": "c", "pipeline": [], "cursor": {"batchSize": -1}}, 2),
    ({"aggregate": "c", **PIPELINE, "allowDiskUse": 1}, 14),
    ({"aggregate": "c", **PIPELINE, "bypassDocumentValidation": "a"}, 14),
    ({"aggregate": "c", **PIPELINE, "let": {"A": 1}}, 9),
    ({"aggregate": "c", **PIPELINE, "let": {"a.b": 1}}, 9),
    ({"aggregate": "c", **PIPELINE, "let": {"": 1}}, 9),
    ({"aggregate": "c", **PIPELINE, "let": {"a": 1, "b": {"$add": ["$$a", 1]}}}, 0),
    ({"aggregate": "c", **PIPELINE, "let": {"b": {"$add": ["$$a", 1]}, "a": 1}}, 17276),
    ({"update": "c", "updates": [{"q": {}, "u": "a"}]}, 9),
    ({"findAndModify": "c", "update": 1}, 9),
    ({"delete": "c", "deletes": [{"q": {"_id": -1}, "limit": -1}]}, 9),
    ({"delete": "c", "deletes": [{"q": {"_id": -1}, "limit": 2}]}, 9),
    ({"delete": "c", "deletes": [{"q": {"_id": -1}, "limit": NAN}]}, 0),
    ({"delete": "c", "deletes": [{"q": {"_id": -1}, "limit": "1"}]}, 14),
]


@pytest.mark.parametrize(("command", "code"), REFUSED, ids=str)
def test_types_and_ranges(rows: Client, command: Document, code: int) -> None:
    assert code_of(rows, command) == code


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"skip": Decimal128("1.5")}, 8),
        ({"skip": Decimal128("2.5")}, 8),
        ({"skip": 2.9}, 8),
        ({"skip": NAN}, 10),
        ({"skip": INFINITY}, 0),
        ({"limit": -3}, 3),
        ({"limit": Decimal128("-3")}, 3),
        ({"limit": 3.0}, 3),
    ],
    ids=str,
)
def test_numbers_are_rounded(rows: Client, more: Document, wanted: int) -> None:
    assert rows.arguments.command("count", "c", **more)["n"] == wanted


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"to": "arguments.d", "stayTemp": 1}, 14),
        ({"to": None}, 40414),
        ({"to": "arguments"}, 73),
        ({"to": "arguments.a$b"}, 20),
        ({"to": "arguments.system.users"}, 20),
        ({"to": "arguments." + "a" * 246}, 20),
        ({"to": "local.oplog.rs"}, 20),
        ({"to": "arguments.d", "collectionUUID": 5}, 14),
        ({"to": "arguments.d", "collectionUUID": Binary(bytes(16), 3)}, 207),
        ({"to": "arguments.d", "collectionUUID": Binary(bytes(15), 4)}, 207),
        ({"to": "arguments.d", "collectionUUID": Binary(bytes(16), 4)}, 361),
        ({"to": "arguments.d", "dropTarget": Binary(bytes(16), 4)}, 361),
        ({"to": "elsewhere.d", "dropTarget": Binary(bytes(16), 4)}, 72),
        ({"to": "arguments.d", "dropTarget": "a"}, 14),
    ],
    ids=str,
)
def test_names_and_uuids_of_a_rename(rows: Client, command: Document, code: int) -> None:
    assert code_of(rows, {"renameCollection": "arguments.c", **command}, "admin") == code


def test_a_collection_is_renamed_by_its_uuid(rows: Client) -> None:
    database = rows.arguments
    for name in ("one", "other", "view"):
        database.drop_collection(name)
    database.one.insert_one({"_id": 1})
    database.other.insert_one({"_id": 2})
    database.command("create", "view", viewOn="one")
    uuids = {each["name"]: each["info"].get("uuid") for each in database.list_collections()}
    command = {"renameCollection": "arguments.one", "to": "arguments.other", "collectionUUID": uuids["one"]}
    assert code_of(rows, {**command, "to": "arguments.view", "dropTarget": True}, "admin") == 48
    assert code_of(rows, {**command, "collectionUUID": uuids["other"]}, "admin") == 361
    assert code_of(rows, command, "admin") == 48
    assert code_of(rows, {**command, "dropTarget": uuids["other"]}, "admin") == 0
    assert [each["_id"] for each in database.other.find()] == [1]


@pytest.mark.parametrize(
    ("value", "code"),
    [(1.9, 0), (2, 5255100), (0.9, 5255100), (Decimal128("0.5"), 5255100), (NAN, 5255100), ("1", 14), (None, 40414)],
    ids=str,
)
def test_the_value_of_drop_database(rows: Client, value: Any, code: int) -> None:
    assert code_of(rows, {"dropDatabase": value}, "dropped") == code


@pytest.mark.parametrize("database", ["admin", "local"])
def test_databases_of_the_server_are_not_dropped(rows: Client, database: str) -> None:
    assert code_of(rows, {"dropDatabase": 1}, database) == 20


def test_lists_take_strict_flags(rows: Client) -> None:
    assert code_of(rows, {"listCollections": 1, "nameOnly": 1}) == 14
    assert code_of(rows, {"listDatabases": 1, "authorizedDatabases": 1}, "admin") == 14


def test_distinct_values_come_in_their_order(rows: Client) -> None:
    assert rows.arguments.command("distinct", "c", key="many", hint={"$natural": -1})["values"] == [0, 1, "a"]
    assert rows.arguments.command("distinct", "c", key="x")["values"] == list(range(10))


@pytest.mark.parametrize(
    ("value", "bypasses"), [(NAN, True), (INFINITY, True), (0.5, True), (0, False), (Decimal128("-0"), False)], ids=str
)
def test_numbers_are_flags_where_they_are_not_zero(rows: Client, value: Any, bypasses: bool) -> None:
    rows.arguments.drop_collection("strict")
    rows.arguments.command("create", "strict", validator={"y": 1})
    command = {"insert": "strict", "documents": [{}], "bypassDocumentValidation": value}
    assert code_of(rows, command) == (0 if bypasses else 121)


INSERT: Document = {"insert": 0, "document": {}}
UPDATE: Document = {"update": 0, "filter": {"_id": -1}, "updateMods": {"$set": {"a": 1}}}
DELETE: Document = {"delete": 0, "filter": {"_id": -1}}
BULK: list[tuple[Document, int]] = [
    ({**INSERT, "insert": None}, 40414),
    ({**INSERT, "insert": "0"}, 14),
    ({**INSERT, "insert": -1}, 2),
    ({**INSERT, "document": 5}, 14),
    ({**INSERT, "document": None}, 40414),
    ({**UPDATE, "filter": []}, 14),
    ({**UPDATE, "updateMods": 5}, 9),
    ({**UPDATE, "updateMods": None}, 9),
    ({**UPDATE, "arrayFilters": {}}, 14),
    ({**UPDATE, "arrayFilters": None}, 0),
    ({**UPDATE, "multi": 1}, 14),
    ({**UPDATE, "upsert": 1}, 14),
    ({**UPDATE, "multi": None}, 0),
    ({**UPDATE, "constants": 5}, 14),
    ({**UPDATE, "collation": "en"}, 14),
    ({**UPDATE, "hint": None}, 9),
    ({**UPDATE, "hint": 5}, 9),
    ({**DELETE, "filter": None}, 40414),
    ({**DELETE, "multi": "a"}, 14),
    ({"replace": 0, "filter": {}}, 40415),
]


@pytest.mark.parametrize(("operation", "code"), BULK, ids=str)
def test_a_bulk_write_is_refused_as_a_whole(rows: Client, operation: Document, code: int) -> None:
    """Wrong types are found before anything is written."""
    command = {"bulkWrite": 1, "ops": [INSERT, operation], "nsInfo": [{"ns": "arguments.bulk"}]}
    rows.arguments.drop_collection("bulk")
    assert code_of(rows, command, "admin") == code
    assert rows.arguments.bulk.count_documents({}) == (0 if code else 1)


@pytest.mark.parametrize(
    ("user", "code"),
    [
        (5, 14),
        ({"user": 5, "db": "d"}, 14),
        ({"user": "u", "db": 5}, 14),
        ({"user": "u", "db": None}, 40414),
        ({"db": "d"}, 40414),
        ({"user": "u", "db": "d"}, 0),
    ],
    ids=str,
)
def test_sessions_end_by_users(rows: Client, user: Any, code: int) -> None:
    assert code_of(rows, {"killAllSessions": [user]}, "admin") == code


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"ordered": 1}, 14),
        ({"errorsOnly": 1}, 14),
        ({"nsInfo": 5}, 14),
        ({"nsInfo": None}, 40414),
        ({"nsInfo": []}, 2),
    ],
    ids=str,
)
def test_arguments_of_a_bulk_write(rows: Client, more: Document, code: int) -> None:
    command = {"bulkWrite": 1, "ops": [INSERT], "nsInfo": [{"ns": "arguments.bulk"}], **more}
    assert code_of(rows, command, "admin") == code
