"""Time series collections as clients see them: options, lists, reads, writes, indexes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64
from pymongo import InsertOne, MongoClient, UpdateMany, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, OperationFailure

from frontends.mongo.replies import said

Document = dict[str, Any]

T = 1893456000
"""The time of the server in seconds."""
_names = count()

FIELDS: Document = {"timeField": "t", "metaField": "m"}
SECONDS: Document = {"granularity": "seconds", "bucketMaxSpanSeconds": 3600}


@pytest.fixture
def db(mongo_client: MongoClient[Document]) -> Iterator[Database[Document]]:
    """A database of its own."""
    name = f"series{next(_names)}"
    yield mongo_client[name]
    mongo_client.drop_database(name)


@pytest.fixture
def series(db: Database[Document]) -> Collection[Document]:
    """A time series with a meta field."""
    return db.create_collection("w", timeseries=FIELDS)


def at(second: float) -> DatetimeMS:
    return DatetimeMS(T * 1000 + round(second * 1000))


def code_of(db: Database[Document], command: Document) -> tuple[int, str]:
    """The code and the text of the error; 0 for success."""
    try:
        db.command(command)
    except OperationFailure as refusal:
        return int(refusal.code or 0), str((refusal.details or {})["errmsg"])
    return 0, ""


# --- create --------------------------------------------------------------------------------------------------------------

WRONG = "is the wrong type"
CREATED: list[tuple[Document, Document, int, str]] = [
    ({"timeField": 5}, {}, 14, f"BSON field 'create.timeseries.timeField' {WRONG} 'int', expected type 'string'"),
    ({"timeField": "t", "metaField": 5}, {}, 14, WRONG),
    ({"timeField": "t", "granularity": 5}, {}, 14, WRONG),
    ({"timeField": "t", "bucketMaxSpanSeconds": "5"}, {}, 14, WRONG),
    ({}, {}, 40414, "BSON field 'create.timeseries.timeField' is missing but a required field"),
    ({"timeField": None}, {}, 40414, ""),
    ({"timeField": "t", "x": 1}, {}, 40415, "BSON field 'create.timeseries.x' is an unknown field."),
    ({"timeField": "a.t"}, {}, 72, "'timeField' must be a top-level field and not contain a '.'"),
    ({"timeField": "t", "metaField": "a.m"}, {}, 72, "'metaField' must be a top-level field and not contain a '.'"),
    ({"timeField": "t", "metaField": "_id"}, {}, 72, "'metaField' cannot be \"_id\""),
    ({"timeField": "t", "metaField": "t"}, {}, 72, "'metaField' cannot be the same as 'timeField'"),
    ({"timeField": "t\0"}, {}, 2, ""),
    (
        {"timeField": "t", "granularity": "days"},
        {},
        2,
        "Enumeration value 'days' for field 'create.timeseries.granularity' is not a valid value.",
    ),
    ({"timeField": "t", "bucketMaxSpanSeconds": 60}, {}, 72, ""),
    ({"timeField": "t", "bucketRoundingSeconds": 60}, {}, 72, ""),
    ({"timeField": "t", "bucketMaxSpanSeconds": 60, "bucketRoundingSeconds": 61}, {}, 72, ""),
    ({"timeField": "t", "bucketMaxSpanSeconds": 0, "bucketRoundingSeconds": 0}, {}, 2, ""),
    ({"timeField": "t", "bucketMaxSpanSeconds": 0.9, "bucketRoundingSeconds": 0.9}, {}, 2, ""),
    ({"timeField": "t", "bucketMaxSpanSeconds": float("nan"), "bucketRoundingSeconds": 1}, {}, 2, ""),
    ({"timeField": "t", "bucketMaxSpanSeconds": 31536001, "bucketRoundingSeconds": 31536001}, {}, 2, ""),
    ({"timeField": "t", "granularity": "hours", "bucketMaxSpanSeconds": 3600}, {}, 72, ""),
    ({"timeField": "t", "granularity": "seconds", "bucketRoundingSeconds": 60}, {}, 72, ""),
    (FIELDS, {"capped": True, "size": 5}, 72, "'timeseries' is not allowed with 'size'"),
    (FIELDS, {"capped": True}, 72, "'timeseries' is not allowed with 'capped'"),
    (FIELDS, {"max": 5}, 72, "'max'"),
    (FIELDS, {"validator": {}}, 72, "'validator'"),
    (FIELDS, {"validationLevel": "off"}, 72, "'validationLevel'"),
    (FIELDS, {"validationAction": "warn"}, 72, "'validationAction'"),
    (FIELDS, {"viewOn": "c"}, 72, "'viewOn'"),
    (FIELDS, {"pipeline": []}, 72, "'pipeline'"),
    (FIELDS, {"idIndex": {"key": {"_id": 1}, "name": "_id_"}}, 72, "'idIndex'"),
    (FIELDS, {"autoIndexId": True}, 72, "'autoIndexId'"),
    (FIELDS, {"clusteredIndex": False}, 72, "'clusteredIndex'"),
    (FIELDS, {"changeStreamPreAndPostImages": {"enabled": False}}, 72, "'changeStreamPreAndPostImages'"),
    (FIELDS, {"encryptedFields": {"fields": []}}, 6346401, ""),
    (FIELDS, {"expireAfterSeconds": "5"}, 14, ""),
    (FIELDS, {"expireAfterSeconds": True}, 14, ""),
    (FIELDS, {"expireAfterSeconds": -1}, 72, "TTL index 'expireAfterSeconds' option cannot be less than 0"),
    (FIELDS, {"expireAfterSeconds": float("nan")}, 72, ""),
    (FIELDS, {"expireAfterSeconds": T + 1}, 72, "must be within an acceptable range, try a lower number"),
    (FIELDS, {"expireAfterSeconds": float("inf")}, 72, "must be within an acceptable range"),
    (FIELDS, {"expireAfterSeconds": T}, 0, ""),
    (FIELDS, {"expireAfterSeconds": 0, "capped": False}, 0, ""),
    ({"timeField": "t", "granularity": "hours", "bucketMaxSpanSeconds": 2592000}, {}, 0, ""),
    ({"timeField": "t", "metaField": None, "granularity": None, "bucketMaxSpanSeconds": None}, {}, 0, ""),
    ({"timeField": "_id"}, {}, 0, ""),
    ({"timeField": "", "metaField": "$m"}, {}, 0, ""),
    ({"timeField": "t", "bucketMaxSpanSeconds": Decimal128("3.5"), "bucketRoundingSeconds": 4}, {}, 0, ""),
    ({"timeField": "t", "bucketMaxSpanSeconds": Decimal128("0.5"), "bucketRoundingSeconds": 0.5}, {}, 2, ""),
    (FIELDS, {"expireAfterSeconds": Decimal128("NaN")}, 72, ""),
    (FIELDS, {"expireAfterSeconds": Decimal128("Infinity")}, 72, "must be within an acceptable range"),
    (FIELDS, {"expireAfterSeconds": Decimal128("-Infinity")}, 72, "cannot be less than 0"),
]


@pytest.mark.parametrize(("given", "options", "code", "text"), CREATED, ids=lambda value: str(value)[:60])
def test_create_checks_the_options(
    db: Database[Document], given: Document, options: Document, code: int, text: str
) -> None:
    found, said_text = code_of(db, {"create": "w", "timeseries": given, **options})
    assert (found, text in said_text) == (code, True), said_text
    assert db.list_collection_names() == ([] if code else ["w"])


def test_timeseries_is_a_document(db: Database[Document]) -> None:
    assert code_of(db, {"create": "w", "timeseries": 5})[0] == 14
    assert code_of(db, {"create": "w", "timeseries": None})[0] == 0
    assert db.command("listCollections")["cursor"]["firstBatch"][0]["type"] == "collection"


LISTED: list[tuple[Document, Document]] = [
    ({"timeField": "t"}, {"timeField": "t", **SECONDS}),
    (FIELDS, {**FIELDS, **SECONDS}),
    ({**FIELDS, "granularity": "minutes"}, {**FIELDS, "granularity": "minutes", "bucketMaxSpanSeconds": 86400}),
    ({**FIELDS, "granularity": "hours"}, {**FIELDS, "granularity": "hours", "bucketMaxSpanSeconds": 2592000}),
    (
        {**FIELDS, "bucketMaxSpanSeconds": 31536000.0, "bucketRoundingSeconds": Decimal128("31536000")},
        {**FIELDS, "bucketMaxSpanSeconds": 31536000, "bucketRoundingSeconds": 31536000},
    ),
]


@pytest.mark.parametrize(("given", "listed"), LISTED, ids=lambda value: str(value)[:60])
def test_lists_show_the_options_with_their_defaults(db: Database[Document], given: Document, listed: Document) -> None:
    db.create_collection("w", timeseries=given, expireAfterSeconds=5)
    (line,) = db.list_collections()
    options: Document = {"expireAfterSeconds": 5, "timeseries": listed}
    assert line == {"name": "w", "type": "timeseries", "options": options, "info": {"readOnly": False}}
    assert type(db.command("listCollections")["cursor"]["firstBatch"][0]["options"]["expireAfterSeconds"]) is Int64
    db.create_collection("c")
    found = db.command("listCollections", filter={"type": "timeseries"}, nameOnly=True)["cursor"]["firstBatch"]
    assert found == [{"name": "w", "type": "timeseries"}]
    # As it is listed, it can be made again.
    db.command("create", "w", **options)
    db.command("create", "again", **options)


def test_creating_it_again_with_other_options_is_refused(db: Database[Document], series: Collection[Document]) -> None:
    assert code_of(db, {"create": "w", "timeseries": FIELDS})[0] == 0
    assert code_of(db, {"create": "w", "timeseries": {**FIELDS, **SECONDS}})[0] == 0
    for other in ({"timeseries": {"timeField": "t"}}, {"timeseries": FIELDS, "expireAfterSeconds": 5}, {}):
        assert code_of(db, {"create": "w", **other})[0] == 48
    db.create_collection("c")
    assert code_of(db, {"create": "c", "timeseries": FIELDS})[0] == 48


def test_the_options_of_a_dropped_one_do_not_stay(db: Database[Document], series: Collection[Document]) -> None:
    series.insert_one({"t": at(0)})
    assert said(db.command("drop", "w")) == {"nIndexesWas": 1, "ns": series.full_name, "ok": 1}
    assert db["system.buckets.w"].count_documents({}) == 0
    db.w.insert_one({"x": 1})
    assert db.w.options() == {}


# --- writes and reads ----------------------------------------------------------------------------------------------------

TIME = "'t' must be present and contain a valid BSON UTC datetime value"


def test_a_measurement_needs_a_date(db: Database[Document], series: Collection[Document]) -> None:
    for bad in ({}, {"t": None}, {"t": 5}, {"t": "2030-01-01"}, {"t": [at(0)]}, {"a": {"t": at(0)}}):
        reply = db.command("insert", "w", documents=[{"_id": 0, **bad}])
        assert said(reply) == {"n": 0, "writeErrors": [{"index": 0, "code": 2, "errmsg": TIME}], "ok": 1}
    documents: list[Document] = [{"_id": 1, "t": at(0)}, {"_id": 2}, {"_id": 3, "t": at(0)}]
    for ordered, ids in ((True, [1]), (False, [1, 1, 3])):
        with pytest.raises(BulkWriteError) as error:
            series.insert_many(documents, ordered=ordered)
        assert [each["index"] for each in error.value.details["writeErrors"]] == [1]
        assert sorted(each["_id"] for each in series.find()) == ids


def test_several_measurements_may_have_one_id(db: Database[Document], series: Collection[Document]) -> None:
    same: list[Document] = [{"_id": 1, "t": at(n), "n": n} for n in range(5)]
    series.insert_many(same[:3])
    series.insert_one(same[3])
    series.bulk_write([InsertOne(same[4]), InsertOne({"_id": 1.5, "t": at(0), "n": 9})])
    for query in ({"_id": 1}, {"_id": Int64(1)}, {"_id": {"$in": [1, 2]}}, {"_id": {"$eq": 1}}, {"_id": {"$lt": 1.5}}):
        assert sorted(series.find(query, {"_id": 0, "n": 1}), key=lambda each: each["n"]) == [
            {"n": n} for n in range(5)
        ]
        assert series.count_documents(query) == 5
    assert [each["n"] for each in series.find({"_id": 1}).sort("n", -1).skip(1).limit(2)] == [3, 2]
    assert series.distinct("_id") == [1, 1.5]
    assert series.estimated_document_count() == 6
    with db.client.start_session() as session, session.start_transaction():
        assert len(list(series.find({"_id": 1}, session=session))) == 5
        assert len(list(series.find({"_id": {"$in": [1, 1.5]}}, session=session))) == 6
    assert series.delete_one({"_id": 1}).deleted_count == 1
    assert series.delete_many({"_id": 1}).deleted_count == 4
    assert series.count_documents({"_id": 1}) == 0
    assert [each["_id"] for each in series.find()] == [1.5]


def test_a_measurement_stays_as_it_was_sent(db: Database[Document], series: Collection[Document]) -> None:
    series.insert_one({"_id": {"a": [1]}, "x": 1, "m": {"b": 1, "a": 2}, "t": at(0.001)})
    (found,) = db.command("find", "w")["cursor"]["firstBatch"]
    assert list(found) == ["_id", "x", "m", "t"]
    assert list(found["m"]) == ["b", "a"]
    db.command("insert", "w", documents=[{"t": at(0)}])
    assert series.count_documents({}) == 2
    assert series.find_one({"x": {"$exists": False}}, {"_id": 1})["_id"] is not None  # type: ignore[index]


def test_queries_and_pipelines_read_measurements(db: Database[Document], series: Collection[Document]) -> None:
    series.insert_many([{"t": at(60 * n), "m": {"k": n % 3}, "v": n} for n in range(300)])
    assert series.count_documents({"m.k": 1, "t": {"$gte": at(60 * 100), "$lt": at(60 * 200)}}) == 34
    assert [each["v"] for each in series.find({"m": {"k": 0}}).sort("t", -1).limit(2)] == [297, 294]
    assert series.distinct("m.k") == [0, 1, 2]
    by_series = list(series.aggregate([{"$group": {"_id": "$m.k", "v": {"$sum": "$v"}}}, {"$sort": {"_id": 1}}]))
    assert [each["v"] for each in by_series] == [14850, 14950, 15050]
    db.c.insert_one({"_id": 2})
    joined = db.c.aggregate([{"$lookup": {"from": "w", "localField": "_id", "foreignField": "m.k", "as": "all"}}])
    assert len(next(iter(joined))["all"]) == 100
    hour = {"$dateTrunc": {"date": "$t", "unit": "hour"}}
    assert len(list(series.aggregate([{"$group": {"_id": hour}}]))) == 5


def test_deletes_take_any_filter(series: Collection[Document]) -> None:
    series.insert_many([{"t": at(n), "m": n % 2, "v": n} for n in range(10)])
    assert series.delete_many({"m": 1, "v": {"$gt": 5}}).deleted_count == 2
    assert series.delete_one({"v": 0}).deleted_count == 1
    assert series.find_one_and_delete({"v": 2})["v"] == 2  # type: ignore[index]
    assert series.delete_many({"t": {"$lt": at(4)}}).deleted_count == 2
    assert sorted(each["v"] for each in series.find()) == [4, 5, 6, 8]


def test_updates_change_meta_values(series: Collection[Document]) -> None:
    series.insert_many([{"_id": 1, "t": at(n), "m": {"k": n % 2, "x": 1}, "v": n} for n in range(6)])
    assert series.update_many({"m.k": 1}, {"$set": {"m.k": 5}}).modified_count == 3
    assert series.update_many({"m.k": 7}, {"$set": {"m.k": 5}}).matched_count == 0
    assert series.update_many({"m": {"k": 5, "x": 1}}, {"$unset": {"m.x": 1}, "$inc": {"m.k": 1}}).modified_count == 3
    assert series.update_many({"$or": [{"m.k": 6}, {"m": 9}]}, {"$rename": {"m.k": "m.y"}}).modified_count == 3
    assert series.update_many({"$expr": {"$eq": ["$m.y", 6]}}, {"$set": {"m": "all"}}).modified_count == 3
    assert series.update_many({"m": "all"}, {"$unset": {"m": 1}}).modified_count == 3
    assert sorted(each["v"] for each in series.find({"m": {"$exists": False}})) == [1, 3, 5]
    assert series.bulk_write([UpdateMany({"m.k": 0}, {"$set": {"m": 0}})]).modified_count == 3


UPDATES: list[tuple[Document, str]] = [
    ({"q": {"m": 1}, "u": {"$set": {"m": 2}}}, "non-multi update"),
    ({"q": {"m": 1}, "u": {"m": 2, "t": at(0)}}, "non-multi update"),
    ({"q": {"m": 1}, "u": {"$set": {"m": 2}}, "multi": True, "upsert": True}, "upsert"),
    ({"q": {"m": 1}, "u": [{"$set": {"m": 2}}], "multi": True}, "pipeline"),
    ({"q": {"m": 1}, "u": {"$set": {"v": 2}}, "multi": True}, "changes a field"),
    ({"q": {"m": 1}, "u": {"$set": {"m": 1, "v": 2}}, "multi": True}, "changes a field"),
    ({"q": {"m": 1}, "u": {"$rename": {"m.a": "v"}}, "multi": True}, "changes a field"),
    ({"q": {"v": 1}, "u": {"$set": {"m": 2}}, "multi": True}, "whose query reads"),
    ({"q": {"$and": [{"m": 1}, {"t": at(0)}]}, "u": {"$set": {"m": 2}}, "multi": True}, "whose query reads"),
    ({"q": {"$expr": {"$eq": ["$v", 1]}}, "u": {"$set": {"m": 2}}, "multi": True}, "whose query reads"),
    ({"q": {"$where": "true"}, "u": {"$set": {"m": 2}}, "multi": True}, "whose query reads"),
]


@pytest.mark.parametrize(("statement", "text"), UPDATES, ids=lambda value: str(value)[:60])
def test_other_updates_are_refused(
    db: Database[Document], series: Collection[Document], statement: Document, text: str
) -> None:
    series.insert_one({"t": at(0), "m": 1, "v": 1})
    (error,) = db.command("update", "w", updates=[statement])["writeErrors"]
    assert (error["code"], text in error["errmsg"]) == (72, True), error


def test_writes_that_no_time_series_takes(db: Database[Document], series: Collection[Document]) -> None:
    plain = db.create_collection("plain", timeseries={"timeField": "t"})
    plain.insert_one({"t": at(0), "m": 1})
    (error,) = db.command("update", "plain", updates=[{"q": {}, "u": {"$set": {"m": 2}}, "multi": True}])["writeErrors"]
    assert (error["code"], "does not have a metaField" in error["errmsg"]) == (72, True)
    series.insert_one({"_id": 1, "t": at(0), "m": 1})
    for command in (
        {"findAndModify": "w", "query": {}, "update": {"$set": {"m": 2}}},
        {"findAndModify": "w", "query": {}, "sort": {"t": 1}, "remove": True},
    ):
        assert code_of(db, command)[0] == 72
    with pytest.raises(OperationFailure) as refused:
        series.replace_one({"m": 1}, {"t": at(0)})
    assert refused.value.code == 72
    with pytest.raises(BulkWriteError) as failed:
        series.bulk_write([UpdateOne({"m": 1}, {"$set": {"m": 2}})])
    assert failed.value.details["writeErrors"][0]["code"] == 72
    assert list(series.find({}, {"t": 0})) == [{"_id": 1, "m": 1}]


def test_transactions_read_and_do_not_write(db: Database[Document], series: Collection[Document]) -> None:
    series.insert_one({"_id": 1, "t": at(0), "m": 1})
    writes: list[Callable[[ClientSession], Any]] = [
        lambda session: series.insert_one({"t": at(0)}, session=session),
        lambda session: series.delete_many({}, session=session),
        lambda session: series.update_many({"m": 1}, {"$set": {"m": 2}}, session=session),
        lambda session: series.find_one_and_delete({}, session=session),
    ]
    for write in writes:
        with db.client.start_session() as session:
            session.start_transaction()
            assert series.find_one({"_id": 1}, session=session) is not None
            with pytest.raises(OperationFailure, match="time-series collection in a multi-document") as refused:
                write(session)
            assert refused.value.code == 263
            session.abort_transaction()
    assert series.count_documents({"m": 1}) == 1


# --- indexes -------------------------------------------------------------------------------------------------------------

INDEXES: list[tuple[Document, Document, int, str]] = [
    ({"m": 1}, {}, 0, ""),
    ({"m.a": 1, "t": -1}, {}, 0, ""),
    ({"v": 1}, {}, 0, ""),
    ({"t": 1}, {"sparse": True}, 0, ""),
    ({"m.a": "hashed"}, {}, 0, ""),
    ({"v": 1}, {"partialFilterExpression": {"m": 1}}, 0, ""),
    ({"m.$**": 1}, {}, 0, ""),
    ({"m": 1}, {"unique": True}, 72, "Unique indexes are not supported on time-series collections"),
    ({"v": "text"}, {}, 72, "Text indexes are not supported on time-series collections"),
    ({"v": 1}, {"sparse": True}, 72, "Sparse indexes are not supported on time-series measurements"),
    (
        {"v": 1},
        {"partialFilterExpression": {"m": 1}, "collation": {"locale": "en"}},
        85,
        "partialFilterExpression and collation arguments are incompatible",
    ),
    ({"$**": 1}, {}, 7246201, ""),
    ({"v": "hashed"}, {}, 67, ""),
    ({"t": "hashed"}, {}, 67, ""),
    ({"t": 1}, {"expireAfterSeconds": 5}, 72, "require a partialFilterExpression on the metaField"),
    ({"t": 1}, {"expireAfterSeconds": 5, "partialFilterExpression": {"v": 1}}, 72, "require a partialFilterExpression"),
    ({"t": 1}, {"expireAfterSeconds": 5, "partialFilterExpression": {"t": {"$gt": at(0)}}}, 72, "on the metaField"),
    ({"t": 1}, {"expireAfterSeconds": 5, "partialFilterExpression": {"m": 1, "v": 1}}, 72, "on the metaField"),
    ({"m": 1}, {"expireAfterSeconds": 5, "partialFilterExpression": {"m": 1}}, 72, "TTL indexes on non-time fields"),
    ({"v": 1}, {"expireAfterSeconds": 5, "partialFilterExpression": {"m": 1}}, 72, "TTL indexes on non-time fields"),
    ({"_ts": 1}, {"expireAfterSeconds": 5}, 72, "TTL indexes on non-time fields"),
    ({"t": 1, "m": 1}, {"expireAfterSeconds": 5}, 67, "TTL indexes are single-field indexes"),
    ({"t": 1}, {"expireAfterSeconds": 5, "partialFilterExpression": {"m.a": {"$gt": 5}}}, 0, ""),
    ({"t": -1}, {"expireAfterSeconds": 0, "partialFilterExpression": {"m": {"$in": [1, 2]}}}, 0, ""),
]


@pytest.mark.parametrize(("key", "options", "code", "text"), INDEXES, ids=lambda value: str(value)[:60])
def test_which_indexes_there_are(
    db: Database[Document], series: Collection[Document], key: Document, options: Document, code: int, text: str
) -> None:
    series.insert_many([{"t": at(n), "m": {"a": n}, "v": n} for n in range(3)])
    spec = {"key": key, "name": "i", **options}
    found, said_text = code_of(db, {"createIndexes": "w", "indexes": [spec]})
    assert (found, text in said_text) == (code, True), said_text
    automatic = {"v": 2, "key": {"m": 1, "t": 1}, "name": "m_1_t_1"}
    assert list(series.list_indexes()) == [automatic, *([] if code else [{"v": 2, **spec}])]


def test_the_automatic_index_is_one_like_others(db: Database[Document], series: Collection[Document]) -> None:
    series.insert_many([{"t": at(n), "m": n % 2} for n in range(10)])
    plan = series.find({"m": 1, "t": {"$gt": at(5)}}).explain()
    assert "m_1_t_1" in str(plan["queryPlanner"]["winningPlan"])
    assert series.count_documents({"m": 1, "t": {"$gt": at(5)}}) == 2
    assert code_of(db, {"dropIndexes": "w", "index": "_id_"})[0] == 27
    series.drop_index("m_1_t_1")
    assert list(series.list_indexes()) == []
    assert series.count_documents({"m": 1, "t": {"$gt": at(5)}}) == 2
    assert list(db.create_collection("p", timeseries={"timeField": "t"}).list_indexes()) == []
    # Measurements that come later join the buckets of before.
    series.insert_one({"t": at(20), "m": 1})
    assert db.command("collStats", "w")["timeseries"]["bucketCount"] == 2


# --- what else refers to collections -------------------------------------------------------------------------------------


def test_statistics_count_buckets(db: Database[Document], series: Collection[Document]) -> None:
    names = {"bucketsNs": f"{db.name}.system.buckets.w", "bucketCount": 0}
    assert db.command("collStats", "w")["timeseries"] == names
    for n in (1, 130, 300):
        series.insert_many([{"t": at(k % 50), "m": n} for k in range(n)])
    series.insert_many([{"t": at(k * 3600), "m": 0} for k in range(200)])
    stats = db.command("collStats", "w")
    assert stats["timeseries"] == {**names, "bucketCount": 203, "avgBucketSize": stats["size"] // 203}
    assert "count" not in stats
    assert "avgObjSize" not in stats
    (line,) = series.aggregate([{"$collStats": {"count": {}, "storageStats": {}}}])
    assert (line["count"], line["storageStats"]["timeseries"]["bucketCount"]) == (203, 203)
    assert db.command("dbStats")["objects"] == 203
    series.delete_many({"m": 0, "t": {"$lt": at(3600 * 100)}})
    assert db.command("collStats", "w")["timeseries"]["bucketCount"] == 103


REFUSED: list[tuple[Document, int]] = [
    ({"find": "system.buckets.w"}, 73),
    ({"find": "w", "tailable": True}, 168),
    ({"collMod": "w", "expireAfterSeconds": None}, 14),
    ({"insert": "system.buckets.w", "documents": [{"x": 1}]}, 73),
    ({"drop": "system.buckets.w"}, 73),
    ({"aggregate": "w", "pipeline": [{"$changeStream": {}}], "cursor": {}}, 166),
    ({"collMod": "w", "validator": {"x": 1}}, 72),
    ({"renameCollection": "{db}.w", "to": "{db}.other"}, 166),
    ({"renameCollection": "{db}.c", "to": "{db}.w", "dropTarget": True}, 48),
    ({"create": "system.buckets.w"}, 73),
    ({"aggregate": "c", "pipeline": [{"$merge": "w"}], "cursor": {}}, 166),
    (
        {"aggregate": "w", "pipeline": [{"$out": {"db": "{db}", "coll": "c", "timeseries": FIELDS}}], "cursor": {}},
        7268700,
    ),
    (
        {
            "aggregate": "c",
            "pipeline": [{"$out": {"db": "{db}", "coll": "w", "timeseries": {"timeField": "t"}}}],
            "cursor": {},
        },
        7406103,
    ),
    ({"aggregate": "c", "pipeline": [{"$out": {"db": "{db}", "coll": "n", "timeseries": 5}}], "cursor": {}}, 14),
    ({"aggregate": "c", "pipeline": [{"$out": {"db": "{db}", "coll": "n", "timeseries": {}}}], "cursor": {}}, 40414),
    ({"aggregate": "c", "pipeline": [{"$out": "w"}], "cursor": {}}, 2),
]


@pytest.mark.parametrize(("command", "code"), REFUSED, ids=lambda value: str(value)[:80])
def test_commands_that_are_refused(
    db: Database[Document], series: Collection[Document], command: Document, code: int
) -> None:
    series.insert_one({"_id": 1, "t": at(0)})
    db.c.insert_one({"x": 1})

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: named(each) for name, each in value.items()}
        if isinstance(value, list):
            return [named(each) for each in value]
        return value.replace("{db}", db.name) if isinstance(value, str) else value

    where = db.client.admin if "renameCollection" in command else db
    assert code_of(where, named(command))[0] == code
    assert list(series.find({}, {"t": 0})) == [{"_id": 1}]
    assert sorted(db.list_collection_names()) == ["c", "w"]


def test_out_fills_a_time_series(db: Database[Document], series: Collection[Document]) -> None:
    db.c.insert_many([{"at": at(n), "k": n % 2} for n in range(10)])
    shape = [{"$project": {"_id": 1, "t": "$at", "m": "$k"}}]
    made = {"db": db.name, "coll": "made", "timeseries": {**FIELDS, "granularity": "hours"}}
    for _ in range(2):
        db.c.aggregate([*shape, {"$out": made}])
        assert db.made.count_documents({"m": 1}) == 5
        assert db.made.options()["timeseries"]["granularity"] == "hours"
    series.create_index("v")
    db.c.aggregate([*shape, {"$out": "w"}])
    assert (series.count_documents({}), series.options()["timeseries"]) == (10, {**FIELDS, **SECONDS})
    assert [each["name"] for each in series.list_indexes()] == ["m_1_t_1", "v_1"]
    assert db.command("collStats", "w")["timeseries"]["bucketCount"] == 2


def test_views_read_a_time_series(db: Database[Document], series: Collection[Document]) -> None:
    db.command("create", "v", viewOn="w", pipeline=[{"$match": {"m": 1}}])
    series.insert_many([{"_id": 1, "t": at(n), "m": n % 2} for n in range(4)])
    assert len(list(db.v.find({"_id": 1}))) == 2


def test_a_large_series_is_written_and_read_in_batches(series: Collection[Document]) -> None:
    pad = "x" * 20_000
    series.insert_many([{"_id": 1, "t": at(n), "m": {"k": n % 2}, "pad": pad} for n in range(400)])
    assert len(list(series.find({"_id": 1}, batch_size=50))) == 400
    assert series.update_many({"m.k": 1}, {"$set": {"m.z": pad}}).modified_count == 200
    assert series.delete_many({"_id": 1, "m.k": 0}).deleted_count == 200
    assert series.count_documents({}) == 200
