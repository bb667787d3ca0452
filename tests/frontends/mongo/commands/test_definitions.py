"""Definitions that create and collMod refuse, because no read could use them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from frontends.mongo.replies import said
from mayflydb.frontends.mongo import uniqueness

Client = MongoClient[dict[str, Any]]
Document = dict[str, Any]

ID_KEY = {"key": {"_id": 1}, "name": "_id_"}
NESTED: list[Document] = []
for _ in range(21):
    NESTED = [{"$lookup": {"from": "c", "pipeline": NESTED, "as": "a"}}]


@pytest.fixture
def client(mongo_client: Client) -> Client:
    """A collection `c` and a view `v` of it."""
    mongo_client.drop_database("made")
    mongo_client.made.c.insert_one({"_id": 1, "x": 1})
    mongo_client.made.command("create", "v", viewOn="c", pipeline=[{"$match": {"x": 1}}])
    return mongo_client


def code_of(client: Client, command: Document) -> int:
    """The code of the error; 0 for success."""
    try:
        client.made.command(command)
    except OperationFailure as refusal:
        return int(refusal.code or 0)
    return 0


VIEWS: list[tuple[Document, int]] = [
    ({"viewOn": 5}, 14),
    ({"viewOn": {"$literal": "c"}}, 14),
    ({"viewOn": ""}, 2),
    ({"viewOn": "a$b"}, 73),
    ({"viewOn": "c", "pipeline": 5}, 14),
    ({"viewOn": "c", "pipeline": {}}, 14),
    ({"viewOn": "c", "pipeline": [5]}, 14),
    ({"viewOn": "c", "pipeline": [{}]}, 40323),
    ({"viewOn": "c", "pipeline": [{"$nope": 1}]}, 40324),
    ({"viewOn": "c", "pipeline": [{"$match": {"$bad": 1}}]}, 2),
    ({"viewOn": "c", "pipeline": [{"$project": {}}]}, 51272),
    ({"viewOn": "c", "pipeline": [{"$out": "o"}]}, 167),
    ({"viewOn": "c", "pipeline": [{"$merge": "o"}]}, 167),
    ({"viewOn": "c", "pipeline": [{"$out": "o"}, {"$skip": 1}]}, 40601),
    ({"viewOn": "c", "pipeline": [{"$changeStream": {}}]}, 40573),
    ({"viewOn": "c", "pipeline": [{"$documents": [{}]}]}, 73),
    ({"viewOn": "c", "pipeline": [{"$currentOp": {}}]}, 73),
    ({"viewOn": "c", "pipeline": [{"$skip": 0}] * 1001}, 7749501),
    ({"viewOn": "c", "pipeline": NESTED}, 232),
    ({"viewOn": "w"}, 5),
    ({"viewOn": "c", "idIndex": ID_KEY}, 72),
    ({"viewOn": "c", "validationLevel": "x"}, 2),
    ({"pipeline": []}, 72),
    ({"viewOn": "c"}, 0),
    ({"viewOn": "none", "pipeline": None}, 0),
    ({"viewOn": "v", "pipeline": [None, {"$skip": 0}, None]}, 0),
    ({"viewOn": "c", "pipeline": [{"$match": {"$text": {"$search": "x"}}}]}, 0),
    ({"viewOn": "c", "capped": True, "size": 5}, 0),
]


@pytest.mark.parametrize(("options", "code"), VIEWS, ids=lambda value: str(value)[:80])
def test_a_view_is_checked_when_it_is_made(client: Client, options: Document, code: int) -> None:
    assert code_of(client, {"create": "w", **options}) == code
    assert ("w" in client.made.list_collection_names()) == (not code)
    if not code and "$text" not in str(options):
        list(client.made.w.find())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"viewOn": 5, "pipeline": []}, 14),
        ({"viewOn": "", "pipeline": []}, 2),
        ({"viewOn": "v", "pipeline": []}, 5),
        ({"viewOn": "c", "pipeline": [{"$nope": 1}]}, 40324),
        ({"viewOn": "c", "pipeline": [{"$match": {"x": 2}}]}, 0),
    ],
    ids=str,
)
def test_a_view_is_checked_when_it_is_changed(client: Client, options: Document, code: int) -> None:
    before = client.made.command("listCollections", filter={"name": "v"})["cursor"]["firstBatch"]
    assert code_of(client, {"collMod": "v", **options}) == code
    after = client.made.command("listCollections", filter={"name": "v"})["cursor"]["firstBatch"]
    assert (before == after) == bool(code)


JOINS: list[tuple[str, Document]] = [
    ("$lookup", {"from": "{}", "localField": "a", "foreignField": "a", "as": "r"}),
    ("$lookup", {"from": "c", "pipeline": [{"$unionWith": "{}"}], "as": "r"}),
    ("$graphLookup", {"from": "{}", "startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "r"}),
    ("$unionWith", {"coll": "{}"}),
    ("$unionWith", {"coll": "c", "pipeline": [{"$lookup": {"from": "{}", "pipeline": [], "as": "r"}}]}),
    ("$facet", {"r": [{"$lookup": {"from": "{}", "pipeline": [], "as": "r"}}]}),
]


@pytest.mark.parametrize(("stage", "argument"), JOINS, ids=str)
def test_no_stage_of_a_view_leads_back_to_it(client: Client, stage: str, argument: Document) -> None:
    client.made.command("create", "u", viewOn="v")

    def refusal(view: str, reads: str) -> int:
        pipeline = [{stage: json.loads(json.dumps(argument).replace("{}", reads))}]
        return code_of(client, {"collMod": view, "viewOn": "c", "pipeline": pipeline})

    assert [refusal("v", each) for each in ("c", "missing", "v", "u")] == [0, 0, 5, 5]
    assert refusal("u", "v") == 0
    pipeline = [{stage: json.loads(json.dumps(argument).replace("{}", "new"))}]
    assert code_of(client, {"create": "new", "viewOn": "c", "pipeline": pipeline}) == 5
    assert code_of(client, {"dropIndexes": "u", "index": "*"}) == 166


def test_chains_of_views_have_a_limit_and_no_cycle(client: Client) -> None:
    database = client.made
    for n in range(21):
        code = code_of(client, {"create": f"v{n}", "viewOn": "v" if not n else f"v{n - 1}"})
        assert code == (0 if n < 19 else 165 if n == 19 else 0), n
    assert code_of(client, {"collMod": "v", "viewOn": "v5", "pipeline": []}) == 5
    assert database.v18.count_documents({}) == 1


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (5, 14),
        ({}, 9),
        ({"key": {"_id": 1}}, 9),
        ({"name": "_id_"}, 9),
        ({"key": 5, "name": "_id_"}, 14),
        ({"key": {"_id": 1}, "name": 5}, 14),
        ({"key": {"x": 1}, "name": "_id_"}, 2),
        ({"key": {"_id": 1, "x": 1}, "name": "_id_"}, 2),
        ({"key": {"_id": -1}, "name": "_id_"}, 2),
        ({"key": {"_id": "hashed"}, "name": "_id_"}, 2),
        ({"key": {"_id": 1}, "name": ""}, 67),
        ({**ID_KEY, "v": 3}, 67),
        ({**ID_KEY, "v": 1.5}, 2),
        ({**ID_KEY, "v": "2"}, 14),
        ({**ID_KEY, "unique": True}, 197),
        ({**ID_KEY, "expireAfterSeconds": 5}, 197),
        ({**ID_KEY, "collation": {"locale": "en"}}, 2),
        (None, 0),
        (ID_KEY, 0),
        ({"key": {"_id": 1}, "name": "other", "v": Int64(1)}, 0),
        ({**ID_KEY, "collation": {"locale": "simple"}}, 0),
    ],
    ids=str,
)
def test_create_accepts_the_usual_id_index_alone(client: Client, given: Any, code: int) -> None:
    assert code_of(client, {"create": "w", "idIndex": given}) == code
    assert ("w" in client.made.list_collection_names()) == (not code)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("system.foo", 73),
        ("system.buckets.a", 73),
        ("system.indexes", 73),
        ("system.js", 0),
        ("system.views", 0),
        ("system", 0),
        ("System.foo", 0),
        ("systems.foo", 0),
    ],
)
def test_reserved_names_are_refused(client: Client, name: str, code: int) -> None:
    assert code_of(client, {"create": name}) == code
    assert code_of(client, {"insert": name, "documents": [{}]}) == code
    if code:
        assert client.admin.command("listDatabases")["ok"] == 1
        with pytest.raises(OperationFailure) as caught:
            client.made.c.rename(name)
        assert caught.value.code == 20


@pytest.mark.parametrize("validator", [5, "x", [], False, 1.5], ids=str)
def test_a_validator_is_a_document(client: Client, validator: Any) -> None:
    assert code_of(client, {"collMod": "c", "validator": validator}) == 14
    assert code_of(client, {"create": "w", "validator": validator}) == 14


STATEMENTS: list[tuple[Document, int]] = [
    ({"update": "none", "updates": [{"q": {}, "u": {"$bad": 1}}]}, 9),
    ({"update": "none", "updates": [{"q": {"$bad": 1}, "u": {"$set": {"a": 1}}}]}, 2),
    ({"update": "none", "updates": [{"q": {}, "u": [{"$nope": 1}]}]}, 40324),
    ({"update": "none", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "arrayFilters": 5}]}, 14),
    ({"update": "none", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "arrayFilters": None}]}, 0),
    ({"update": "none", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "sort": {"a": 5}}]}, 15975),
    ({"delete": "none", "deletes": [{"q": {"a": {"$bad": 1}}, "limit": 1}]}, 2),
    ({"delete": "none", "deletes": [{"q": {"a": 1}, "limit": 1}]}, 0),
    ({"findAndModify": "none", "query": {"$bad": 1}, "remove": True}, 2),
    ({"findAndModify": "none", "query": {"$bad": 1}, "update": {"$set": {"a": 1}}}, 2),
    ({"findAndModify": "none", "query": {}, "update": {"$bad": 1}}, 9),
    ({"find": "none", "filter": {"$bad": 1}}, 2),
    ({"count": "none", "query": {"$bad": 1}}, 2),
    ({"distinct": "none", "key": "a", "query": {"$bad": 1}}, 2),
    ({"aggregate": "none", "pipeline": [{"$match": {"$bad": 1}}], "cursor": {}}, 2),
    ({"aggregate": "none", "pipeline": [{"$set": {"a": {"$bad": 1}}}], "cursor": {}}, 168),
    ({"aggregate": "none", "pipeline": [{"$group": {"a": 1}}], "cursor": {}}, 15955),
    ({"aggregate": "none", "pipeline": [{"$lookup": {"from": "c", "pipeline": [{"$bad": 1}], "as": "a"}}], "cursor": {}},
     40324),
]  # fmt: skip


@pytest.mark.parametrize(("command", "code"), STATEMENTS, ids=lambda value: str(value)[:80])
def test_a_statement_without_a_collection_is_checked(client: Client, command: Document, code: int) -> None:
    assert statement_code(client, command) == code
    assert "none" not in client.made.list_collection_names()


def statement_code(client: Client, command: Document) -> int:
    """The code of the error of a command, or of its only statement; 0 for success."""
    try:
        reply = client.made.command(command)
    except OperationFailure as refusal:
        return int(refusal.code or 0)
    return int(reply.get("writeErrors", [{"code": 0}])[0]["code"])


@pytest.mark.parametrize(
    ("cursors", "code"),
    [
        (None, 40414),
        (5, 14),
        ([5], 14),
        ([5.0], 14),
        (["5"], 14),
        ([Int64(5), {}], 14),
        ([None, True], 14),
        ([None, Int64(5), None], 0),
        ([], 0),
    ],
    ids=str,
)
def test_cursors_are_killed_by_their_ids(client: Client, cursors: Any, code: int) -> None:
    assert code_of(client, {"killCursors": "c", "cursors": cursors}) == code


def test_a_cursor_is_killed_once(client: Client) -> None:
    client.made.c.insert_many([{} for _ in range(3)])
    id = client.made.command("find", "c", batchSize=1)["cursor"]["id"]
    reply = client.made.command("killCursors", "c", cursors=[Int64(id), Int64(id)])
    assert (reply["cursorsKilled"], reply["cursorsNotFound"]) == ([id], [id])


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (None, 14),
        ([], 14),
        ({"users": 5}, 14),
        ({"users": {"user": "a", "db": "b"}}, 14),
        ({"users": [5]}, 14),
        ({"users": [{"user": 5, "db": "b"}]}, 14),
        ({"users": [{"user": None, "db": "b"}]}, 40414),
        ({"users": [{"user": "a"}]}, 40414),
        ({"allUsers": "x"}, 14),
        ({"users": [{"user": "a", "db": "b"}]}, 0),
        ({"users": []}, 0),
        ({"allUsers": True}, 0),
    ],
    ids=str,
)
def test_sessions_are_listed_by_users(client: Client, spec: Any, code: int) -> None:
    pipeline = [{"$listLocalSessions": spec}]
    assert code_of(client, {"aggregate": 1, "pipeline": pipeline, "cursor": {}}) == code


def test_a_collation_is_listed_in_full(client: Client) -> None:
    database = client.made
    for collation, code in (
        ({"locale": "en"}, 0),
        ({"locale": "en", "strength": 3, "caseLevel": None}, 0),
        ({"locale": "en", "strength": 2}, 48),
        ({}, 40414),
    ):
        assert code_of(client, {"create": "t", "collation": collation}) == code
    database.t.create_index("x")
    full = database.t.options()["collation"]
    assert (full["strength"], full["caseLevel"], full["version"]) == (3, False, "57.1")
    assert database.t.index_information()["x_1"]["collation"] == full


# --- indexes that become unique --------------------------------------------------------------------------------------


def change_index(client: Client, **change: Any) -> Document:
    return dict(client.made.command("collMod", "c", index={"name": "x_1", **change}))


def test_an_index_that_is_prepared_lets_no_new_duplicates_in(client: Client) -> None:
    c = client.made.c
    c.insert_many([{"_id": 2, "x": 1}, {"_id": 3, "x": 5}])
    c.create_index("x")
    assert change_index(client, prepareUnique=True)["prepareUnique_new"] is True
    for refused in (
        lambda: c.insert_one({"_id": 4, "x": 1}),
        lambda: c.update_one({"_id": 3}, {"$set": {"x": 1}}),
        lambda: c.replace_one({"_id": 3}, {"x": 1}),
        lambda: c.insert_many([{"_id": 5, "x": 9}, {"_id": 6, "x": 9}]),
    ):
        with pytest.raises((DuplicateKeyError, BulkWriteError)):
            refused()
    # Those that shared a value before keep it, and may change otherwise.
    c.update_one({"_id": 2}, {"$set": {"y": 1}})
    assert c.count_documents({"x": 1}) == 2
    change_index(client, prepareUnique=False)
    c.insert_one({"_id": 4, "x": 1})


def test_a_prepared_index_becomes_unique_without_duplicates(client: Client) -> None:
    c = client.made.c
    c.insert_many([{"_id": n, "x": n} for n in range(2, 700)] + [{"_id": "a", "x": 5}, {"_id": "b", "x": 5}])
    c.create_index("x")
    with pytest.raises(OperationFailure) as unprepared:
        change_index(client, unique=True)
    assert unprepared.value.code == 72
    change_index(client, prepareUnique=True)
    with pytest.raises(OperationFailure) as refusal:
        change_index(client, unique=True)
    assert refusal.value.code == 359
    assert refusal.value.details is not None
    (violation,) = refusal.value.details["violations"]
    assert sorted(map(str, violation["ids"])) == ["5", "a", "b"]
    c.delete_many({"_id": {"$in": ["a", "b"]}})
    assert said(client.made.command("collMod", "c", index={"name": "x_1", "unique": True}, dryRun=True)) == {"ok": 1.0}
    assert [each.get("unique") for each in c.list_indexes()] == [None, None]
    assert change_index(client, unique=True)["unique_new"] is True
    assert [(each.get("unique"), each.get("prepareUnique")) for each in c.list_indexes()] == [
        (None, None),
        (True, None),
    ]
    with pytest.raises(DuplicateKeyError) as taken:
        c.insert_one({"_id": 0, "x": 5})
    assert taken.value.details is not None
    assert taken.value.details["keyValue"] == {"x": 5}


def test_each_of_many_that_shared_a_value_keeps_it(client: Client) -> None:
    c = client.made.c
    c.insert_many([{"_id": n, "x": "shared"} for n in range(2, 300)])
    c.create_index("x")
    change_index(client, prepareUnique=True)
    assert c.update_many({"x": "shared"}, {"$set": {"y": 1}}).modified_count == 298
    with pytest.raises(DuplicateKeyError):
        c.insert_one({"_id": 300, "x": "shared"})
    with pytest.raises(OperationFailure) as refusal:
        change_index(client, unique=True)
    assert refusal.value.details is not None
    (violation,) = refusal.value.details["violations"]
    assert sorted(violation["ids"]) == list(range(2, 300))


def test_a_refusal_of_uniqueness_names_some_of_many(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    c = client.made.c
    c.insert_many([{"_id": f"{n:04}", "x": n % 2} for n in range(100)])
    c.create_index("x")
    change_index(client, prepareUnique=True)
    monkeypatch.setattr(uniqueness, "MAX_VIOLATION_BYTES", 200)
    with pytest.raises(OperationFailure) as refusal:
        change_index(client, unique=True)
    assert refusal.value.details is not None
    (violation,) = refusal.value.details["violations"]
    # An element of a string of four characters named _id has 14 bytes.
    assert len(violation["ids"]) == -(-200 // 14)


def test_a_transaction_meets_the_guard(client: Client) -> None:
    c = client.made.c
    c.create_index("x")
    change_index(client, prepareUnique=True)
    with client.start_session() as session:
        session.start_transaction()
        with pytest.raises(OperationFailure) as refusal:
            c.insert_one({"_id": 4, "x": 1}, session=session)
        assert refusal.value.code == 11000
        session.abort_transaction()
    with client.start_session() as session, session.start_transaction():
        c.insert_one({"_id": 4, "x": 2}, session=session)
        c.insert_one({"_id": 5, "x": 3}, session=session)
    assert c.count_documents({}) == 3


def test_an_expired_document_is_not_in_the_way(client: Client) -> None:
    client.made.drop_collection("c")
    c = client.made.c
    c.create_index("_ts", expireAfterSeconds=-1)
    c.create_index("x", prepareUnique=True)
    c.insert_one({"_id": 1, "x": 1})
    with pytest.raises(DuplicateKeyError):
        c.insert_one({"_id": 2, "x": 1})
