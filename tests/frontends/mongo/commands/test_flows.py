"""Commands on which the drivers' specifications rely, one after the other, with their answers."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient

from frontends.mongo.replies import said
from mayflydb.embedded import RunningServer

pytestmark = pytest.mark.short

Client = MongoClient[dict[str, Any]]
Document = dict[str, Any]

DATABASE = "flows"
DOCUMENTS = [{"_id": n, "x": n * 11} for n in (1, 2, 3)]


@pytest.fixture
def client(mongo_client: Client) -> Client:
    """Three documents in `c`, a view `v` of the last two, and nothing else."""
    database = mongo_client[DATABASE]
    mongo_client.drop_database(DATABASE)
    database.c.insert_many(DOCUMENTS)
    database.command("create", "v", viewOn="c", pipeline=[{"$match": {"x": {"$gt": 11}}}])
    return mongo_client


def outcome(client: Client, command: Document) -> Document:
    database = "admin" if next(iter(command)) in ("bulkWrite", "renameCollection") else DATABASE
    return dict(client[database].command(command, check=False))


def batch(answer: Document) -> list[Document]:
    return list(answer["cursor"]["firstBatch"])


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        # let: expressions that see no document
        (
            {"find": "c", "filter": {"$expr": {"$eq": ["$_id", "$$id"]}}, "let": {"id": {"$add": [1, 1]}}},
            [{"_id": 2, "x": 22}],
        ),
        (
            {
                "aggregate": "c",
                "pipeline": [{"$limit": 1}, {"$project": {"_id": 0, "t": "$$t"}}],
                "cursor": {},
                "let": {"t": {"$literal": "$bar"}},
            },
            [{"t": "$bar"}],
        ),
        ({"find": "c", "filter": {}, "let": {"id": "$_id"}}, 4890500),
        # read concerns
        ({"find": "c", "filter": {"_id": 1}, "readConcern": {"level": "majority"}}, [{"_id": 1, "x": 11}]),
        ({"find": "c", "readConcern": {"level": "nix"}}, 2),
        ({"find": "c", "readConcern": {"level": "snapshot"}}, 246),
        ({"listCollections": 1, "readConcern": {"level": "snapshot"}}, 72),
        (
            {"aggregate": "c", "pipeline": [{"$out": "o"}], "cursor": {}, "readConcern": {"level": "linearizable"}},
            72,
        ),
        # versions of the API
        ({"ping": 1, "apiVersion": "1", "apiStrict": True}, None),
        ({"distinct": "c", "key": "x", "apiVersion": "1", "apiStrict": True}, 323),
        (
            {
                "aggregate": 1,
                "pipeline": [{"$listLocalSessions": {}}],
                "cursor": {},
                "apiVersion": "1",
                "apiStrict": True,
            },
            323,
        ),
        ({"ping": 1, "apiVersion": "2"}, 322),
        ({"ping": 1, "apiStrict": True}, 72),
        # what is refused by name
        ({"createSearchIndexes": "c", "indexes": []}, 31082),
        ({"aggregate": "c", "pipeline": [{"$listSearchIndexes": {}}], "cursor": {}}, 31082),
        ({"authenticate": 1, "mechanism": "MONGODB-X509"}, 334),
        # a stage that does not exist fails the command, one that may not be there its statement
        ({"update": "c", "updates": [{"q": {}, "u": [{"$nix": True}]}]}, 40324),
    ],
)
def test_what_commands_answer(client: Client, command: Document, expected: list[Document] | int | None) -> None:
    answer = outcome(client, command)
    if type(expected) is int:
        assert answer["code"] == expected, answer
    else:
        assert answer["ok"] == 1.0, answer
        assert expected is None or batch(answer) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ({"count": "v"}, {"n": 2}),
        ({"count": "v", "query": {"x": 33}}, {"n": 1}),
        ({"count": "v", "skip": 1, "limit": 5}, {"n": 1}),
        ({"distinct": "v", "key": "x"}, {"values": [22, 33]}),
        ({"distinct": "v", "key": "x", "query": {"_id": 3}}, {"values": [33]}),
    ],
)
def test_views_are_counted(client: Client, command: Document, expected: Document) -> None:
    assert said(outcome(client, command)) == expected | {"ok": 1.0}


@pytest.mark.parametrize(
    ("names", "more", "expected", "left"),
    [
        (("c", "d"), {}, None, ["d", "other", "v"]),
        (("c", "other"), {}, 48, ["c", "other", "v"]),
        (("c", "other"), {"dropTarget": True}, None, ["other", "v"]),
        (("c", "c"), {}, 20, ["c", "other", "v"]),
        (("nix", "d"), {}, 26, ["c", "other", "v"]),
        (("v", "d"), {}, 166, ["c", "other", "v"]),
    ],
)
def test_renaming(
    client: Client, names: tuple[str, str], more: Document, expected: int | None, left: list[str]
) -> None:
    database = client[DATABASE]
    database.other.insert_one({"_id": "other"})
    source, target = (f"{DATABASE}.{name}" for name in names)
    answer = outcome(client, {"renameCollection": source, "to": target, **more})
    assert answer.get("code") == expected
    assert sorted(database.list_collection_names()) == left
    if expected is None:
        assert list(database[names[1]].find()) == DOCUMENTS


def test_out_replaces_a_collection_again_and_again(client: Client) -> None:
    database = client[DATABASE]
    for bound in (11, 22):
        database.c.aggregate([{"$match": {"x": {"$gt": bound}}}, {"$out": "o"}])
        assert sorted(database.list_collection_names()) == ["c", "o", "v"]
        assert list(database.o.find()) == [each for each in DOCUMENTS if each["x"] > bound]


@pytest.mark.parametrize("concern", [{"w": "nix"}, {"w": 3}])
def test_write_concerns_that_cannot_be_met(client: Client, concern: Document) -> None:
    code = 79 if concern["w"] == "nix" else 100
    commands: list[Document] = [
        {"insert": "c", "documents": [{}]},
        {"create": "e"},
        {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x"}]},
        {"renameCollection": f"{DATABASE}.e", "to": f"{DATABASE}.f"},
    ]
    for command in commands:
        answer = outcome(client, command | {"writeConcern": concern})
        assert (answer["ok"], answer["writeConcernError"]["code"]) == (1.0, code), command


NAMESPACES = [{"ns": f"{DATABASE}.c"}, {"ns": f"{DATABASE}.d"}, {"ns": f"{DATABASE}.v"}]


@pytest.mark.parametrize(
    ("ops", "more", "lines", "totals"),
    [
        (
            [
                {"insert": 0, "document": {"_id": 4, "x": 44}},
                {"insert": 1, "document": {"_id": 1}},
                {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"x": 1}}},
                {"update": 0, "filter": {"x": {"$gt": 20}}, "updateMods": {"$set": {"y": 1}}, "multi": True},
                {"update": 1, "filter": {"_id": 9}, "updateMods": {"a": 1}, "upsert": True},
                {"delete": 0, "filter": {"_id": 2}},
                {"delete": 1, "filter": {}, "multi": True},
            ],
            {},
            [
                {"ok": 1.0, "idx": 0, "n": 1},
                {"ok": 1.0, "idx": 1, "n": 1},
                {"ok": 1.0, "idx": 2, "n": 1, "nModified": 1},
                {"ok": 1.0, "idx": 3, "n": 3, "nModified": 3},
                {"ok": 1.0, "idx": 4, "n": 1, "nModified": 0, "upserted": {"_id": 9}},
                {"ok": 1.0, "idx": 5, "n": 1},
                {"ok": 1.0, "idx": 6, "n": 2},
            ],
            {"nInserted": 2, "nMatched": 4, "nModified": 4, "nUpserted": 1, "nDeleted": 3},
        ),
        (
            [{"insert": 0, "document": {"_id": 1}}, {"insert": 0, "document": {"_id": 5}}],
            {},
            [{"ok": 0.0, "idx": 0, "code": 11000, "n": 0}],
            {"nErrors": 1},
        ),
        (
            [{"insert": 0, "document": {"_id": 1}}, {"insert": 0, "document": {"_id": 5}}],
            {"ordered": False, "errorsOnly": True},
            [{"ok": 0.0, "idx": 0, "code": 11000, "n": 0}],
            {"nErrors": 1, "nInserted": 1},
        ),
        (
            [{"update": 0, "filter": {"_id": 1}, "updateMods": {"$nix": {"x": 1}}}, {"delete": 0, "filter": {}}],
            {"ordered": False},
            [{"ok": 0.0, "idx": 0, "code": 9, "n": 0, "nModified": 0}, {"ok": 1.0, "idx": 1, "n": 1}],
            {"nErrors": 1, "nDeleted": 1},
        ),
        ([{"insert": 2, "document": {}}], {}, [{"ok": 0.0, "idx": 0, "code": 166, "n": 0}], {"nErrors": 1}),
        (
            [{"update": 0, "filter": {"x": 0}, "updateMods": [{"$set": {"x": "$$y"}}], "upsert": True}],
            {"let": {"y": 7}},
            [{"ok": 1.0, "idx": 0, "n": 1, "nModified": 0}],
            {"nUpserted": 1},
        ),
    ],
)
def test_bulk_writes(
    client: Client, ops: list[Document], more: Document, lines: list[Document], totals: Document
) -> None:
    answer = outcome(client, {"bulkWrite": 1, "ops": ops, "nsInfo": NAMESPACES, **more})
    assert answer["cursor"]["ns"] == "admin.$cmd.bulkWrite"
    shown = [{name: line.get(name) for name in wanted} for line, wanted in zip(batch(answer), lines, strict=True)]
    assert shown == lines
    counted = ("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted")
    assert {name: answer[name] for name in counted} == dict.fromkeys(counted, 0) | totals


@pytest.mark.parametrize(
    ("ops", "spaces", "code"),
    [
        ([], NAMESPACES, 16),
        ([{"insert": 3, "document": {}}], NAMESPACES, 2),
        ([{"replace": 0, "filter": {}}], NAMESPACES, 40415),
        ([{"insert": 0}], NAMESPACES, 40414),
        ([{"insert": 0, "document": {}, "nix": 1}], NAMESPACES, 40415),
        ([{"insert": 0, "document": {}}], [{"ns": "nowhere"}], 73),
    ],
)
def test_invalid_bulk_writes_are_refused(
    client: Client, ops: list[Document], spaces: list[Document], code: int
) -> None:
    assert outcome(client, {"bulkWrite": 1, "ops": ops, "nsInfo": spaces})["code"] == code


def test_results_of_a_bulk_write_are_read_in_batches(client: Client) -> None:
    ops = [{"insert": 1, "document": {"_id": n}} for n in range(300)]
    command = {"bulkWrite": 1, "ops": ops, "nsInfo": NAMESPACES, "cursor": {"batchSize": 2}}
    answer = outcome(client, command)
    assert [line["idx"] for line in batch(answer)] == [0, 1]
    more = client.admin.command({"getMore": Int64(answer["cursor"]["id"]), "collection": "$cmd.bulkWrite"})
    assert [line["idx"] for line in more["cursor"]["nextBatch"]] == list(range(2, 300))


def test_a_retryable_bulk_write_is_executed_once(client: Client) -> None:
    with client.start_session() as session:
        command = {
            "bulkWrite": 1,
            "ops": [
                {"insert": 1, "document": {"_id": 1}},
                {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"x": 1}}},
            ],
            "nsInfo": NAMESPACES,
            "lsid": session.session_id,
            "txnNumber": Int64(1),
        }
        first, again = (outcome(client, dict(command)) for _ in range(2))
    assert again.pop("retriedStmtIds") == [0, 1]
    assert first == again
    assert client[DATABASE].c.find_one({"_id": 1}) == {"_id": 1, "x": 12}


@pytest.mark.parametrize(
    ("command", "stages", "keys", "documents", "returned"),
    [
        ({"find": "c", "filter": {"_id": 1}}, ["IDHACK"], 1, 1, 1),
        ({"find": "c", "filter": {"y": 1}}, ["COLLSCAN"], 0, 3, 0),
        ({"find": "c", "filter": {"x": 22}}, ["FETCH", "IXSCAN"], 1, 1, 1),
        ({"find": "c", "sort": {"y": 1}, "limit": 2}, ["LIMIT", "SORT", "COLLSCAN"], 0, 3, 2),
        ({"find": "nix"}, ["EOF"], 0, 0, 0),
        ({"count": "c", "query": {"x": 22}}, ["COUNT", "FETCH", "IXSCAN"], 1, 1, 0),
        ({"distinct": "c", "key": "x"}, ["COLLSCAN"], 0, 3, 3),
        ({"delete": "c", "deletes": [{"q": {}, "limit": 0}]}, ["DELETE", "COLLSCAN"], 0, 3, 0),
        ({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 0}}}]}, ["UPDATE", "IDHACK"], 1, 1, 0),
        ({"findAndModify": "c", "query": {"_id": 2}, "remove": True}, ["DELETE", "IDHACK"], 1, 1, 0),
        ({"aggregate": "c", "pipeline": [{"$match": {"_id": 1}}], "cursor": {}}, ["IDHACK"], 1, 1, 1),
    ],
)
def test_explained(
    client: Client, command: Document, stages: list[str], keys: int, documents: int, returned: int
) -> None:
    client[DATABASE].c.create_index("x")
    answer = outcome(client, {"explain": command, "verbosity": "executionStats"})
    stage: Document | None = answer["queryPlanner"]["winningPlan"]
    found = []
    while stage:
        found.append(stage["stage"])
        stage = stage.get("inputStage")
    stats = answer["executionStats"]
    assert found == stages
    assert (stats["totalKeysExamined"], stats["totalDocsExamined"], stats["nReturned"]) == (keys, documents, returned)
    # Nothing has been written.
    assert list(client[DATABASE].c.find()) == DOCUMENTS


def test_a_pipeline_is_explained_by_its_beginning(client: Client) -> None:
    group = {"$group": {"_id": "$x"}}
    command = {"aggregate": "c", "pipeline": [{"$match": {"_id": 1}}, group], "explain": True}
    first, *rest = outcome(client, command)["stages"]
    assert first["$cursor"]["queryPlanner"]["winningPlan"] == {"stage": "IDHACK"}
    assert rest == [group]


@pytest.mark.parametrize(
    ("explained", "verbosity", "code"),
    [
        ({"find": "c"}, "much", 2),
        ({"ping": 1}, "queryPlanner", 20),
        ({"nix": 1}, "queryPlanner", 59),
        ({"find": "v"}, "queryPlanner", 238),
        ({"delete": "c", "deletes": []}, "queryPlanner", 72),
    ],
)
def test_what_is_not_explained(client: Client, explained: Document, verbosity: str, code: int) -> None:
    assert outcome(client, {"explain": explained, "verbosity": verbosity})["code"] == code


def test_statistics_count_what_is_there(client: Client) -> None:
    collection = outcome(client, {"collStats": "c"})
    assert (collection["ns"], collection["count"], collection["nindexes"]) == (f"{DATABASE}.c", 3, 1)
    assert collection["size"] == 3 * collection["avgObjSize"]
    database = outcome(client, {"dbStats": 1, "scale": 1})
    assert [database[name] for name in ("collections", "views", "objects")] == [1, 1, 3]
    assert database["dataSize"] == collection["size"]
    assert outcome(client, {"collStats": "v"})["code"] == 166
    assert outcome(client, {"collStats": "c", "scale": 0})["code"] == 2


def test_sessions_in_use_are_listed(client: Client) -> None:
    with client.start_session() as session:
        client[DATABASE].command("ping", session=session)
        found = client[DATABASE].aggregate([{"$listLocalSessions": {}}])
        assert session.session_id["id"] in [each["_id"]["id"] for each in found]


@pytest.mark.parametrize(
    ("command", "left"),
    [
        (
            {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 0}}}]},
            [{"_id": 1, "x": 0}, *DOCUMENTS[1:]],
        ),
        ({"findAndModify": "c", "query": {"_id": 1}, "update": {"x": 0}}, [{"_id": 1, "x": 0}, *DOCUMENTS[1:]]),
        (
            {
                "bulkWrite": 1,
                "ops": [
                    {"delete": 0, "filter": {"_id": 1}},
                    {"update": 0, "filter": {"_id": 2}, "updateMods": {"x": 0}},
                ],
                "nsInfo": NAMESPACES,
            },
            [{"_id": 2, "x": 0}, DOCUMENTS[2]],
        ),
    ],
)
def test_writes_in_a_transaction(client: Client, command: Document, left: list[Document]) -> None:
    collection = client[DATABASE].c
    database = client.admin if "bulkWrite" in command else client[DATABASE]
    with client.start_session() as session, session.start_transaction():
        database.command(command, session=session)
        assert list(collection.find({}, session=session).sort("_id")) == left
        assert list(collection.find().sort("_id")) == DOCUMENTS
    assert list(collection.find().sort("_id")) == left


def test_a_bulk_write_of_a_transaction_stays_out_of_admin(client: Client) -> None:
    bulk = {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "admin.c"}]}
    with client.start_session() as session:
        session.start_transaction()
        assert client.admin.command(bulk, session=session, check=False)["code"] == 263


@pytest.mark.parametrize(
    ("query", "returned", "hidden", "documents"),
    [({}, 2, 2, 2), ({"x": {"$gte": 22}}, 1, 1, 2), ({"_id": 1}, 0, 1, 0)],
)
def test_explain_counts_hidden_documents(
    mongo_server: RunningServer, client: Client, query: Document, returned: int, hidden: int, documents: int
) -> None:
    collection = client[DATABASE].c
    collection.create_index("_ts", expireAfterSeconds=60)
    collection.insert_one({"_id": 4, "x": 44, "ttl": -1})
    collection.insert_one({"_id": 5, "x": 0, "ttl": -1})
    collection.delete_one({"_id": 3})
    mongo_server.clock.advance("60s", sweep="none")
    stats = outcome(client, {"explain": {"find": "c", "filter": query}})["executionStats"]
    assert (stats["nReturned"], stats["hiddenByTtl"], stats["totalDocsExamined"]) == (returned, hidden, documents)
