"""Defects that were found where statements, pipelines and the writer meet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bson import Int64, encode
from bson.raw_bson import RawBSONDocument
from pymongo import IndexModel, MongoClient, ReturnDocument
from pymongo.errors import OperationFailure

from mayflydb.embedded import RunningServer

Client = MongoClient[dict[str, Any]]
Document = dict[str, Any]

CASELESS = {"locale": "en", "strength": 2}


@pytest.fixture
def client(mongo_client: Client) -> Client:
    """Three documents in `faults.c`, a view `v` of it, and nothing else."""
    mongo_client.drop_database("faults")
    mongo_client.faults.c.insert_many([{"_id": n, "a": [1, 2], "x": n} for n in range(3)])
    mongo_client.faults.command("create", "v", viewOn="c", pipeline=[])
    mongo_client.faults.command("create", "strict", validator={"y": 1})
    return mongo_client


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ([{"$project": {"_id": "$a"}}, {"$out": "o"}], 53),
        ([{"$project": {"_id": "$a"}}, {"$merge": "o"}], 53),
        ([{"$merge": "v"}], 166),
        ([{"$merge": "strict"}], 121),
        ([{"$out": "strict"}], 121),
    ],
    ids=str,
)
def test_a_pipeline_writes_what_a_statement_may_write(client: Client, stages: list[Document], code: int) -> None:
    with pytest.raises(OperationFailure) as caught:
        client.faults.c.aggregate(stages)
    assert caught.value.code == code
    assert client.faults.o.count_documents({}) == client.faults.strict.count_documents({}) == 0


@pytest.mark.parametrize("stage", ["$merge", "$out"])
def test_a_pipeline_may_bypass_validation(client: Client, stage: str) -> None:
    client.faults.c.aggregate([{stage: "strict"}], bypassDocumentValidation=True)
    assert client.faults.strict.count_documents({}) == 3


def test_a_validator_goes_by_the_collation_of_its_collection(client: Client) -> None:
    client.faults.command("create", "w", validator={"x": "a"})
    with pytest.raises(OperationFailure, match="failed validation"):
        client.faults.w.update_one({"_id": 1}, {"$set": {"x": "A"}}, upsert=True, collation=CASELESS)
    with pytest.raises(OperationFailure, match="failed validation"):
        client.faults.w.insert_one({"x": "A"})


def test_a_changed_document_is_shown_from_where_it_matched(client: Client) -> None:
    shown = client.faults.c.find_one_and_update(
        {"_id": 1, "a": 2}, {"$set": {"n": 1}}, {"a.$": 1}, return_document=ReturnDocument.AFTER
    )
    assert shown == {"_id": 1, "a": [2]}


def nested(levels: int) -> bytes:
    inner = b"\5\0\0\0\0"
    for _ in range(levels):
        inner = (len(inner) + 8).to_bytes(4, "little") + b"\3a\0" + inner + b"\0"
    return inner


def joined(*documents: Document) -> bytes:
    body = b"".join(encode(each)[4:-1] for each in documents) + b"\0"
    return (len(body) + 4).to_bytes(4, "little") + body


@pytest.mark.parametrize(("raw", "code"), [(nested(210), 22), (joined({"_id": 1}, {"_id": 2}), 2)], ids=["deep", "two"])
def test_documents_that_are_malformed_are_refused(client: Client, raw: bytes, code: int) -> None:
    with pytest.raises(OperationFailure) as caught:
        client.faults.d.insert_one(RawBSONDocument(raw))
    assert caught.value.code == code
    client.faults.d.insert_one({"_id": 1, "x": {"_id": 1}, "y_id": 1})


def test_concurrent_upserts_update_one_document(mongo_server: RunningServer, client: Client) -> None:
    client.faults.u.create_index("k", unique=True)

    def upsert(many: bool) -> None:
        with mongo_server.mongo.client() as own:
            change = own.faults.u.update_many if many else own.faults.u.update_one
            for k in range(25):
                change({"k": k}, {"$inc": {"n": 1}}, upsert=True)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(upsert, [False, True] * 3))
    assert [each["n"] for each in client.faults.u.find()] == [6] * 25


def test_writes_meet_drops_of_their_collection(mongo_server: RunningServer, client: Client) -> None:
    def write(kind: int) -> None:
        with mongo_server.mongo.client() as own:
            c = own.faults.s
            acts: list[Any] = [
                c.drop,
                lambda: c.insert_one({"x": 1}),
                lambda: c.update_one({"x": 1}, {"$inc": {"n": 1}}),
                lambda: c.delete_one({"x": 1}),
                lambda: c.find_one_and_update({"x": 2}, {"$inc": {"n": 1}}, upsert=True),
            ]
            for _ in range(30):
                acts[kind]()

    with ThreadPoolExecutor(5) as threads:
        list(threads.map(write, range(5)))


def test_a_failed_cursor_is_not_an_exhausted_one(client: Client) -> None:
    client.faults.f.insert_many([{"_id": n, "x": 1 if n < 1500 else "a"} for n in range(1600)])
    adding = {"$expr": {"$gt": [{"$add": ["$x", 1]}, 0]}}
    first = client.faults.command("find", "f", filter=adding, batchSize=5)["cursor"]
    more = {"getMore": Int64(first["id"]), "collection": "f", "batchSize": 1590}
    codes = [client.faults.command(more, check=False).get("code") for _ in range(2)]
    assert codes == [14, 43]


def test_a_cursor_of_a_collection_that_is_gone(client: Client) -> None:
    cursor = client.faults.c.find(batch_size=1)
    next(cursor)
    client.faults.c.drop()
    with pytest.raises(OperationFailure, match="query plan killed") as caught:
        list(cursor)
    assert caught.value.code == 175


def test_a_cursor_uses_the_present_rules(mongo_server: RunningServer, client: Client) -> None:
    client.faults.e.insert_many([{"_id": n} for n in range(300)])
    mongo_server.clock.advance(seconds=11, sweep="none")
    cursor = client.faults.e.find(batch_size=10)
    next(cursor)
    client.faults.e.create_index([("_ts", 1)], expireAfterSeconds=10)
    assert len(list(cursor)) == 9  # The rest of the first batch.


def test_concurrent_merges_update_one_document(mongo_server: RunningServer, client: Client) -> None:
    client.faults.m.create_index("k", unique=True)
    client.faults.c.insert_many([{"_id": 100 + n, "k": n} for n in range(60)])
    stages: list[Document] = [
        {"$match": {"_id": {"$gte": 100}}},
        {"$unset": "_id"},
        {"$merge": {"into": "m", "on": "k"}},
    ]

    def merge(_: int) -> None:
        with mongo_server.mongo.client() as own:
            own.faults.c.aggregate(stages)

    with ThreadPoolExecutor(5) as threads:
        list(threads.map(merge, range(5)))
    assert client.faults.m.count_documents({}) == 60


def test_of_several_unique_indexes_the_one_that_refuses_is_named(mongo_client: MongoClient[dict[str, Any]]) -> None:
    things = mongo_client["unique_builds"]["things"]
    things.insert_many([{"_id": 1, "a": 1, "b": 7}, {"_id": 2, "a": 2, "b": 7}])
    with pytest.raises(OperationFailure) as refused:
        things.create_indexes([IndexModel("a", unique=True), IndexModel("b", unique=True)])
    assert refused.value.code == 11000
    assert "index: b_1 dup key: { b: 7 }" in str(refused.value)
